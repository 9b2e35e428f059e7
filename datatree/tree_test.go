package datatree

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// world drives a tree with one zxid and one millisecond per change.
type world struct {
	testing.TB
	*Tree
	zxid txn.Zxid
}

func newWorld(tb testing.TB) *world { return &world{tb, New(), 0} }

func (w *world) create(path string, owner txn.SessionID, data ...byte) Events {
	w.Helper()
	w.zxid++
	parent := w.Get(proto.Parent(path))
	c := &txn.Create{Path: path, Data: data, ACL: proto.OpenACL(), Owner: owner}
	if parent != nil {
		c.ParentCversion = parent.RawCversion() + 1
	}
	_, events, err := w.Create(w.zxid, int64(w.zxid), c, nil)
	require.NoError(w, err)
	return events
}

func (w *world) del(path string) Events {
	w.Helper()
	w.zxid++
	events, err := w.Delete(w.zxid, path, nil)
	require.NoError(w, err)
	return events
}

func (w *world) stat(path string) proto.Stat {
	w.Helper()
	n := w.Get(path)
	require.NotNil(w, n, path)
	return n.Stat()
}

func (w *world) children(path string) []string {
	var names []string
	w.Children(w.Get(path), func(c *Node) bool { names = append(names, c.Name()); return true })
	return names
}

func TestInitialNodes(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, proto.Stat{Cversion: -1, NumChildren: 1}, w.stat("/"))
	require.Equal(t, proto.Stat{Cversion: -1, NumChildren: 1}, w.stat(""))
	require.Equal(t, proto.Stat{Cversion: -2, NumChildren: 2}, w.stat("/zookeeper"))
	require.Equal(t, proto.Stat{Aversion: -1}, w.stat("/zookeeper/config"))
	require.Equal(t, proto.Stat{}, w.stat("/zookeeper/quota"))
	require.Equal(t, []proto.ACL{{Perms: proto.PermRead, ID: proto.AnyoneID}}, w.Get("/zookeeper/config").ACL())
	for _, p := range []string{"/", "/zookeeper", "/zookeeper/quota"} {
		require.Equal(t, proto.OpenACL(), w.Get(p).ACL())
		_, null := w.Get(p).Data()
		require.False(t, null, p)
	}
	require.Equal(t, 4, w.Len())
	require.EqualValues(t, 1371985504, w.Digest(), "the digest that ZooKeeper has for an empty tree")
}

func TestStatFields(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0, 1, 2) // zxid 1
	require.Equal(t, proto.Stat{Czxid: 1, Mzxid: 1, Pzxid: 1, Ctime: 1, Mtime: 1, DataLength: 2}, w.stat("/a"))
	w.create("/a/b", 77)
	w.create("/a/c", txn.OwnerContainer)
	w.create("/a/d", txn.SessionID(txn.OwnerTTLMask|5))
	require.EqualValues(t, 77, w.stat("/a/b").EphemeralOwner)
	require.Zero(t, w.stat("/a/c").EphemeralOwner)
	require.Zero(t, w.stat("/a/d").EphemeralOwner)
	w.del("/a/c") // 5
	a := w.stat("/a")
	require.EqualValues(t, 4, a.Cversion, "three creates and a delete")
	require.EqualValues(t, 2, a.NumChildren)
	require.EqualValues(t, 5, a.Pzxid)
	require.EqualValues(t, 1, a.Mzxid)

	_, events, err := w.SetData(6, 60, &txn.SetData{Path: "/a", Version: 1}, nil)
	require.NoError(t, err)
	require.Equal(t, []Event{{proto.EventNodeDataChanged, "/a", proto.OpenACL()}}, []Event(events))
	_, null := w.Get("/a").Data()
	require.True(t, null)
	stat, err := w.SetACL(&txn.SetACL{Path: "/a", ACL: []proto.ACL{{Perms: 1, ID: proto.AnyoneID}}, Aversion: 1})
	require.NoError(t, err)
	require.Equal(t, proto.Stat{Czxid: 1, Mzxid: 6, Pzxid: 5, Ctime: 1, Mtime: 60, Version: 1, Aversion: 1, Cversion: 4, NumChildren: 2},
		stat)
}

