package datatree

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func orderNode(path string) *Node { return newNode(path, nil, nil) }

func collect(o order) []*Node {
	var out []*Node
	o.all(func(n *Node) bool { out = append(out, n); return true })
	return out
}

// The order does what a sorted slice does, and images keep what they had.
func TestOrderModel(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	o, model := newOrder(), map[string]*Node{}
	type image struct {
		o    order
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
		require.Equal(t, len(model), o.len())
		if step%997 == 0 {
			want := sorted()
			require.Equal(t, want, collect(o))
			images = append(images, image{o.clone(), want})
		}
		if step%61 == 0 {
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
	require.Zero(t, o.len())
	o.put(orderNode("/p0"))
	require.Len(t, collect(o), 1)
}

// What is built in one go is what single puts make, and can be changed like it.
func TestOrderBuild(t *testing.T) {
	for _, size := range []int{0, 1, degree, 2*degree - 1, 2 * degree, 4*degree*degree + 1, 10_000} {
		var nodes []*Node
		for i := range size {
			nodes = append(nodes, orderNode(fmt.Sprintf("/n%06d", i)))
		}
		o := newOrder()
		o.build(func() []*Node { return nodes }, nil)
		require.Equal(t, nodes, collect(o))
		require.Equal(t, size, o.len())
		image := o.clone()
		for i := range size {
			o.put(orderNode(fmt.Sprintf("/n%06d-", i)))
		}
		require.Equal(t, 2*size, o.len())
		require.Equal(t, nodes, collect(image))
	}
}
