package datatree

import "github.com/google/btree"

// degree of the B-tree: wide nodes keep the tree flat (four levels at a million znodes) and its overhead at two words a znode.
const degree = 32

// order has the nodes by parent, then by name. Its images share what neither has changed.
type order struct {
	*btree.BTreeG[*Node]
	rank *rank
}

// rank compares nodes for the B-tree.
type rank struct {
	last *Node // not nil while sorted nodes are put in: the one that is, which is behind all others. What is known is not looked up in two strings
}

func newOrder() order {
	r := &rank{}
	return order{btree.NewG(degree, r.before), r}
}

func (r *rank) before(a, b *Node) bool {
	if r.last != nil {
		return b == r.last && a != b
	}
	return before(a, b)
}

// clone returns an image in constant time.
func (o order) clone() order { return order{o.Clone(), o.rank} }

// put enters n, in the place of a node of the same path if there is one.
func (o order) put(n *Node) { o.ReplaceOrInsert(n) }

// remove takes the node with n's path out, if it is there.
func (o order) remove(n *Node) { o.Delete(n) }

// from calls yield for each node from key on, in order, until it returns false.
func (o order) from(key *Node, yield func(n *Node) bool) { o.AscendGreaterOrEqual(key, yield) }

// all calls yield for each node, in order, until it returns false.
func (o order) all(yield func(n *Node) bool) { o.Ascend(yield) }

// build makes an empty order one of nodes that are in order already.
func (o order) build(sorted []*Node) {
	for _, n := range sorted {
		o.rank.last = n
		o.ReplaceOrInsert(n)
	}
	o.rank.last = nil
}
