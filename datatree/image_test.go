package datatree

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// An image must stay what it was whatever is changed afterwards, in whatever state the node was that is changed.
func TestAnImageKeepsWhatItHolds(t *testing.T) {
	changes := map[string]func(w *world){
		"set":    func(w *world) { w.set("/a", "new") },
		"same":   func(w *world) { w.set("/a", "old") },
		"twice":  func(w *world) { w.set("/a", "new"); w.set("/a", "newer") },
		"acl":    func(w *world) { w.setACL("/a"); w.setACL("/a") },
		"mixed":  func(w *world) { w.setACL("/a"); w.set("/a", "new"); w.setACL("/a") },
		"create": func(w *world) { w.create("/a/c", 0); w.create("/a/d", 0) },
		"delete": func(w *world) { w.del("/a/b"); w.create("/a/b", 0) },
		"config": func(w *world) { w.ShowConfig("server.1", 1); w.ShowConfig("server.2", 2) },
		"gone":   func(w *world) { w.del("/a/b"); w.del("/a"); w.create("/a", 0) },
	}
	before := map[string]func(w *world){
		"fresh":  func(*world) {},
		"loaded": func(w *world) { tree, err := load(w.Clone()); require.NoError(w, err); w.Tree = tree },
		"imaged": func(w *world) { w.Clone(); w.set("/a", "old") },
	}
	for state, prepare := range before {
		for name, change := range changes {
			t.Run(state+"/"+name, func(t *testing.T) {
				w := newWorld(t)
				w.create("/a", 0, []byte("old")...)
				w.create("/a/b", 0)
				prepare(w)
				first := w.Clone()
				firstBytes := blocks(t, first)
				change(w)
				second := w.Clone()
				secondBytes := blocks(t, second)
				require.NotEqual(t, firstBytes, secondBytes)
				changes["set"](w)
				require.Equal(t, firstBytes, blocks(t, first))
				require.Equal(t, secondBytes, blocks(t, second))
				require.Equal(t, digestByHand(w.Tree), w.Digest())
			})
		}
	}
}

// Between two images only the first change of a znode copies it, and only the first set has new memory for data that stays as long.
func TestAllocationsOfASet(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0)
	s := &txn.SetData{Path: "/a", Data: make([]byte, 1024)}
	events := make(Events, 0, 1)
	set := func() {
		w.zxid++
		_, _, err := w.SetData(w.zxid, 1, s, events)
		require.NoError(t, err)
	}
	w.Clone()
	set()
	require.Zero(t, testing.AllocsPerRun(100, set))
	length := 1024
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		length++
		s.Data = s.Data[:0:0]
		s.Data = append(s.Data, make([]byte, length)...)
		set()
	}), 3.0)
}

// Data that is set in place of the old is never an image's, whatever else changed the znode since the image was taken, and paths that somebody
// keeps do not change with it.
func TestDataInPlaceOfTheOld(t *testing.T) {
	rnd := rand.New(rand.NewSource(3))
	w := newWorld(t)
	type taken struct {
		image *Image
		want  []byte
	}
	var images []taken
	kept := map[string]string{}
	inPlace := 0
	for i := range 20 {
		w.create(fmt.Sprintf("/n%d", i), 0)
	}
	for step := range 6000 {
		path := fmt.Sprintf("/n%d", rnd.Intn(20))
		n := w.Get(path)
		kept[strings.Clone(path)] = n.Path()
		switch rnd.Intn(10) {
		case 0:
			w.setACL(path)
		case 1:
			w.create(fmt.Sprintf("%s/c%d", path, step), 0)
		case 2:
			if rnd.Intn(10) == 0 {
				image := w.Clone()
				images = append(images, taken{image, blocks(t, image)})
			}
		default:
			data := make([]byte, 8+rnd.Intn(2))
			rnd.Read(data)
			w.zxid++
			was := unsafe.StringData(n.payload)
			_, _, err := w.SetData(w.zxid, 1, &txn.SetData{Path: path, Data: data, Version: n.Version() + 1}, nil)
			require.NoError(t, err)
			got, null := w.Get(path).Data()
			require.Equal(t, string(data), got)
			require.False(t, null)
			if was == unsafe.StringData(w.Get(path).payload) {
				inPlace++
			}
		}
	}
	for _, i := range images {
		require.Equal(t, i.want, blocks(t, i.image))
	}
	for path, held := range kept {
		require.Equal(t, path, held)
	}
	require.Equal(t, digestByHand(w.Tree), w.Digest())
	require.Greater(t, len(images), 20)
	require.Greater(t, inPlace, 500)
}

func (w *world) setACL(path string) {
	w.Helper()
	acl := []proto.ACL{{Perms: proto.Perm(w.Get(path).Aversion() & 31), ID: proto.AnyoneID}}
	_, err := w.SetACL(&txn.SetACL{Path: path, ACL: acl, Aversion: w.Get(path).Aversion() + 1})
	require.NoError(w, err)
}

// A loaded tree finds every node and goes on like the one that was encoded.
func TestALoadedTreeFindsEverything(t *testing.T) {
	w := newWorld(t)
	for i := range 400 {
		parent := fmt.Sprintf("/parent-%d", i)
		w.create(parent, 0)
		for j := range i % 150 {
			w.create(fmt.Sprintf("%s/child-%d", parent, j), 0)
		}
	}
	tree, err := load(w.Clone())
	require.NoError(t, err)
	require.Equal(t, w.Len(), tree.Len())
	require.Equal(t, w.Digest(), tree.Digest())
	n := 0
	w.Clone().order.all(func(want *Node) bool {
		got := tree.Get(want.Path())
		require.NotNil(t, got, want.Path())
		require.Equal(t, want.Stat(), got.Stat())
		n++
		return true
	})
	require.Equal(t, w.Len(), n)
	w.Tree = tree
	w.create("/parent-0/first", 0)
	w.del("/parent-149/child-7")
	require.Equal(t, []string{"first"}, w.children("/parent-0"))
	require.Nil(t, w.Get("/parent-149/child-7"))
	require.Equal(t, digestByHand(w.Tree), w.Digest())
}

func TestAllocationsOfAListing(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0)
	for i := range 10 {
		w.create(fmt.Sprintf("/a/%d", i), 0)
	}
	w.create("/a/5/x", 0)
	w.create("/a-b", 0)
	a, length := w.Get("/a"), 0
	var pivot Pivot
	list := func() {
		w.ChildrenWith(&pivot, a, func(child *Node) bool {
			length += len(child.Name())
			return true
		})
	}
	require.Zero(t, testing.AllocsPerRun(100, list))
	require.Zero(t, pivot, "it keeps nothing alive")
	var all []string
	w.Children(a, func(child *Node) bool { all = append(all, child.Path()); return true })
	require.Equal(t, []string{"/a/0", "/a/1", "/a/2", "/a/3", "/a/4", "/a/5", "/a/6", "/a/7", "/a/8", "/a/9"}, all)
}