func TestEventsOfCreateAndDelete(t *testing.T) {
	w := newWorld(t)
	open := proto.OpenACL()
	require.Equal(t, Events{{proto.EventNodeCreated, "/a", open}, {proto.EventNodeChildrenChanged, "/", open}}, w.create("/a", 5))
	w.create("/b", 0)
	w.create("/b/z", 5)
	w.create("/b/a", 5)
	w.create("/b/other", 6)
	events, err := w.DeleteOwned(9, 5, nil)
	require.NoError(t, err)
	require.Equal(t, Events{
		{proto.EventNodeDeleted, "/a", open}, {proto.EventNodeChildrenChanged, "/", open},
		{proto.EventNodeDeleted, "/b/a", open}, {proto.EventNodeChildrenChanged, "/b", open},
		{proto.EventNodeDeleted, "/b/z", open}, {proto.EventNodeChildrenChanged, "/b", open},
	}, events)
	require.Equal(t, []string{"other"}, w.children("/b"))
	require.Empty(t, w.Ephemerals(5))
	require.Equal(t, 1, w.EphemeralCount())
}

func TestUnfitTransactionsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0)
	w.create("/e", 5)
	digest := w.Digest()
	for _, path := range []string{"/a", "/x/y", "/e/y", "rel", "/a/", "", "/"} {
		_, _, err := w.Create(9, 9, &txn.Create{Path: path, ACL: proto.OpenACL()}, nil)
		require.ErrorIs(t, err, ErrUnfit, path)
	}
	for _, path := range []string{"/x", "/", "/zookeeper"} {
		_, err := w.Delete(9, path, nil)
		require.ErrorIs(t, err, ErrUnfit, path)
	}
	_, _, err := w.SetData(9, 9, &txn.SetData{Path: "/x"}, nil)
	require.ErrorIs(t, err, ErrUnfit)
	_, err = w.SetACL(&txn.SetACL{Path: "/x"})
	require.ErrorIs(t, err, ErrUnfit)
	require.Equal(t, digest, w.Digest())
}

func TestCversionStandsStillAtTheEnd(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0)
	for i, name := range []string{"/a/x", "/a/y"} {
		_, _, err := w.Create(txn.Zxid(10+i), 0, &txn.Create{Path: name, ParentCversion: math.MaxInt32, ACL: proto.OpenACL()}, nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, math.MaxInt32, w.Get("/a").RawCversion())
	require.EqualValues(t, 10, w.Get("/a").Pzxid())
}

func TestChildrenAndDescendants(t *testing.T) {
	w := newWorld(t)
	for _, p := range []string{"/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a-", "/a/c", "/a!", "/a/b-"} {
		w.create(p, 0)
	}
	require.Equal(t, []string{"a", "a!", "a-", "zookeeper"}, w.children("/"))
	require.Equal(t, []string{"b", "b-", "c"}, w.children("/a"))
	require.Equal(t, []string{"c"}, w.children("/a/b"))
	require.Empty(t, w.children("/a-"))
	require.Equal(t, 5, w.Descendants(w.Get("/a")))
	require.Equal(t, 11, w.Descendants(w.Get("/")))
}

// The sum over all nodes, path by path, as the digest is defined.
func digestByHand(t *Tree) (sum uint64) {
	for _, s := range t.nodes.shards {
		for _, n := range s.nodes {
			if n != nil {
				fresh := *n // the sum that the node holds is not trusted
				sumPayload(&fresh, nil)
				sum += t.nodeDigest(&fresh)
			}
		}
	}
	return sum
}

func TestDigestLeavesOutTheSystemsNodes(t *testing.T) {
	w := newWorld(t)
	before := w.Digest()
	_, _, err := w.SetData(1, 1, &txn.SetData{Path: "/zookeeper/config", Data: []byte("x"), Version: 1}, nil)
	require.NoError(t, err)
	require.Equal(t, before, w.Digest())
	w.create("/zookeeperx", 0)
	require.NotEqual(t, before, w.Digest())
	require.Equal(t, digestByHand(w.Tree), w.Digest())
}

