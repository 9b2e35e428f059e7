package datatree

import "slices"

const (
	pageMax  = 64 // items of a page
	pageFill = 48 // items of a page that is built from what is sorted already
	pageMin  = 16 // a page with fewer is joined with its neighbour if both fit into pageFill
)

// order has the nodes by parent, then by name: a B+ tree whose pages are shared with images and copied before they change. It is one of
// our own because a start builds it from sorted nodes, without a search for each. The zero order is empty.
type order struct {
	root    *page
	edition uint64 // of the pages that no image holds
	count   int
}

// page is a leaf, or has pages below it; then item i is the first of all items below kid i. Only an empty order has a page without items.
type page struct {
	edition uint64
	items   []*Node
	kids    []*page
}

// clone returns an image in constant time.
func (o *order) clone() *order {
	image := *o
	o.edition++
	return &image
}

// mine returns p, or a copy of it if an image holds it.
func (o *order) mine(p *page) *page {
	if p.edition == o.edition {
		return p
	}
	c := newPage(o.edition, p.kids != nil)
	c.items = append(c.items, p.items...)
	c.kids = append(c.kids, p.kids...)
	return c
}

func newPage(edition uint64, branch bool) *page {
	p := &page{edition: edition, items: make([]*Node, 0, pageMax+1)}
	if branch {
		p.kids = make([]*page, 0, pageMax+1)
	}
	return p
}

// seek returns where n's key is among the items, or would be.
func (p *page) seek(n *Node) (i int, found bool) {
	lo, hi := 0, len(p.items)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if before(p.items[mid], n) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(p.items) && !before(n, p.items[lo])
}

// kid returns the index of the page below p that n's key belongs to.
func (p *page) kid(n *Node) int {
	i, found := p.seek(n)
	if found {
		return i
	}
	return max(0, i-1)
}

// put enters n, in the place of a node of the same path if there is one.
func (o *order) put(n *Node) {
	if o.root == nil {
		o.root = newPage(o.edition, false)
	}
	root, right := o.insert(o.root, n)
	if right != nil {
		top := newPage(o.edition, true)
		top.items = append(top.items, root.items[0], right.items[0])
		top.kids = append(top.kids, root, right)
		root = top
	}
	o.root = root
}

// insert puts n below p and returns what takes p's place: itself or a copy, and a page behind it if it had to be split.
func (o *order) insert(p *page, n *Node) (self, right *page) {
	p = o.mine(p)
	var at int
	if p.kids == nil {
		i, found := p.seek(n)
		if found {
			p.items[i] = n
			return p, nil
		}
		p.items = slices.Insert(p.items, i, n)
		o.count++
		at = i
	} else {
		at = p.kid(n)
		kid, next := o.insert(p.kids[at], n)
		p.kids[at], p.items[at] = kid, kid.items[0]
		if next != nil {
			at++
			p.kids, p.items = slices.Insert(p.kids, at, next), slices.Insert(p.items, at, next.items[0])
		}
	}
	if len(p.items) <= pageMax {
		return p, nil
	}
	cut := len(p.items) / 2
	if at == len(p.items)-1 { // what comes in ascending order leaves full pages behind
		cut = pageFill
	}
	right = newPage(o.edition, p.kids != nil)
	right.items = append(right.items, p.items[cut:]...)
	clear(p.items[cut:])
	p.items = p.items[:cut]
	if p.kids != nil {
		right.kids = append(right.kids, p.kids[cut:]...)
		clear(p.kids[cut:])
		p.kids = p.kids[:cut]
	}
	return p, right
}

// remove takes the node with n's path out, if it is there.
func (o *order) remove(n *Node) {
	if o.root == nil {
		return
	}
	o.root = o.take(o.root, n)
	for len(o.root.kids) == 1 {
		o.root = o.root.kids[0]
	}
}

// take is remove below p. It returns what takes p's place, which may be left without items.
func (o *order) take(p *page, n *Node) *page {
	p = o.mine(p)
	if p.kids == nil {
		if i, found := p.seek(n); found {
			p.items = slices.Delete(p.items, i, i+1)
			o.count--
		}
		return p
	}
	at := p.kid(n)
	kid := o.take(p.kids[at], n)
	p.kids[at] = kid
	if len(kid.items) == 0 {
		p.kids, p.items = slices.Delete(p.kids, at, at+1), slices.Delete(p.items, at, at+1)
		return p
	}
	p.items[at] = kid.items[0]
	if len(kid.items) < pageMin {
		o.join(p, max(1, at))
	}
	return p
}

// join makes one page of kid at and the one before it if they are small enough.
func (o *order) join(p *page, at int) {
	if at >= len(p.kids) || len(p.kids[at-1].items)+len(p.kids[at].items) > pageFill {
		return
	}
	left, right := o.mine(p.kids[at-1]), p.kids[at]
	left.items = append(left.items, right.items...)
	left.kids = append(left.kids, right.kids...)
	p.kids[at-1] = left
	p.kids, p.items = slices.Delete(p.kids, at, at+1), slices.Delete(p.items, at, at+1)
}

// from calls yield for each node from key on, in order, until it returns false.
func (o *order) from(key *Node, yield func(n *Node) bool) {
	if o.root != nil {
		o.root.from(key, yield)
	}
}

func (p *page) from(key *Node, yield func(n *Node) bool) bool {
	if p.kids == nil {
		i, _ := p.seek(key)
		for _, n := range p.items[i:] {
			if !yield(n) {
				return false
			}
		}
		return true
	}
	at := p.kid(key)
	if !p.kids[at].from(key, yield) {
		return false
	}
	for _, kid := range p.kids[at+1:] {
		if !kid.all(yield) {
			return false
		}
	}
	return true
}

// all calls yield for each node, in order, until it returns false.
func (o *order) all(yield func(n *Node) bool) {
	if o.root != nil {
		o.root.all(yield)
	}
}

func (p *page) all(yield func(n *Node) bool) bool {
	if p.kids == nil {
		for _, n := range p.items {
			if !yield(n) {
				return false
			}
		}
		return true
	}
	for _, kid := range p.kids {
		if !kid.all(yield) {
			return false
		}
	}
	return true
}

// build makes an empty order one of nodes that are in order already.
func (o *order) build(sorted []*Node) {
	o.count = len(sorted)
	if o.count == 0 {
		return
	}
	level := make([]*page, 0, len(sorted)/pageFill+1)
	for run := range slices.Chunk(sorted, pageFill) {
		p := newPage(o.edition, false)
		p.items = append(p.items, run...)
		level = append(level, p)
	}
	for len(level) > 1 {
		above := make([]*page, 0, len(level)/pageFill+1)
		for run := range slices.Chunk(level, pageFill) {
			p := newPage(o.edition, true)
			for _, kid := range run {
				p.items, p.kids = append(p.items, kid.items[0]), append(p.kids, kid)
			}
			above = append(above, p)
		}
		level = above
	}
	o.root = level[0]
}
