package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// record is one node of an export: a line of JSON. Data is text if it is UTF-8 and base64 otherwise; neither is null data.
type record struct {
	Path       string        `json:"path"` // below the root of the export, "/" for the root itself
	Data       *string       `json:"data,omitempty"`
	DataBase64 []byte        `json:"dataBase64,omitempty"`
	Container  bool          `json:"container,omitempty"`
	TTL        int64         `json:"ttlMs,omitempty"`
	ACL        []recordedACL `json:"acl,omitempty"`
}

type recordedACL struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

// heading is the first line of an export. Nodes lets import see a file that was cut off.
type heading struct {
	Format string `json:"format"`
	Root   string `json:"root"`
	Nodes  int    `json:"nodes"`
}

const exportFormat = "zkcli-export-1"

// snapshotOf reads a subtree as records, without the ephemeral nodes, which belong to their sessions. skipped counts these.
func snapshotOf(ctx context.Context, sh *shell, c *client.Client, root string) (records []record, skipped int, err error) {
	nodes, err := walk(ctx, sh, c, root, wish{data: true, acl: true, depth: everything})
	if err != nil {
		return nil, 0, err
	}
	if err := refusals(nodes); err != nil {
		return nil, 0, err
	}
	for _, n := range nodes {
		if isEphemeral(&n.stat) {
			skipped++
			continue
		}
		if proto.IsReserved(n.path) && n.path != root || strings.HasPrefix(n.path, "/zookeeper/") {
			continue
		}
		records = append(records, recordOf(root, &n))
	}
	return records, skipped, nil
}

func recordOf(root string, n *walked) record {
	r := record{Path: "/" + strings.TrimPrefix(strings.TrimPrefix(n.path, root), "/")}
	switch {
	case n.data == nil:
	case utf8.Valid(n.data):
		s := string(n.data)
		r.Data = &s
	default:
		r.DataBase64 = n.data
	}
	if ttl, special := specialOwner(&n.stat); special {
		r.Container, r.TTL = ttl == 0, ttl.Milliseconds()
	}
	for _, e := range n.acl {
		r.ACL = append(r.ACL, recordedACL{e.ID.Scheme, e.ID.ID, e.Perms.String()})
	}
	return r
}

func (r *record) data() []byte {
	if r.Data != nil {
		return []byte(*r.Data)
	}
	return r.DataBase64
}

func (r *record) acl() ([]client.ACL, error) {
	var acl []client.ACL
	for _, e := range r.ACL {
		perms, err := parsePerms(e.Perms)
		if err != nil {
			return nil, err
		}
		acl = append(acl, client.ACL{Perms: perms, ID: proto.ID{Scheme: e.Scheme, ID: e.ID}})
	}
	return acl, nil
}

// under is the record's path below another root.
func (r *record) under(root string) string {
	if r.Path == "/" {
		return root
	}
	return strings.TrimSuffix(root, "/") + r.Path
}

// plan is how records are written.
type plan struct {
	acls  bool // restore them
	force bool // into nodes that are there
}

// plant writes records below root, pipelined, parents first. It stops at the first failure.
func plant(ctx context.Context, sh *shell, c *client.Client, root string, records []record, p plan) error {
	if !p.force && root != "/" {
		if _, found, err := c.Exists(ctx, root); err != nil {
			return err
		} else if found {
			return &client.OpError{Op: proto.OpCreate, Path: root, Err: client.ErrNodeExists}
		}
	}
	if err := c.CreateAll(ctx, proto.Parent(root), nil); err != nil {
		return err
	}
	prog := sh.progress("written", len(records))
	defer prog.end()
	const chunk = 500
	all := len(records)
	for len(records) > 0 {
		n := min(chunk, len(records))
		if err := plantChunk(ctx, c, root, records[:n], p); err != nil {
			return partly(err, "were written", all-len(records), all)
		}
		records = records[n:]
		prog.add(n)
	}
	return nil
}