// The tree and its digest as the original server stored them in a snapshot: TTL nodes, containers, null data, quota, unicode.
func TestDigestOfARecordedTree(t *testing.T) {
	type line struct {
		Kind, Path string
		Data       json.RawMessage
		Digest     uint64
		Stat       struct {
			Czxid, Mzxid, Pzxid         txn.Zxid
			Ctime, Mtime                int64
			Version, Cversion, Aversion int32
			EphemeralOwner              string
		}
	}
	file, err := os.ReadFile("testdata/recorded-tree.jsonl")
	require.NoError(t, err)
	tree, want := empty(), uint64(0)
	for text := range bytes.Lines(file) {
		var l line
		require.NoError(t, json.Unmarshal(text, &l))
		switch l.Kind {
		case "node":
			var data []byte
			var s string
			var raw struct{ Hex string }
			if json.Unmarshal(l.Data, &s) == nil && string(l.Data) != "null" {
				data = []byte(s)
			} else if json.Unmarshal(l.Data, &raw) == nil && raw.Hex != "" {
				data, err = hex.DecodeString(raw.Hex)
				require.NoError(t, err)
			}
			n := newNode(max(l.Path, "/"), data, tree.lists.intern(nil))
			n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime = l.Stat.Czxid, l.Stat.Mzxid, l.Stat.Pzxid, momentOf(l.Stat.Ctime), momentOf(l.Stat.Mtime)
			n.version, n.cversion, n.aversion = l.Stat.Version, l.Stat.Cversion, l.Stat.Aversion
			owner, err := strconv.ParseUint(l.Stat.EphemeralOwner, 0, 64)
			require.NoError(t, err)
			n.owner = txn.SessionID(owner)
			tree.add(n, tree.nodes.hash(n.Path()), data)
		case "zxidDigest":
			want = l.Digest
		}
	}
	require.Greater(t, tree.Len(), 15)
	require.NotZero(t, want)
	require.Equal(t, want, tree.Digest())
	require.Equal(t, 1, tree.EphemeralCount(), "neither containers nor TTL nodes are ephemerals")
}

func blocks(tb testing.TB, i *Image) []byte {
	var all []byte
	require.NoError(tb, i.Encode(func(b []byte) error { all = append(all, b...); return nil }))
	return all
}

func load(image *Image) (*Tree, error) {
	l := NewLoader(nil)
	if err := image.Encode(l.Add); err != nil {
		return nil, err
	}
	return l.Tree()
}

// Random changes, held against a plain map of paths; every now and then an image is taken, which must stay what it was.
func TestRandomChangesAgainstTwin(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	w := newWorld(t)
	twin := map[string]string{"/": "", "/zookeeper": "", "/zookeeper/config": "", "/zookeeper/quota": ""}
	var image *Image
	var imageBytes []byte
	for i := range 20000 {
		path := fmt.Sprintf("/%d", rng.Intn(30))
		for range rng.Intn(3) {
			path += fmt.Sprintf("/%d", rng.Intn(8))
		}
		_, there := twin[path]
		_, above := twin[proto.Parent(path)]
		n := w.Get(path)
		require.Equal(t, there, n != nil, path)
		switch {
		case !there && above && !w.Get(proto.Parent(path)).Ephemeral():
			w.create(path, txn.SessionID(rng.Intn(4)*rng.Intn(2)), byte(i))
			twin[path] = string([]byte{byte(i)})
		case there && n.NumChildren() == 0 && rng.Intn(2) == 0:
			w.del(path)
			delete(twin, path)
		case there && rng.Intn(3) == 0:
			w.zxid++
			data := bytes.Repeat([]byte{byte(i)}, rng.Intn(50))
			_, _, err := w.SetData(w.zxid, 1, &txn.SetData{Path: path, Data: data, Version: n.Version() + 1}, nil)
			require.NoError(t, err)
			twin[path] = string(data)
		case there:
			_, err := w.SetACL(&txn.SetACL{Path: path, ACL: []proto.ACL{{Perms: proto.Perm(rng.Intn(5)), ID: proto.AnyoneID}}})
			require.NoError(t, err)
		case rng.Intn(20) == 0:
			owner := txn.SessionID(rng.Intn(3) + 1)
			for _, p := range w.Ephemerals(owner) {
				delete(twin, p)
			}
			w.zxid++
			_, err := w.DeleteOwned(w.zxid, owner, nil)
			require.NoError(t, err)
		}
		if i%2000 == 0 {
			if image != nil {
				require.Equal(t, imageBytes, blocks(t, image), "the image changed")
			}
			image = w.Clone()
			imageBytes = blocks(t, image)
		}
	}
	require.Equal(t, len(twin), w.Len())
	total, edges := 0, 1
	for path, data := range twin {
		n := w.Get(path)
		got, _ := n.Data()
		require.Equal(t, data, got)
		require.Same(t, n, w.GetBytes([]byte(path)))
		total += len(path) + len(data)
		require.Len(t, w.children(path), int(n.NumChildren()))
		edges += int(n.NumChildren())
	}
	require.Equal(t, len(twin), edges)
	require.EqualValues(t, total, w.Bytes())
	require.Equal(t, digestByHand(w.Tree), w.Digest())
	require.Greater(t, len(twin), 100)

	back, err := load(w.Clone())
	require.NoError(t, err)
	require.Equal(t, w.Digest(), back.Digest())
	require.Equal(t, w.Len(), back.Len())
	require.Equal(t, w.Bytes(), back.Bytes())
	require.Equal(t, w.owned, back.owned)
	require.Equal(t, blocks(t, w.Clone()), blocks(t, back.Clone()))
	require.Equal(t, len(w.lists), len(back.lists), "lists without nodes are gone")
	for key, s := range w.lists {
		require.Equal(t, s.refs, back.lists[key].refs)
	}
}

