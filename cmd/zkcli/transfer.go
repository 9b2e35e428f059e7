package main

import (
	"context"
	"errors"
	"fmt"
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
	acls    bool // restore them
	force   bool // into nodes that are there
	parents bool // make those of the root that are missing
}

func planOf(a *arguments) plan {
	return plan{acls: a.has("a"), force: a.has("f"), parents: a.has("p")}
}

// prepare sees to the parent of root, the node that is to be made, and that root itself is not there if it must not be.
func (p plan) prepare(ctx context.Context, c *client.Client, root string) error {
	if root == "/" {
		return nil
	}
	if p.parents {
		if err := c.CreateAll(ctx, proto.Parent(root), nil); err != nil {
			return err
		}
	} else if _, found, err := c.Exists(ctx, proto.Parent(root)); err != nil {
		return err
	} else if !found {
		return &client.OpError{Op: proto.OpCreate, Path: root, Err: client.ErrNoNode}
	}
	if p.force {
		return nil
	}
	_, found, err := c.Exists(ctx, root)
	if err == nil && found {
		err = &client.OpError{Op: proto.OpCreate, Path: root, Err: client.ErrNodeExists}
	}
	return err
}

// plant writes records below root, pipelined, parents first. It stops at the first failure.
func plant(ctx context.Context, sh *shell, c *client.Client, root string, records []record, p plan) error {
	if err := p.prepare(ctx, c, root); err != nil {
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

// elsewhereError is the failure of something on other servers: what ours could tell about the path is nothing to it.
type elsewhereError struct {
	servers string
	err     error
}

func (e *elsewhereError) Error() string { return e.err.Error() + " on " + e.servers }
func (e *elsewhereError) Unwrap() error { return e.err }

// onServers marks err as that of the servers that where names, if they are others.
func onServers(where string, err error) error {
	servers, _, _ := strings.Cut(where, "/")
	if err == nil || servers == "" {
		return err
	}
	return &elsewhereError{servers, err}
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
		return res, onServers(a.arg(0), err)
	}
	if err := plant(ctx, sh, to, target, records, planOf(a)); err != nil {
		return res, onServers(a.arg(1), err)
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
	p := planOf(a)
	if err := p.prepare(ctx, sh.c, target); err != nil {
		return res, err
	}
	if len(nodes) <= defaultBatch/2 && bytes < maxBatchBytes {
		err = sh.moveAtOnce(ctx, nodes, source, target, p)
	} else {
		err = sh.moveInSteps(ctx, nodes, source, target, p)
	}
	if err != nil {
		return res, err
	}
	res.field("moved", len(nodes))
	res.note = "Moved " + plural(int64(len(nodes)), "node") + "\n"
	return res, nil
}

func (sh *shell) moveAtOnce(ctx context.Context, nodes []walked, source, target string, p plan) error {
	var m client.Multi
	for i := range nodes {
		r := recordOf(source, &nodes[i])
		var acl []client.ACL
		if p.acls {
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

func (sh *shell) moveInSteps(ctx context.Context, nodes []walked, source, target string, p plan) error {
	var records []record
	for i := range nodes {
		records = append(records, recordOf(source, &nodes[i]))
	}
	if err := plant(ctx, sh, sh.c, target, records, p); err != nil {
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
