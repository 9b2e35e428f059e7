package datatree

import (
	"slices"
	"strings"

	"github.com/google/btree"
)

// degree of the B-tree: wide nodes keep the tree flat (four levels at a million znodes) and its overhead at two words a znode.
const degree = 32

// order has the nodes by parent, then by name. Its images share what neither has changed.
//
// It may still be filled on the side (build). What is put and removed meanwhile lies aside until then; a listing waits for the end, and reads
// both. It changes nothing, so it may find the same aside again and again: it looks at no more of that than belongs to its parent.
type order struct {
	tree  *btree.BTreeG[*Node]
	rank  *rank
	ended func(wait bool) bool // whether build has ended, or waits for it; nil: it has, and late is empty
	late  map[string][]*Node   // by parent, what was put since, and what was removed, marked, in this sequence
}

// rank compares nodes for the B-tree.
type rank struct {
	last *Node // not nil while sorted nodes are put in: the one that is, which is behind all others. What is known is not looked up in two strings
}

func newOrder() order {
	r := &rank{}
	return order{tree: btree.NewG(degree, r.before), rank: r}
}

func (r *rank) before(a, b *Node) bool {
	if r.last != nil {
		return b == r.last && a != b
	}
	return before(a, b)
}

// clone returns an image in constant time.
func (o *order) clone() order {
	o.catchUp()
	return order{tree: o.tree.Clone(), rank: o.rank}
}

func (o *order) len() int {
	o.catchUp()
	return o.tree.Len()
}

// put enters n, in the place of a node of the same path if there is one.
func (o *order) put(n *Node) {
	if o.filling() {
		o.late[n.parent()] = append(o.late[n.parent()], n)
		return
	}
	o.tree.ReplaceOrInsert(n)
}

// remove takes the node with n's path out, if it is there.
func (o *order) remove(n *Node) {
	if o.filling() {
		gone := *n // which is being sorted
		gone.numChildren = removedMark
		o.late[n.parent()] = append(o.late[n.parent()], &gone)
		return
	}
	o.tree.Delete(n)
}

// all calls yield for each node, in order, until it returns false.
func (o *order) all(yield func(n *Node) bool) {
	o.catchUp()
	o.tree.Ascend(yield)
}

// from calls yield for each node from key on, in order, until it returns false. While some came late, yield must end with the last sibling of key: of what
// came late it sees no other. Unlike the others it changes nothing.
func (o *order) from(key *Node, yield func(n *Node) bool) {
	if o.ended != nil {
		o.ended(true)
		if late := o.late[key.parent()]; len(late) > 0 {
			o.fromBoth(key, lastOfEach(late), yield)
			return
		}
	}
	o.tree.AscendGreaterOrEqual(key, yield)
}

// fromBoth is from where some came late.
func (o *order) fromBoth(key *Node, late []*Node, yield func(n *Node) bool) {
	more := true
	o.tree.AscendGreaterOrEqual(key, func(n *Node) bool {
		for more && len(late) > 0 && before(late[0], n) {
			more = late[0].numChildren == removedMark || yield(late[0])
			late = late[1:]
		}
		if more && len(late) > 0 && !before(n, late[0]) { // the same path
			n, late = late[0], late[1:]
		}
		more = more && (n.numChildren == removedMark || yield(n))
		return more
	})
	for ; more && len(late) > 0; late = late[1:] {
		more = late[0].numChildren == removedMark || yield(late[0])
	}
}

// lastOfEach returns of each path the last, in order.
func lastOfEach(late []*Node) []*Node {
	last := make(map[string]*Node, len(late))
	for _, n := range late {
		last[n.Path()] = n
	}
	each := make([]*Node, 0, len(last))
	for _, n := range last {
		each = append(each, n)
	}
	slices.SortFunc(each, func(a, b *Node) int { return strings.Compare(a.Path(), b.Path()) })
	return each
}

// build makes an empty order one of the nodes that sorted returns, in order; they must not change until it has ended. aside starts its
// argument and returns what tells, or with wait waits, whether it has ended; nil: build returns when all is done.
func (o *order) build(sorted func() []*Node, aside func(do func()) (ended func(wait bool) bool)) {
	tree, rank := o.tree, o.rank
	fill := func() {
		for _, n := range sorted() {
			rank.last = n
			tree.ReplaceOrInsert(n)
		}
		rank.last = nil
	}
	if aside == nil {
		fill()
		return
	}
	o.ended, o.late = aside(fill), map[string][]*Node{}
}

// ready reports whether build has ended. It changes nothing.
func (o *order) ready() bool { return o.ended == nil || o.ended(false) }

// filling reports whether build goes on; if not, all that came late is in its place.
func (o *order) filling() bool {
	if o.ended != nil && !o.ended(false) {
		return true
	}
	o.catchUp()
	return false
}

// catchUp waits for build's end and puts what came late in its place.
func (o *order) catchUp() {
	if o.ended == nil {
		return
	}
	o.ended(true)
	for _, late := range o.late { // the sequence matters for each path, and each has one parent
		for _, n := range late {
			if n.numChildren == removedMark {
				o.tree.Delete(n)
			} else {
				o.tree.ReplaceOrInsert(n)
			}
		}
	}
	o.ended, o.late = nil, nil
}
