package datatree

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func orderNode(path string) *Node { return newNode(path, nil, nil) }

func collect(o *order) []*Node {
	var out []*Node
	o.all(func(n *Node) bool { out = append(out, n); return true })
	return out
}

// checkPages checks what the order's methods rely on.
func checkPages(t *testing.T, o *order, p *page, depth int) int {
	t.Helper()
	require.LessOrEqual(t, len(p.items), pageMax)
	require.True(t, slices.IsSortedFunc(p.items, func(a, b *Node) int {
		if before(a, b) {
			return -1
		}
		return 1
	}))
	if p.kids == nil {
		return 1
	}
	require.Len(t, p.kids, len(p.items))
	under := 0
	for i, kid := range p.kids {
		require.NotEmpty(t, kid.items)
		require.Same(t, p.items[i], kid.items[0], "a page names another node than its first")
		d := checkPages(t, o, kid, depth+1)
		require.True(t, under == 0 || under == d, "leaves are at different depths")
		under = d
	}
	return under + 1
}

// The order does what a sorted slice does, and images keep what they had.
func TestOrderModel(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	o, model := &order{}, map[string]*Node{}
	type image struct {
		o    *order
		want []*Node
	}
	var images []image
	sorted := func() []*Node {
		var out []*Node
		for _, n := range model {
			out = append(out, n)
		}
		slices.SortFunc(out, func(a, b *Node) int {
			if before(a, b) {
				return -1
			}
			return 1
		})
		return out
	}
	path := func(spread int) string { return fmt.Sprintf("/p%d/n%04d", rnd.Intn(4), rnd.Intn(spread)) }
	for step := range 40_000 {
		grow := step/5000%2 == 0
		n := orderNode(path(2000))
		if rnd.Intn(4) > 0 == grow {
			o.put(n)
			model[n.Path()] = n
		} else {
			o.remove(n)
			delete(model, n.Path())
		}
		require.Equal(t, len(model), o.count)
		if step%997 == 0 {
			want := sorted()
			require.Equal(t, want, collect(o))
			images = append(images, image{o.clone(), want})
		}
		if step%61 == 0 {
			checkPages(t, o, o.root, 0)
			key, want := orderNode(path(2000)), sorted()
			at := slices.IndexFunc(want, func(n *Node) bool { return !before(n, key) })
			var first *Node
			o.from(key, func(n *Node) bool { first = n; return false })
			if at < 0 {
				require.Nil(t, first)
			} else {
				require.Same(t, want[at], first)
			}
		}
	}
	for _, i := range images {
		require.Equal(t, i.want, collect(i.o))
	}
	for _, n := range sorted() {
		o.remove(n)
	}
	require.Empty(t, collect(o))
	require.Zero(t, o.count)
	o.put(orderNode("/p0"))
	require.Len(t, collect(o), 1)
}

// What is built in one go is what single puts make, and can be changed like it.
func TestOrderBuild(t *testing.T) {
	for _, size := range []int{0, 1, pageFill, pageFill + 1, pageFill * pageFill, pageFill*pageFill + 1, 5000} {
		var nodes []*Node
		for i := range size {
			nodes = append(nodes, orderNode(fmt.Sprintf("/n%06d", i)))
		}
		o := &order{}
		o.build(nodes)
		require.Equal(t, nodes, collect(o))
		require.Equal(t, size, o.count)
		if size > 0 {
			checkPages(t, o, o.root, 0)
		}
		image := o.clone()
		for i := range size {
			o.put(orderNode(fmt.Sprintf("/n%06d-", i)))
		}
		require.Equal(t, 2*size, o.count)
		require.Equal(t, nodes, collect(image))
		if size > 0 {
			checkPages(t, o, o.root, 0)
		}
	}
}
