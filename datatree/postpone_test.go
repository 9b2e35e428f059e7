package datatree

import (
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// sideBySide runs each call on a goroutine of its own.
func sideBySide(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// loadSideBySide is load as a start does it.
func loadSideBySide(t *testing.T, image *Image) *Tree {
	l := NewLoader(sideBySide)
	var taken []*Batch
	require.NoError(t, image.Encode(func(b []byte) error {
		batch, err := l.Take(append([]byte(nil), b...))
		taken = append(taken, batch)
		return err
	}))
	sideBySide(len(taken), func(i int) { taken[i].Decode() })
	tree, err := l.Tree()
	require.NoError(t, err)
	return tree
}

// history makes the same random changes to each tree it is given.
type history struct {
	rnd  *rand.Rand
	zxid txn.Zxid
}

func (h *history) step(t *testing.T, trees ...*Tree) {
	h.zxid++
	zxid, millis := h.zxid, int64(h.zxid)
	path := fmt.Sprintf("/%c", 'a'+h.rnd.Intn(3))
	for h.rnd.Intn(3) > 0 && trees[0].Get(path) != nil {
		path += []string{"/n", "/node-", "/x"}[h.rnd.Intn(3)] + fmt.Sprint(h.rnd.Intn(40))
	}
	n, parent := trees[0].Get(path), trees[0].Get(proto.Parent(path))
	data := make([]byte, h.rnd.Intn(20))
	acl := [][]proto.ACL{proto.OpenACL(), {{Perms: proto.PermRead, ID: proto.AnyoneID}}, nil}[h.rnd.Intn(3)]
	owner := []txn.SessionID{0, 0, 0, 7, 8, txn.OwnerContainer}[h.rnd.Intn(6)]
	kind := h.rnd.Intn(6)
	var change func(tree *Tree) error
	switch {
	case n == nil && (parent == nil || parent.Ephemeral()):
		return
	case n == nil:
		c := &txn.Create{Path: path, Data: data, ACL: acl, Owner: owner, ParentCversion: parent.RawCversion() + 1}
		change = func(tree *Tree) error { _, _, err := tree.Create(zxid, millis, c, nil); return err }
	case kind == 0 && h.zxid%50 == 0:
		change = func(tree *Tree) error { _, err := tree.DeleteOwned(zxid, 7, nil); return err }
	case kind < 3 && n.NumChildren() == 0:
		change = func(tree *Tree) error { _, err := tree.Delete(zxid, path, nil); return err }
	case kind == 3:
		c := &txn.SetACL{Path: path, ACL: acl, Aversion: n.Aversion() + 1}
		change = func(tree *Tree) error { _, err := tree.SetACL(c); return err }
	default:
		c := &txn.SetData{Path: path, Data: data, Version: n.Version() + 1}
		change = func(tree *Tree) error { _, _, err := tree.SetData(zxid, millis, c, nil); return err }
	}
	for _, tree := range trees {
		require.NoError(t, change(tree))
	}
}

func requireSame(t *testing.T, want, got *Tree) {
	t.Helper()
	require.Equal(t, want.Digest(), got.Digest())
	require.Equal(t, digestByHand(want), got.Digest())
	require.Equal(t, want.Len(), got.Len())
	require.Equal(t, want.Bytes(), got.Bytes())
	require.Equal(t, want.owned, got.owned)
	require.Equal(t, want.fading, got.fading)
	require.Equal(t, want.quotas, got.quotas)
	require.Equal(t, blocks(t, want.Clone()), blocks(t, got.Clone()))
	require.Len(t, got.lists, len(want.lists))
	for key, list := range want.lists {
		require.Equal(t, list.refs, got.lists[key].refs)
	}
	require.Equal(t, want.changed, got.changed)
	for n := range nodesOf(want) {
		require.Equal(t, n.Stat(), got.Get(n.Path()).Stat(), n.Path())
	}
}

// A tree whose order was postponed while it changed is the tree that had it all the time: one that was loaded, side by side, and one that began
// empty, with removed and re-entered nodes among both the old and the new.
func TestPostponedIsTheSame(t *testing.T) {
	for seed := range int64(20) {
		plain, late := New(), New()
		late.Postpone()
		h := &history{rnd: rand.New(rand.NewSource(seed))}
		for range 2000 {
			h.step(t, plain, late)
		}
		require.True(t, late.later.on)
		late.Settle(sideBySide, nil)
		require.False(t, late.later.on)
		requireSame(t, plain, late)

		loaded := loadSideBySide(t, plain.Clone())
		require.True(t, loaded.later.on)
		for range 1000 {
			h.step(t, plain, loaded)
		}
		require.True(t, loaded.later.on)
		loaded.Settle(sideBySide, nil)
		requireSame(t, plain, loaded)
		for range 200 {
			h.step(t, plain, loaded)
		}
		requireSame(t, plain, loaded)
	}
}

// What needs the order gets it, postponed or not.
func TestWhoNeedsTheOrderSettles(t *testing.T) {
	w := newWorld(t)
	w.Postpone()
	w.create("/b", 0)
	w.create("/a", 0)
	require.Equal(t, []string{"a", "b", "zookeeper"}, w.children("/"))
	require.False(t, w.later.on)
	w.create("/c", 0)
	require.Equal(t, []string{"a", "b", "c", "zookeeper"}, w.children("/"))
	w.Postpone()
	w.create("/d", 0)
	require.Equal(t, 8, w.Clone().Len())
	w.Postpone()
	w.create("/d/e", 0)
	require.Equal(t, 1, w.Descendants(w.Get("/d")))
}

// An image that was taken before nobody postponed anything does not change, whatever the last create remembered.
func TestRememberedParentIsNoOldOne(t *testing.T) {
	w := newWorld(t)
	w.create("/p", 0)
	w.create("/p/a", 0)
	image := w.Clone()
	before := blocks(t, image)
	w.create("/p/b", 0)
	w.del("/p/a")
	w.del("/p/b")
	w.del("/p")
	_, _, err := w.Create(99, 1, &txn.Create{Path: "/p/c", ACL: proto.OpenACL()}, nil)
	require.ErrorIs(t, err, ErrUnfit)
	w.create("/p", 0)
	w.create("/p/c", 0)
	require.Equal(t, []string{"c"}, w.children("/p"))
	require.EqualValues(t, 1, w.stat("/p").NumChildren)
	require.Equal(t, before, blocks(t, image))
}

// While the order is filled on the side, the tree changes as ever; what lists waits, and finds what came before and what came since, by
// itself or when all is in its place.
func TestOrderFilledAside(t *testing.T) {
	for seed := range int64(20) {
		plain := New()
		h := &history{rnd: rand.New(rand.NewSource(seed))}
		for range 1000 {
			h.step(t, plain)
		}
		got := loadSideBySide(t, plain.Clone())
		for range 300 { // as a log's records would
			h.step(t, plain, got)
		}
		fill := make(chan struct{})
		got.Settle(sideBySide, func(do func()) func(wait bool) bool {
			end := make(chan struct{})
			go func() {
				<-fill
				do()
				close(end)
			}()
			return func(wait bool) bool {
				if wait {
					<-end
				}
				select {
				case <-end:
					return true
				default:
					return false
				}
			}
		})
		for range 300 { // nobody has begun to fill: this ends all the same
			h.step(t, plain, got)
		}
		require.Equal(t, plain.Digest(), got.Digest())
		require.Empty(t, got.order.tree.Len())
		require.NotEmpty(t, got.order.late)
		require.False(t, got.Ordered())

		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for n := range nodesOf(plain) {
					assert.Equal(t, childrenOf(plain, n), childrenOf(got, got.Get(n.Path())), "seed %d, %s", seed, n.Path())
				}
			})
		}
		close(fill)
		readers.Wait()
		require.True(t, got.Ordered())
		require.NotEmpty(t, got.order.late, "readers change nothing")
		for range 200 {
			h.step(t, plain, got)
		}
		require.Empty(t, got.order.late)
		requireSame(t, plain, got)
	}
}