func plantChunk(ctx context.Context, c *client.Client, root string, records []record, p plan) error {
	there, err := existing(ctx, c, root, records, p.force)
	if err != nil {
		return err
	}
	b := c.Batch(ctx)
	for i, r := range records {
		path := r.under(root)
		var acl []client.ACL
		if p.acls {
			if acl, err = r.acl(); err != nil {
				return err
			}
		}
		switch {
		case there[i]:
			b.Set(path, r.data(), client.AnyVersion)
		case r.TTL > 0:
			b.CreateTTL(path, r.data(), client.PersistentTTL, time.Duration(r.TTL)*time.Millisecond, acl)
		case r.Container:
			b.Create(path, r.data(), client.Container, acl)
		default:
			b.Create(path, r.data(), client.Persistent, acl)
		}
	}
	return b.Wait()
}

// existing tells which of the records' nodes are there, if that matters.
func existing(ctx context.Context, c *client.Client, root string, records []record, matters bool) ([]bool, error) {
	there := make([]bool, len(records))
	for i, r := range records {
		if r.under(root) == "/" {
			there[i] = true
		}
	}
	if !matters {
		return there, nil
	}
	b := c.Batch(ctx)
	got := make([]*client.Got, len(records))
	for i, r := range records {
		got[i] = b.Get(r.under(root))
	}
	if err := b.Wait(); err != nil {
		return nil, err
	}
	for i, g := range got {
		if g.Err != nil && !errors.Is(g.Err, client.ErrNoNode) {
			return nil, g.Err
		}
		there[i] = g.Err == nil
	}
	return there, nil
}

// elsewhere returns the client and the path that an argument names: "/path" on our servers, "host:port,…/path" on others,
// which done closes.
func (sh *shell) elsewhere(ctx context.Context, where, auth string) (c *client.Client, path string, done func(), err error) {
	if strings.HasPrefix(where, "/") {
		return sh.c, where, func() {}, nil
	}
	servers, rest, _ := strings.Cut(where, "/")
	var opts []client.Option
	if auth != "" {
		opts = append(opts, client.WithAuth("digest", []byte(auth)))
	}
	limited, cancel := context.WithTimeout(ctx, sh.cfg.timeout)
	defer cancel()
	if c, err = sh.dial(limited, servers, opts...); err != nil {
		return nil, "", nil, err
	}
	return c, "/" + rest, func() { c.Close() }, nil
}

func cp(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	from, source, done, err := sh.elsewhere(ctx, a.arg(0), a.str("auth"))
	if err != nil {
		return res, err
	}
	defer done()
	to, target, done, err := sh.elsewhere(ctx, a.arg(1), a.str("auth"))
	if err != nil {
		return res, err
	}
	defer done()
	if from == to && within(target, source) {
		return res, wrongUsage("cp", "the target lies within the source")
	}
	records, skipped, err := snapshotOf(ctx, sh, from, source)
	if err != nil {
		return res, err
	}
	if err := plant(ctx, sh, to, target, records, plan{acls: a.has("a"), force: a.has("f")}); err != nil {
		return res, err
	}
	res.field("copied", len(records))
	res.field("skipped", skipped)
	res.note = "Copied " + plural(int64(len(records)), "node") + skippedNote(skipped)
	return res, nil
}

