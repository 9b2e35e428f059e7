package datatree

import (
	"slices"
	"strconv"
	"strings"
)

// A quota on the subtree at P is two nodes, as ZooKeeper's tools write them: quotaRoot + P + limitsName says how much there may
// be, quotaRoot + P + statsName how much there is. The limits node makes the quota active; the stats node's data is kept up to
// date by every change below P, unless a quota lies deeper. That is no transaction: of the stats node only the data changes, and
// nobody is told.
const (
	quotaRoot  = "/zookeeper/quota"
	limitsName = "/zookeeper_limits"
	statsName  = "/zookeeper_stats"
)

// LimitsOfNothing is a path that no create may have: a limits node for the whole tree takes the original down.
const LimitsOfNothing = quotaRoot + limitsName

// unlimited stands for a limit that is not set, and for a figure that is not known.
const unlimited = -1

// figures is the data of a limits or stats node: numbers by name.
type figures map[string]int64

// The names that mean something. Others are kept.
const (
	countKey     = "count"
	bytesKey     = "bytes"
	hardCountKey = "countHardLimit"
	hardBytesKey = "byteHardLimit"
)

func (f figures) get(key string) int64 {
	if v, ok := f[key]; ok {
		return v
	}
	return unlimited
}

// parseFigures reads pairs such as count=3,bytes=-1=;countHardLimit=4. Data that makes no sense has no figures.
func parseFigures(data string) figures {
	f := figures{}
	for _, pair := range strings.FieldsFunc(data, func(c rune) bool { return c == ',' || c == ';' }) {
		key, rest, ok := strings.Cut(pair, "=")
		value, _, _ := strings.Cut(rest, "=")
		n := int64(unlimited)
		if value != "" {
			var err error
			if n, err = strconv.ParseInt(value, 10, 64); err != nil {
				return figures{}
			}
		}
		if !ok {
			return figures{}
		}
		f[key] = n
	}
	return f
}

// append writes figures as ZooKeeper does, with the = that it puts before the first further key.
func (f figures) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, countKey+"="...), f.get(countKey), 10)
	dst = strconv.AppendInt(append(dst, ","+bytesKey+"="...), f.get(bytesKey), 10)
	var more []string
	for key := range f {
		if key != countKey && key != bytesKey {
			more = append(more, key)
		}
	}
	slices.Sort(more)
	for i, key := range more {
		if i == 0 {
			dst = append(dst, '=')
		}
		dst = append(append(append(dst, ';'), key...), '=')
		dst = strconv.AppendInt(dst, f[key], 10)
	}
	return dst
}

// quotaOf returns the subtree that a limits or stats node is about; ok is false for any other path.
func quotaOf(path, name string) (subtree string, ok bool) {
	rest, ok := strings.CutPrefix(path, quotaRoot)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, name)
}

// quotaAt returns the deepest subtree with an active quota that path lies in, "" if there is none.
func (t *Tree) quotaAt(path string) string {
	if len(t.quotas) == 0 {
		return ""
	}
	for len(path) > 1 {
		if _, active := t.quotas[path]; active {
			return path
		}
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
	}
	return ""
}

// charge adds to the figures of the quota that path lies in.
func (t *Tree) charge(path string, count, bytes int64) {
	subtree := t.quotaAt(path)
	if subtree == "" {
		return
	}
	if stats := t.nodes.get(quotaRoot + subtree + statsName); stats != nil {
		data, _ := stats.Data()
		f := parseFigures(data)
		f[countKey], f[bytesKey] = f.get(countKey)+count, f.get(bytesKey)+bytes
		t.change(stats, func(n *Node) { t.setData(n, f.append(nil)) })
	}
}

// recount puts the true figures of a subtree, quotas within included, into its stats node, if it has one.
func (t *Tree) recount(subtree string) {
	stats := t.nodes.get(quotaRoot + subtree + statsName)
	if stats == nil {
		return
	}
	f := figures{countKey: 0, bytesKey: 0}
	if n := t.Get(subtree); n != nil {
		t.measure(n, f)
	}
	t.change(stats, func(n *Node) { t.setData(n, f.append(nil)) })
}