// Changes and sorting side by side do not meet: for the race detector, and for what sorting sees of a node that changes.
func TestOrderSortedBesideChanges(t *testing.T) {
	for seed := range int64(10) {
		plain := New()
		h := &history{rnd: rand.New(rand.NewSource(seed))}
		for range 2000 {
			h.step(t, plain)
		}
		got := loadSideBySide(t, plain.Clone())
		for range 500 {
			h.step(t, plain, got)
		}
		sorted := make(chan struct{})
		got.Settle(sideBySide, func(do func()) func(wait bool) bool {
			go func() {
				defer close(sorted)
				do()
			}()
			return func(wait bool) bool { // not ended before it is waited for, so that all steps are beside it for the order
				if wait {
					<-sorted
				}
				return wait
			}
		})
		for range 500 {
			h.step(t, plain, got)
		}
		require.NotEmpty(t, got.order.late)
		requireSame(t, plain, got)
	}
}

// A listing costs what its parent has, and no more for what came late elsewhere: else one count of a subtree, which lists each znode in it, would
// hold up everybody for as long as nothing is created or deleted.
func TestAListingDoesNotLookAtWhatCameLateElsewhere(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0)
	w.create("/a/child", 0)
	w.create("/b", 0)
	var fill func()
	filled := false
	got := loadSideBySide(t, w.Clone())
	got.Settle(sideBySide, func(do func()) func(wait bool) bool {
		fill = do
		return func(bool) bool { return filled }
	})
	w.Tree = got
	for i := range 100 {
		w.create(fmt.Sprintf("/b/c%02d", i), 0)
		w.create(fmt.Sprintf("/b/d%02d", i), 0)
	}
	for i := range 100 {
		w.del(fmt.Sprintf("/b/c%02d", i))
	}
	w.create("/b/c00", 0)
	fill()
	filled = true
	require.NotEmpty(t, got.order.late)
	list := func(path string) (paths []string) {
		return childrenOf(got, got.Get(path))
	}
	require.Equal(t, []string{"/a/child"}, list("/a"))
	require.Len(t, list("/b"), 101)
	var pivot Pivot
	a := got.Get("/a")
	require.Zero(t, testing.AllocsPerRun(100, func() { got.ChildrenWith(&pivot, a, func(*Node) bool { return true }) }))
	require.Equal(t, 101, got.Descendants(got.Get("/b")))
	require.NotEmpty(t, got.order.late, "a listing changes nothing")
	w.del("/b/c00")
	require.Empty(t, got.order.late)
	require.Equal(t, 100, got.Descendants(got.Get("/b")))
}

func childrenOf(t *Tree, n *Node) (paths []string) {
	t.Children(n, func(child *Node) bool { paths = append(paths, child.Path()); return true })
	return paths
}