func TestLoaderRefusesWhatNoTreeIs(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0)
	w.create("/e", 7)
	first := func(change func(b *block)) error {
		var b block
		for n := range nodesOf(w.Tree) {
			b.Nodes = appendNode(b.Nodes, n, 0)
		}
		b.ACLs = [][]proto.ACL{proto.OpenACL()}
		change(&b)
		l := NewLoader(nil)
		if err := l.Add(appendBlock(nil, &b)); err != nil {
			return err
		}
		_, err := l.Tree()
		return err
	}
	node := func(path string) []byte { return appendNode(nil, newNode(path, nil, nil), 0) }
	for name, change := range map[string]func(b *block){
		"cut":        func(b *block) { b.Nodes = b.Nodes[:len(b.Nodes)-1] },
		"head cut":   func(b *block) { b.Nodes = append(b.Nodes, 1, 2, 3) },
		"no list":    func(b *block) { b.ACLs = nil },
		"list twice": func(b *block) { b.ACLs = append(b.ACLs, b.ACLs[0]) },
		"no root":    func(b *block) { b.Nodes = nil },
		"twice":      func(b *block) { b.Nodes = append(node("/"), node("/")...) },
		"order":      func(b *block) { b.Nodes = append(append(node("/"), node("/b")...), node("/a")...) },
		"orphan":     func(b *block) { b.Nodes = append(node("/"), node("/b/c")...) },
		"no path":    func(b *block) { b.Nodes = append(node("/"), node("")...) },
		"no slash":   func(b *block) { b.Nodes = append(node("/"), node("b")...) },
		"path":       func(b *block) { b.Nodes = append(node("/"), node("/b/")...) },
		"child of e": func(b *block) { b.Nodes = append(b.Nodes, node("/e/x")...) },
	} {
		require.ErrorIs(t, first(change), ErrEncoding, name)
	}
	require.NoError(t, first(func(*block) {}))
	require.ErrorIs(t, NewLoader(nil).Add([]byte("nonsense")), ErrEncoding)
}

func TestEncodeStopsAtAnError(t *testing.T) {
	w := newWorld(t)
	w.create("/a", 0, make([]byte, blockBytes)...)
	w.create("/b", 0, make([]byte, blockBytes)...)
	calls := 0
	err := w.Clone().Encode(func([]byte) error { calls++; return bytes.ErrTooLarge })
	require.ErrorIs(t, err, bytes.ErrTooLarge)
	require.Equal(t, 1, calls)
}

// The index alone, with few slots and much coming and going.
func TestIndexAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	x, twin := newIndex(), map[string]*Node{}
	for range 200_000 {
		path := fmt.Sprintf("/%d", rng.Intn(3000))
		if rng.Intn(5) < 2 {
			if n := twin[path]; n != nil {
				x.remove(n)
				delete(twin, path)
			}
		} else {
			n := newNode(path, nil, nil)
			x.put(n)
			twin[path] = n
		}
		require.True(t, x.get(path) == twin[path])
	}
	require.Equal(t, len(twin), x.len())
	for path, n := range twin {
		require.Same(t, n, x.getBytes([]byte(path)))
	}
	x.remove(newNode("/none", nil, nil))
	require.Equal(t, len(twin), x.len())
}

