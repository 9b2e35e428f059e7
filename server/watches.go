package server

import (
	"strings"
	"sync"

	"github.com/zkd-project/zkd/proto"
)

// watchKind is a set of ways to watch one path; they live side by side (as since 3.9.0).
type watchKind uint8

const (
	watchData       watchKind = 1 << iota // one-shot, by exists and getData
	watchChild                            // one-shot, by getChildren
	watchPersistent                       // data and children, stays
	watchRecursive                        // the node and everything below, stays
)

// watchNode is who watches one path. Most paths have one watcher, which is held without a map.
type watchNode struct {
	first *conn
	more  map[*conn]watchKind // nil until there is a second
	kinds watchKind           // of first
}

// watchTable is all watches of this server. Memory per watch is less than 100 bytes and the path; a change costs a lookup of its
// path and, while there are recursive watches, one per ancestor.
//
// mu is the innermost lock: nothing else is taken while it is held. conn.watching belongs to it too.
type watchTable struct {
	mu        sync.Mutex
	paths     map[string]*watchNode
	recursive int // watches of that kind
	total     int // (path, connection) pairs
}

func newWatchTable() *watchTable { return &watchTable{paths: map[string]*watchNode{}} }

// add registers kinds of c on path; repeating one does nothing.
func (t *watchTable) add(c *conn, path string, kinds watchKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.unwatched {
		return // closed: nobody would remove it again
	}
	n := t.paths[path]
	if n == nil {
		n = &watchNode{}
		t.paths[path] = n
	}
	had := n.of(c)
	if had == 0 {
		t.total++
		if c.watching == nil {
			c.watching = map[string]struct{}{}
		}
		c.watching[path] = struct{}{}
	}
	if kinds&^had&watchRecursive != 0 {
		t.recursive++
	}
	n.set(c, had|kinds)
}

// remove takes kinds of c away from path and reports whether any was there.
func (t *watchTable) remove(c *conn, path string, kinds watchKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.paths[path]
	if n == nil {
		return false
	}
	had := n.of(c)
	t.drop(path, n, c, kinds)
	return had&kinds != 0
}

// has reports whether c watches path in one of kinds.
func (t *watchTable) has(c *conn, path string, kinds watchKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.paths[path]
	return n != nil && n.of(c)&kinds != 0
}

// forget removes everything of a connection, for ever.
func (t *watchTable) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for path := range c.watching {
		t.drop(path, t.paths[path], c, ^watchKind(0))
	}
	c.watching, c.unwatched = nil, true
}

// drop takes kinds away from what c has on path, whose node is n.
func (t *watchTable) drop(path string, n *watchNode, c *conn, kinds watchKind) {
	had := n.of(c)
	if had&kinds&watchRecursive != 0 {
		t.recursive--
	}
	left := had &^ kinds
	n.set(c, left)
	if had == 0 || left != 0 {
		return
	}
	t.total--
	delete(c.watching, path)
	if n.first == nil && len(n.more) == 0 {
		delete(t.paths, path)
	}
}

// fire adds every connection that must hear of the event to hit, once, and uses up its one-shot watches.
func (t *watchTable) fire(typ proto.EventType, path string, hit []*conn) []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.paths) == 0 {
		return hit
	}
	var once, stay watchKind
	switch typ {
	case proto.EventNodeCreated, proto.EventNodeDataChanged:
		once, stay = watchData, watchPersistent|watchRecursive
	case proto.EventNodeDeleted:
		once, stay = watchData|watchChild, watchPersistent|watchRecursive
	case proto.EventNodeChildrenChanged:
		once, stay = watchChild, watchPersistent
	}
	start := len(hit)
	if n := t.paths[path]; n != nil {
		hit = t.fireNode(path, n, once, stay, hit)
	}
	if stay&watchRecursive != 0 && t.recursive > 0 {
		hit = t.fireAncestors(path, hit, start)
	}
	return hit
}

func (t *watchTable) fireNode(path string, n *watchNode, once, stay watchKind, hit []*conn) []*conn {
	start := len(hit)
	if n.first != nil && n.kinds&(once|stay) != 0 {
		hit = append(hit, n.first)
	}
	for c, kinds := range n.more {
		if kinds&(once|stay) != 0 {
			hit = append(hit, c)
		}
	}
	for _, c := range hit[start:] {
		t.drop(path, n, c, once)
	}
	return hit
}

// fireAncestors finds recursive watches above path. A connection that is in hit[start:] already is not added again.
func (t *watchTable) fireAncestors(path string, hit []*conn, start int) []*conn {
	for path != "/" && path != "" {
		path = path[:max(1, strings.LastIndexByte(path, '/'))]
		n := t.paths[path]
		if n == nil {
			continue
		}
		if n.kinds&watchRecursive != 0 {
			hit = addOnce(hit, start, n.first)
		}
		for c, kinds := range n.more {
			if kinds&watchRecursive != 0 {
				hit = addOnce(hit, start, c)
			}
		}
	}
	return hit
}

func addOnce(hit []*conn, start int, c *conn) []*conn {
	for _, h := range hit[start:] {
		if h == c {
			return hit
		}
	}
	return append(hit, c)
}

// of returns how c watches the path.
func (n *watchNode) of(c *conn) watchKind {
	if n.first == c {
		return n.kinds
	}
	return n.more[c]
}

// set changes how c watches the path; 0 is not at all.
func (n *watchNode) set(c *conn, kinds watchKind) {
	switch {
	case n.first == c:
		n.kinds = kinds
		if kinds == 0 {
			n.first = nil
		}
	case kinds == 0:
		delete(n.more, c)
	case n.first == nil && n.more[c] == 0:
		n.first, n.kinds = c, kinds
	default:
		if n.more == nil {
			n.more = map[*conn]watchKind{}
		}
		n.more[c] = kinds
	}
}

// counts returns connections that watch, watched paths, and watches altogether.
func (t *watchTable) counts() (conns, paths, watches int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := map[*conn]struct{}{}
	for _, n := range t.paths {
		n.each(func(c *conn) { seen[c] = struct{}{} })
	}
	return len(seen), len(t.paths), t.total
}

// size returns the number of watches.
func (t *watchTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// each calls f for every connection that watches the path.
func (n *watchNode) each(f func(*conn)) {
	if n.first != nil {
		f(n.first)
	}
	for c := range n.more {
		f(c)
	}
}

// pairs returns all (path, connection) pairs, for display.
func (t *watchTable) pairs() map[string][]*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string][]*conn, len(t.paths))
	for p, n := range t.paths {
		n.each(func(c *conn) { all[p] = append(all[p], c) })
	}
	return all
}