func (t *Tree) measure(n *Node, f figures) {
	data, _ := n.Data()
	f[countKey]++
	f[bytesKey] += int64(len(data))
	if n.numChildren == 0 {
		return
	}
	t.Children(n, func(child *Node) bool {
		t.measure(child, f)
		return true
	})
}

// quotaCreated looks after a create.
func (t *Tree) quotaCreated(n *Node) {
	path := n.Path()
	if subtree, ok := quotaOf(path, limitsName); ok && subtree != "" {
		t.quotas[strings.Clone(subtree)] = struct{}{}
	}
	if subtree, ok := quotaOf(path, statsName); ok {
		t.recount(subtree)
	}
	t.charge(path, 1, int64(len(n.payload)-len(path)))
}

// quotaDeleted looks after a delete.
func (t *Tree) quotaDeleted(n *Node) {
	path := n.Path()
	if subtree, ok := quotaOf(path, limitsName); ok {
		delete(t.quotas, subtree)
	}
	t.charge(path, -1, int64(len(path)-len(n.payload)))
}

// loadQuotas makes the quotas of a tree that was just loaded active, with true figures.
func (t *Tree) loadQuotas() {
	root := t.nodes.get(quotaRoot)
	if root == nil {
		return
	}
	var visit func(n *Node)
	visit = func(n *Node) {
		if subtree, ok := quotaOf(n.Path(), limitsName); ok && subtree != "" && n.numChildren == 0 {
			t.quotas[strings.Clone(subtree)] = struct{}{}
			t.recount(subtree)
		}
		if n.numChildren > 0 {
			var children []*Node // recount changes the order's nodes
			t.Children(n, func(child *Node) bool { children = append(children, child); return true })
			for _, child := range children {
				visit(child)
			}
		}
	}
	visit(root)
}

// Overrun says that a subtree holds more than its quota allows.
type Overrun struct {
	Subtree      string
	What         string // "count" or "bytes"
	Usage, Limit int64
}

// HasQuotas reports whether any quota is active.
func (t *Tree) HasQuotas() bool { return len(t.quotas) > 0 }

// OverSoft returns what the quota that path lies in warns about: soft limits that are exceeded.
func (t *Tree) OverSoft(path string) []Overrun {
	subtree := t.quotaAt(path)
	limits, usage := t.quotaNodes(subtree)
	if limits == nil {
		return nil
	}
	var over []Overrun
	for _, key := range []string{countKey, bytesKey} {
		if limit, is := limits.get(key), usage.get(key); limit > unlimited && is > limit {
			over = append(over, Overrun{Subtree: subtree, What: key, Usage: is, Limit: limit})
		}
	}
	return over
}

// FitsQuota reports whether so many more nodes and bytes at path stay within the hard limits of the quota that it lies in. To
// reach a limit is allowed. What does not grow a figure is not held against it.
func (t *Tree) FitsQuota(path string, count, bytes int64) bool {
	limits, usage := t.quotaNodes(t.quotaAt(path))
	if limits == nil {
		return true
	}
	fits := func(hard, key string, more int64) bool {
		limit := limits.get(hard)
		return more == 0 || limit <= unlimited || usage.get(key)+more <= limit
	}
	return fits(hardCountKey, countKey, count) && fits(hardBytesKey, bytesKey, bytes)
}

// quotaNodes reads both nodes of a quota; nil if one is missing.
func (t *Tree) quotaNodes(subtree string) (limits, usage figures) {
	if subtree == "" {
		return nil, nil
	}
	l, u := t.nodes.get(quotaRoot+subtree+limitsName), t.nodes.get(quotaRoot+subtree+statsName)
	if l == nil || u == nil {
		return nil, nil
	}
	ldata, _ := l.Data()
	udata, _ := u.Data()
	return parseFigures(ldata), parseFigures(udata)
}