func skippedNote(n int) string {
	if n == 0 {
		return "\n"
	}
	return ", left out " + plural(int64(n), "ephemeral node") + "\n"
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// mv is one transaction if it fits into one. Otherwise it copies and then deletes what it has copied, each node only if it
// has not changed.
func mv(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	source, target := a.arg(0), a.arg(1)
	if within(target, source) || proto.IsReserved(source) {
		return res, wrongUsage("mv", "the target lies within the source, or the source cannot be deleted")
	}
	nodes, err := walk(ctx, sh, sh.c, source, wish{data: true, acl: true, depth: everything})
	if err != nil {
		return res, err
	}
	if err := refusals(nodes); err != nil {
		return res, err
	}
	bytes := 0
	for _, n := range nodes {
		if isEphemeral(&n.stat) {
			return res, fmt.Errorf("%s is ephemeral: it belongs to its session and cannot be moved", n.path)
		}
		bytes += len(n.data) + 2*len(n.path) + len(target)
	}
	if err := sh.c.CreateAll(ctx, proto.Parent(target), nil); err != nil {
		return res, err
	}
	if len(nodes) <= defaultBatch/2 && bytes < maxBatchBytes {
		err = sh.moveAtOnce(ctx, nodes, source, target, a.has("a"))
	} else {
		err = sh.moveInSteps(ctx, nodes, source, target, a.has("a"))
	}
	if err != nil {
		return res, err
	}
	res.field("moved", len(nodes))
	res.note = "Moved " + plural(int64(len(nodes)), "node") + "\n"
	return res, nil
}

func (sh *shell) moveAtOnce(ctx context.Context, nodes []walked, source, target string, acls bool) error {
	var m client.Multi
	for i := range nodes {
		r := recordOf(source, &nodes[i])
		var acl []client.ACL
		if acls {
			acl = nodes[i].acl
		}
		switch path := r.under(target); {
		case r.TTL > 0:
			m.CreateTTL(path, nodes[i].data, client.PersistentTTL, time.Duration(r.TTL)*time.Millisecond, acl)
		case r.Container:
			m.Create(path, nodes[i].data, client.Container, acl)
		default:
			m.Create(path, nodes[i].data, client.Persistent, acl)
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		m.Delete(nodes[i].path, nodes[i].stat.Version)
	}
	return sh.c.Multi(ctx, &m)
}

func (sh *shell) moveInSteps(ctx context.Context, nodes []walked, source, target string, acls bool) error {
	var records []record
	for i := range nodes {
		records = append(records, recordOf(source, &nodes[i]))
	}
	if err := plant(ctx, sh, sh.c, target, records, plan{acls: acls}); err != nil {
		return err
	}
	b := sh.c.Batch(ctx)
	for i := len(nodes) - 1; i >= 0; i-- {
		b.Delete(nodes[i].path, nodes[i].stat.Version)
	}
	if err := b.Wait(); err != nil {
		return errors.Join(spoken("The copy is complete, but the source has changed meanwhile and is still there in part."), err)
	}
	return nil
}

func export(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	records, skipped, err := snapshotOf(ctx, sh, sh.c, a.path())
	if err != nil {
		return res, err
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(heading{exportFormat, a.path(), len(records)}); err != nil {
		return res, err
	}
	for i := range records {
		if err := enc.Encode(&records[i]); err != nil {
			return res, err
		}
	}
	res.field("exported", len(records))
	res.field("skipped", skipped)
	if file := a.arg(1); file != "" && file != "-" {
		res.note = "Exported " + plural(int64(len(records)), "node") + skippedNote(skipped)
		return res, os.WriteFile(file, []byte(b.String()), 0o666)
	}
	if sh.json {
		sh.screen.stdout(b.String()) // the lines are JSON already
		res.quiet = true
	}
	res.text = b.String()
	return res, nil
}

// readExport reads and checks a whole export before anything is done with it.
func readExport(in io.Reader, name string) ([]record, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	var head heading
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil || head.Format != exportFormat {
		return nil, errors.Join(fmt.Errorf("%s is no export of zkcli", name), lines.Err())
	}
	var records []record
	known := map[string]bool{}
	for n := 2; lines.Scan(); n++ {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		if proto.ValidatePath(r.Path) != nil || known[r.Path] || len(known) > 0 && !known[proto.Parent(r.Path)] {
			return nil, fmt.Errorf("%s, line %d: %q is no path, or there twice, or before its parent", name, n, r.Path)
		}
		if _, err := r.acl(); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		known[r.Path] = true
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(records) != head.Nodes {
		return nil, fmt.Errorf("%s was cut off: it has %d of %s", name, len(records), plural(int64(head.Nodes), "node"))
	}
	return records, nil
}

// exported reads the export in a file, or on standard input for "-" and "".
func (sh *shell) exported(file string) ([]record, error) {
	if file == "" || file == "-" {
		return readExport(sh.stdin, "standard input")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readExport(f, file)
}

func importTree(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	records, err := sh.exported(a.arg(1))
	if err != nil {
		return res, err
	}
	if err := plant(ctx, sh, sh.c, a.path(), records, plan{acls: a.has("a"), force: a.has("f")}); err != nil {
		return res, err
	}
	res.field("imported", len(records))
	res.note = "Imported " + plural(int64(len(records)), "node") + "\n"
	return res, nil
}

// side reads one side of a diff: a subtree here or on other servers, or the file of an export.
func (sh *shell) side(ctx context.Context, where, auth string) ([]record, error) {
	if _, err := os.Stat(where); err == nil && !strings.HasPrefix(where, "/") {
		return sh.exported(where)
	}
	if file, ok := strings.CutPrefix(where, "file:"); ok {
		return sh.exported(file)
	}
	if !strings.Contains(where, "/") { // no node, here or elsewhere
		return sh.exported(where)
	}
	c, path, done, err := sh.elsewhere(ctx, where, auth)
	if err != nil {
		return nil, err
	}
	defer done()
	records, _, err := snapshotOf(ctx, sh, c, path)
	return records, err
}

// diff prints "- path" for a node that only the first side has, "+ path" for one that only the second has, "~ path" for one
// that differs.
func diff(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	one, err := sh.side(ctx, a.arg(0), a.str("auth"))
	if err != nil {
		return res, err
	}
	other, err := sh.side(ctx, a.arg(1), a.str("auth"))
	if err != nil {
		return res, err
	}
	differences := compare(one, other, a.has("a"))
	fields := []map[string]any{}
	for _, d := range differences {
		color := map[byte]string{'-': red, '+': green, '~': yellow}[d.sign]
		res.text += sh.screen.paint(color, fmt.Sprintf("%c %s", d.sign, d.path)) + d.detail + "\n"
		fields = append(fields, map[string]any{"change": string(d.sign), "path": d.path, "detail": strings.TrimSpace(d.detail)})
	}
	res.field("differences", fields)
	if len(differences) > 0 {
		return res, &negative{plural(int64(len(differences)), "difference")}
	}
	return res, nil
}

type difference struct {
	sign         byte
	path, detail string
}

// compare walks two sorted lists of records.
func compare(one, other []record, acls bool) []difference {
	var out []difference
	for len(one) > 0 || len(other) > 0 {
		order := 0
		switch {
		case len(one) == 0:
			order = 1
		case len(other) == 0:
			order = -1
		default:
			order = comparePaths(one[0].Path, other[0].Path)
		}
		switch {
		case order < 0:
			out = append(out, difference{'-', one[0].Path, ""})
			one = one[1:]
		case order > 0:
			out = append(out, difference{'+', other[0].Path, ""})
			other = other[1:]
		default:
			if detail := contrast(&one[0], &other[0], acls); detail != "" {
				out = append(out, difference{'~', one[0].Path, detail})
			}
			one, other = one[1:], other[1:]
		}
	}
	return out
}

// contrast says how two nodes differ, "" if they do not.
func contrast(a, b *record, acls bool) string {
	detail := ""
	if x, y := a.data(), b.data(); string(x) != string(y) || (x == nil) != (y == nil) {
		detail += "  data " + brief(x) + " → " + brief(y)
	}
	if a.Container != b.Container || a.TTL != b.TTL {
		detail += "  kind"
	}
	if acls && fmt.Sprint(a.ACL) != fmt.Sprint(b.ACL) {
		detail += "  acl"
	}
	return detail
}

func brief(data []byte) string {
	const short = 40
	switch {
	case data == nil:
		return "null"
	case len(data) > short || !utf8.Valid(data):
		return human(int64(len(data)))
	}
	return fmt.Sprintf("%q", data)
}
