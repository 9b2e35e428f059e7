package datatree

import (
	"strings"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// Tree is the state of all znodes after some transaction. The zero value is not usable: see New.
type Tree struct {
	nodes   *index
	order   order
	later   postponed
	lists   aclLists
	owned   owned
	fading  fading
	quotas  map[string]struct{} // subtrees with an active quota
	changed txn.Zxid            // the newest zxid in any node, ever
	imaged  txn.Zxid            // changed as of the last Clone: a node that is newer is in no image
	digest  uint64
	bytes   int64
	scratch []byte // of the digest

	// What the last create found, which the next one often wants again.
	parent *Node    // in the tree, or nil
	list   *aclList // of the lists if it has a reference, or nil
}

// New returns the tree of a fresh server: the root and the three reserved znodes.
func New() *Tree {
	t := empty()
	open := t.lists.intern(proto.OpenACL())
	readOnly := t.lists.intern([]proto.ACL{{Perms: proto.PermRead, ID: proto.AnyoneID}})
	root := newNode(rootPath, []byte{}, open)
	root.numChildren = 1
	system := newNode("/zookeeper", []byte{}, open)
	system.numChildren = 2
	config := newNode(configPath, []byte{}, readOnly)
	config.aversion = -1
	open.refs += 2 // root, system, quota
	for _, n := range []*Node{root, system, config, newNode("/zookeeper/quota", []byte{}, open)} {
		t.add(n, t.nodes.hash(n.Path()), nil) // all are empty
	}
	return t
}

func empty() *Tree {
	return &Tree{nodes: newIndex(), order: newOrder(), lists: aclLists{}, owned: owned{}, fading: fading{}, quotas: map[string]struct{}{}}
}

// Get returns the node at path, nil if there is none. "" is the root, as it is for ZooKeeper's reads.
func (t *Tree) Get(path string) *Node {
	if path == "" {
		path = rootPath
	}
	return t.nodes.get(path)
}

// GetBytes is Get for a path that is still in a request's bytes. It does not allocate.
func (t *Tree) GetBytes(path []byte) *Node {
	if len(path) == 0 {
		return t.nodes.get(rootPath)
	}
	return t.nodes.getBytes(path)
}

// Pivot is memory that a listing works in. It may be used again, by one listing at a time.
type Pivot struct{ node Node }

// Children calls yield for each child of n in the order of their names until it returns false. It changes a tree that is not settled.
func (t *Tree) Children(n *Node, yield func(child *Node) bool) { t.ChildrenWith(new(Pivot), n, yield) }

// ChildrenWith is Children without allocating.
func (t *Tree) ChildrenWith(p *Pivot, n *Node, yield func(child *Node) bool) {
	left := n.numChildren
	if left == 0 {
		return
	}
	t.Settle(nil, nil)
	p.node.payload, p.node.pathLen, p.node.parentLen = n.payload, n.pathLen, n.pathLen // a child without a name comes before all others
	t.order.from(&p.node, func(child *Node) bool {
		left--
		return yield(child) && left > 0
	})
	p.node = Node{} // what it points to may be garbage soon
}

// Descendants counts the nodes below n.
func (t *Tree) Descendants(n *Node) int {
	if n.at() == 0 {
		return t.nodes.len() - 1
	}
	total := int(n.numChildren)
	if total == 0 {
		return 0
	}
	t.Children(n, func(child *Node) bool {
		if child.numChildren > 0 {
			total += t.Descendants(child)
		}
		return true
	})
	return total
}

// Len is the number of nodes.
func (t *Tree) Len() int { return t.nodes.len() }

// Bytes is the sum of the lengths of all paths and data.
func (t *Tree) Bytes() int64 { return t.bytes }

// Ephemerals returns the paths of owner's ephemerals in ascending order, in a fresh slice.
func (t *Tree) Ephemerals(owner txn.SessionID) []string { return t.owned.paths(owner) }

// EphemeralCount is the number of ephemerals of all sessions.
func (t *Tree) EphemeralCount() int { return t.owned.total() }

// Owners calls yield for each session that owns ephemerals, in no particular order.
func (t *Tree) Owners(yield func(owner txn.SessionID, count int) bool) {
	for owner, paths := range t.owned {
		if !yield(owner, len(paths)) {
			return
		}
	}
}

// add puts a node in that was not there; hash is its path's, and data what it was made from.
func (t *Tree) add(n *Node, hash uint64, data []byte) {
	t.nodes.enter(n, hash)
	if t.later.on {
		t.later.fresh = append(t.later.fresh, n)
		t.later.unsummed = append(t.later.unsummed, n)
		n.parentLen |= notSummed
	} else {
		t.order.put(n)
		t.sumData(n, data)
		t.digest += t.nodeDigest(n)
	}
	t.changed = max(t.changed, n.newest())
	t.bytes += int64(len(n.payload))
	t.enlist(n)
}

// enlist enters a node that somebody owns among those.
func (t *Tree) enlist(n *Node) {
	switch {
	case n.owner == 0:
	case n.Ephemeral():
		t.owned.add(n.owner, strings.Clone(n.Path()))
	default:
		t.fading[strings.Clone(n.Path())] = struct{}{}
	}
}

// change has edit change a node: the node itself if no image can hold it, a copy in its place otherwise. It returns the one that counts
// from now on. edit leaves the path as it is.
func (t *Tree) change(n *Node, edit func(n *Node)) *Node {
	t.leaveDigest(n)
	t.bytes -= int64(len(n.payload))
	if n.newest() <= t.imaged && !t.later.on {
		c := *n
		if n == t.parent {
			t.parent = &c
		}
		n = &c
		t.nodes.put(n)
		t.order.put(n)
	}
	edit(n)
	t.changed = max(t.changed, n.newest())
	t.bytes += int64(len(n.payload))
	if !t.later.on {
		t.digest += t.nodeDigest(n)
	}
	return n
}

// remove takes a node out.
func (t *Tree) remove(n *Node) {
	if n == t.parent {
		t.parent = nil
	}
	t.leaveDigest(n)
	t.nodes.remove(n)
	if t.later.on {
		n.numChildren, t.later.removed = removedMark, true
	} else {
		t.order.remove(n)
	}
	t.bytes -= int64(len(n.payload))
	t.lists.release(n.acl)
	switch {
	case n.Ephemeral():
		t.owned.remove(n.owner, n.Path())
	case n.owner != 0:
		delete(t.fading, n.Path())
	}
}
