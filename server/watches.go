package server

import (
	"iter"
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

// ZooKeeper has a table of watches for data and one for children, a persistent watch stands in both, and a recursive one in the first.
// What it shows are these tables: the first in the four-letter words, both in the count of mntr.
const (
	dataTable  = watchData | watchPersistent | watchRecursive
	childTable = watchChild | watchPersistent
)

// tables is in how many of ZooKeeper's tables a watch of these kinds stands.
func (k watchKind) tables() int {
	n := 0
	if k&dataTable != 0 {
		n++
	}
	if k&childTable != 0 {
		n++
	}
	return n
}

// watchNode is who watches one path. Most paths have one watcher, which is held without a map. It fills the allocator's class of 32 bytes.
type watchNode struct {
	path  string
	more  map[uint32]watchKind // by connection, of all but the first; nil until there is a second
	id    uint32               // its place in watchTable.nodes
	first uint32               // a connection, shifted by kindBits, and its kinds; 0 if there is none
}

const kindBits = 4

// watchTable is all watches of this server. Paths and connections that watch have small numbers, so that a watch is twice a number in a
// map without pointers: about 30 bytes, and 90 with a path that nobody else watches (TestWatchIsSmall), and nothing for the garbage collector to follow. A change costs a lookup of its
// path and, while there are recursive watches, one per ancestor.
//
// mu is the innermost lock: nothing else is taken while it is held. conn.watching, watcher and unwatched belong to it too.
type watchTable struct {
	mu        sync.Mutex
	paths     map[string]*watchNode
	nodes     numbered[*watchNode]
	conns     numbered[*conn]
	recursive int // watches of that kind
	total     int // of all connections on all paths, the tables in which they stand
}

// numbered gives things numbers from 1 on and uses those again that were freed.
type numbered[T any] struct {
	of   []T
	free []uint32
}

func (n *numbered[T]) add(v T) uint32 {
	if last := len(n.free) - 1; last >= 0 {
		id := n.free[last]
		n.free = n.free[:last]
		n.of[id] = v
		return id
	}
	if len(n.of) == 0 {
		n.of = make([]T, 1)
	}
	n.of = append(n.of, v)
	return uint32(len(n.of) - 1)
}

func (n *numbered[T]) drop(id uint32) {
	var zero T
	n.of[id] = zero
	n.free = append(n.free, id)
	if len(n.free) == len(n.of)-1 {
		*n = numbered[T]{} // a crowd has gone
	}
}

func newWatchTable() *watchTable { return &watchTable{paths: map[string]*watchNode{}} }

// add registers kinds of c on path; repeating one does nothing.
func (t *watchTable) add(c *conn, path string, kinds watchKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.unwatched {
		return // closed: nobody would remove it again
	}
	if c.watcher == 0 {
		c.watcher = t.conns.add(c)
		c.watching = map[uint32]struct{}{}
	}
	n := t.paths[path]
	if n == nil {
		n = &watchNode{path: path}
		n.id = t.nodes.add(n)
		t.paths[path] = n
	}
	had := n.of(c.watcher)
	t.total += (had | kinds).tables() - had.tables()
	if had == 0 {
		c.watching[n.id] = struct{}{}
	}
	if kinds&^had&watchRecursive != 0 {
		t.recursive++
	}
	n.set(c.watcher, had|kinds)
}

// remove takes kinds of c away from path and reports whether any was there.
func (t *watchTable) remove(c *conn, path string, kinds watchKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.paths[path]
	if n == nil {
		return false
	}
	had := n.of(c.watcher)
	t.drop(n, c, kinds)
	return had&kinds != 0
}

// has reports whether c watches path in one of kinds.
func (t *watchTable) has(c *conn, path string, kinds watchKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.paths[path]
	return n != nil && n.of(c.watcher)&kinds != 0
}

// forget removes everything of a connection, for ever.
func (t *watchTable) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range c.watching {
		t.drop(t.nodes.of[id], c, ^watchKind(0))
	}
	if c.watcher != 0 {
		t.conns.drop(c.watcher)
	}
	c.watching, c.watcher, c.unwatched = nil, 0, true
}

// drop takes kinds away from what c has on n.
func (t *watchTable) drop(n *watchNode, c *conn, kinds watchKind) {
	had := n.of(c.watcher)
	if had&kinds&watchRecursive != 0 {
		t.recursive--
	}
	left := had &^ kinds
	n.set(c.watcher, left)
	t.total += left.tables() - had.tables()
	if had == 0 || left != 0 {
		return
	}
	delete(c.watching, n.id)
	if n.first == 0 && len(n.more) == 0 {
		delete(t.paths, n.path)
		t.nodes.drop(n.id)
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
		hit = t.fireNode(n, once, stay, hit)
	}
	if stay&watchRecursive != 0 && t.recursive > 0 {
		hit = t.fireAncestors(path, hit, start)
	}
	return hit
}

func (t *watchTable) fireNode(n *watchNode, once, stay watchKind, hit []*conn) []*conn {
	start := len(hit)
	for id, kinds := range n.all() {
		if kinds&(once|stay) != 0 {
			hit = append(hit, t.conns.of[id])
		}
	}
	for _, c := range hit[start:] {
		t.drop(n, c, once)
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
		for id, kinds := range n.all() {
			if kinds&watchRecursive != 0 {
				hit = addOnce(hit, start, t.conns.of[id])
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

// of returns how a connection watches the path.
func (n *watchNode) of(id uint32) watchKind {
	if n.first>>kindBits == id && id != 0 {
		return watchKind(n.first) & (1<<kindBits - 1)
	}
	return n.more[id]
}

// set changes how a connection watches the path; 0 is not at all.
func (n *watchNode) set(id uint32, kinds watchKind) {
	switch {
	case n.first>>kindBits == id:
		n.first = 0
		if kinds != 0 {
			n.first = id<<kindBits | uint32(kinds)
		}
	case kinds == 0:
		delete(n.more, id)
	case n.first == 0 && n.more[id] == 0:
		n.first = id<<kindBits | uint32(kinds)
	default:
		if n.more == nil {
			n.more = map[uint32]watchKind{}
		}
		n.more[id] = kinds
	}
}

// all yields every connection that watches the path, and how.
func (n *watchNode) all() iter.Seq2[uint32, watchKind] {
	return func(yield func(uint32, watchKind) bool) {
		if id := n.first >> kindBits; id != 0 && !yield(id, n.of(id)) {
			return
		}
		for id, kinds := range n.more {
			if !yield(id, kinds) {
				return
			}
		}
	}
}

// counts returns connections in the data table, its paths, and its watches.
func (t *watchTable) counts() (conns, paths, watches int) {
	seen := map[*conn]struct{}{}
	for _, watching := range t.pairs() {
		paths++
		watches += len(watching)
		for _, c := range watching {
			seen[c] = struct{}{}
		}
	}
	return len(seen), paths, watches
}

// size returns the number of watches, as mntr counts them.
func (t *watchTable) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// pairs returns who is in the data table, by path, for display.
func (t *watchTable) pairs() map[string][]*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string][]*conn, len(t.paths))
	for p, n := range t.paths {
		for id, kinds := range n.all() {
			if kinds&dataTable != 0 {
				all[p] = append(all[p], t.conns.of[id])
			}
		}
	}
	return all
}
