package datatree

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// A start enters nodes by the hundred thousand before anybody lists one. So it leaves the order alone, keeps the new nodes aside, and sorts
// them when all are there, which costs a third of as many searches. Until then the tree does all that needs no order; whatever
// does need it settles the tree first.
type postponed struct {
	on    bool
	base  []*Node // in order; removed ones are among them, marked
	fresh []*Node // entered since, in no order; likewise

	removed bool // there are marked ones

	// Nodes that were entered or changed since they were last in the digest. Those among them that were removed are marked, or not in it.
	unsummed []*Node
}

// removedMark is what a node has for a number of children that was removed while the order was postponed.
const removedMark = -1

// Postpone leaves new nodes out of the order until Settle, or until something needs it. No image of the tree may be in use.
func (t *Tree) Postpone() {
	if t.later.on {
		return
	}
	t.later = postponed{on: true, base: make([]*Node, 0, t.order.len())}
	t.order.all(func(n *Node) bool { t.later.base = append(t.later.base, n); return true })
	t.order = newOrder()
}

// Settle puts everything into the order. Nobody may read the tree meanwhile. run calls its second argument for 0 to n-1, perhaps side by side;
// nil: one after the other. With aside, which starts its argument and returns what tells, or with wait waits, whether it has ended, sorting and filling
// may go on when Settle has returned: a listing or an image waits for it (see Ordered). The nodes that are sorted aside count as in an image, so that they
// stay as they are.
func (t *Tree) Settle(run func(n int, do func(i int)), aside func(do func()) (ended func(wait bool) bool)) {
	if !t.later.on {
		return
	}
	if run == nil {
		run = oneByOne
	}
	t.sumUp(run)
	later := t.later
	t.later = postponed{}
	if aside != nil {
		t.imaged = t.changed
		run = oneByOne // the other processors are for those who come first
	}
	t.order.build(func() []*Node { return later.sorted(run) }, aside)
}

// Ordered reports whether a listing or an image need not wait for what Settle began. Once true it stays so until the next Postpone.
func (t *Tree) Ordered() bool { return !t.later.on && t.order.ready() }

// Filling returns what waits, with true, until the tree is ordered; nil: it is. What it returns may be called beside everything that the tree does.
func (t *Tree) Filling() (ended func(wait bool) bool) { return t.order.ended }

// sorted returns the nodes that were not removed, in order.
func (p *postponed) sorted(run func(n int, do func(i int))) []*Node {
	base := p.base
	if p.removed {
		base = slices.DeleteFunc(base, func(n *Node) bool { return n.numChildren == removedMark })
	}
	return merge(base, sortNodes(p.fresh, run))
}

// leaveDigest takes a node that is about to change or go out of the digest; while the order is postponed, it comes back at the end only.
func (t *Tree) leaveDigest(n *Node) {
	if n.parentLen&notSummed != 0 {
		return
	}
	t.digest -= t.nodeDigest(n)
	if t.later.on {
		n.parentLen |= notSummed
		t.later.unsummed = append(t.later.unsummed, n)
	}
}

// sumUp makes the digest that of all nodes.
func (t *Tree) sumUp(run func(n int, do func(i int))) {
	const part = 4096
	nodes := t.later.unsummed
	if len(nodes) == 0 {
		return // and writes nothing: a settled tree has readers
	}
	sums := make([]uint64, (len(nodes)+part-1)/part)
	run(len(sums), func(i int) {
		var scratch []byte
		for _, n := range nodes[i*part : min((i+1)*part, len(nodes))] {
			n.parentLen &^= notSummed
			if n.numChildren != removedMark {
				var sum uint64
				scratch = sumPayload(n, scratch)
				sum, scratch = nodeDigest(n, scratch)
				sums[i] += sum
			}
		}
	})
	for _, sum := range sums {
		t.digest += sum
	}
	t.later.unsummed = nodes[:0]
}

func oneByOne(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
}

// sortNodes returns those that were not removed, in order. They are sorted parent by parent.
func sortNodes(nodes []*Node, run func(n int, do func(i int))) []*Node {
	groups := map[string]*[]keyed{}
	var names []string
	var group *[]keyed
	parent, left := "", 0
	for _, n := range nodes {
		if n.numChildren == removedMark {
			continue
		}
		if p := n.parent(); group == nil || p != parent {
			if group = groups[p]; group == nil {
				group = new([]keyed)
				groups[p] = group
				names = append(names, p)
			}
			parent = p
		}
		*group = append(*group, keyed{n: n})
		left++
	}
	slices.Sort(names)
	run(len(names), func(i int) { sortSiblings(*groups[names[i]]) })
	sorted := make([]*Node, 0, left)
	for _, name := range names {
		for _, k := range *groups[name] {
			sorted = append(sorted, k.n)
		}
	}
	return sorted
}

// keyed is a node with eight bytes of its name behind what all siblings' names begin with: most comparisons need no more.
type keyed struct {
	key uint64
	n   *Node
}

func sortSiblings(s []keyed) {
	first := s[0].n.Name()
	common := len(first)
	for _, k := range s[1:] {
		name := k.n.Name()
		common = min(common, len(name))
		for i := range common {
			if name[i] != first[i] {
				common = i
				break
			}
		}
	}
	for i := range s {
		var b [8]byte // a shorter name has zeros, which no name has
		copy(b[:], s[i].n.Name()[common:])
		s[i].key = binary.BigEndian.Uint64(b[:])
	}
	slices.SortFunc(s, func(a, b keyed) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.n.Name(), b.n.Name())
	})
}

// merge joins base and fresh, both in order. Fresh nodes come in runs that have no node of base among them, or few.
func merge(base, fresh []*Node) []*Node {
	if len(fresh) == 0 {
		return base
	}
	all := make([]*Node, 0, len(base)+len(fresh))
	for len(fresh) > 0 && len(base) > 0 {
		n := gallop(base, fresh[0])
		all, base = append(all, base[:n]...), base[n:]
		if len(base) > 0 {
			n = gallop(fresh, base[0])
			all, fresh = append(all, fresh[:n]...), fresh[n:]
		}
	}
	return append(append(all, base...), fresh...)
}

// gallop returns how many of sorted come before n, in time that grows with the logarithm of that.
func gallop(sorted []*Node, n *Node) int {
	hi := 1
	for hi < len(sorted) && before(sorted[hi], n) {
		hi *= 2
	}
	i, _ := slices.BinarySearchFunc(sorted[hi/2:min(hi, len(sorted))], n, func(m, n *Node) int {
		if before(m, n) {
			return -1
		}
		return 1
	})
	return hi/2 + i
}