func TestNodeFillsItsSizeClass(t *testing.T) {
	require.EqualValues(t, 96, unsafe.Sizeof(Node{}))
}

func TestAllowed(t *testing.T) {
	entry := func(perms proto.Perm, scheme, id string) []proto.ACL {
		return []proto.ACL{{Perms: proto.PermAdmin, ID: proto.AnyoneID}, {Perms: perms, ID: proto.ID{Scheme: scheme, ID: id}}}
	}
	ids := []proto.ID{{Scheme: "ip", ID: "10.1.2.3"}, {Scheme: "digest", ID: "bob:x"}}
	for _, c := range []struct {
		acl  []proto.ACL
		want bool
	}{
		{nil, true},
		{entry(proto.PermRead, "digest", "bob:x"), true},
		{entry(proto.PermWrite, "digest", "bob:x"), false},
		{entry(proto.PermRead, "digest", "bob:y"), false},
		{entry(proto.PermRead, "sasl", "bob:x"), false},
		{entry(proto.PermRead, "world", "anyone"), true},
		{entry(proto.PermRead, "ip", "10.1.2.3"), true},
		{entry(proto.PermRead, "ip", "10.1.2.4"), false},
		{entry(proto.PermRead, "ip", "10.1.0.0/16"), true},
		{entry(proto.PermRead, "ip", "10.2.0.0/16"), false},
		{entry(proto.PermRead, "ip", "10.2.0.0/14"), true},
		{entry(proto.PermRead, "ip", "99.0.0.0/0"), true},
		{entry(proto.PermRead, "ip", "10.1.2.3/33"), false},
	} {
		require.Equal(t, c.want, Allowed(c.acl, proto.PermRead, ids), "%v", c.acl)
		require.True(t, Allowed(c.acl, proto.PermRead, append(ids, proto.ID{Scheme: "super"})))
	}
	six := []proto.ID{{Scheme: "ip", ID: "2001:db8:0:0:0:0:ff:1"}}
	for entry, want := range map[string]bool{"2001:db8::ff:1": true, "2001:db8::ff:0/127": true, "2001:db8::ff:0": false, "2001:db9::/32": false,
		"2001:db9::/31": true, "::/0": true, "0.0.0.0/0": false} {
		require.Equal(t, want, Allowed([]proto.ACL{{Perms: 1, ID: proto.ID{Scheme: "ip", ID: entry}}}, 1, six), entry)
	}
	for s, want := range map[string]bool{"1.2.3.4": true, "1.2.3.4/0": true, "01.2.3.4/32": true, "10.0.0/8": false, "1.2.3.4/33": false,
		"1.2.3.4/-1": false, "1.2.3.4/x": false, "": false, "1.2.3.256": false, "1.2.3.4/8/8": false,
		"::1": true, "::": true, "::/0": true, "2001:db8::/32": true, "1:2:3:4:5:6:7:8/128": true, "1:2:3:4:5:6:7:8/129": false,
		"1:2:3:4:5:6:7": false, "1:2:3:4:5:6:7:8:9": false, "1::2::3": false, "1:2:3:4::5:6:7:8": false, ":::": false, "12345::": false,
		"g::": false, "::1.2.3.4": false, "::1%lo": false, ":1": false} {
		require.Equal(t, want, ValidIPEntry(s), s)
	}
}

func FuzzLoader(f *testing.F) {
	w := newWorld(f)
	w.create("/a", 0, 1)
	w.create("/a/b", 7)
	f.Add(blocks(f, w.Clone()))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := NewLoader(nil)
		if l.Add(b) != nil {
			return
		}
		tree, err := l.Tree()
		if err != nil {
			return
		}
		back, err := load(tree.Clone())
		require.NoError(t, err)
		require.Equal(t, tree.Digest(), back.Digest())
		require.Equal(t, blocks(t, tree.Clone()), blocks(t, back.Clone()))
	})
}

// nodesOf yields the nodes in order.
func nodesOf(t *Tree) func(yield func(n *Node) bool) {
	return func(yield func(n *Node) bool) { t.Settle(nil, nil); t.order.all(yield) }
}
