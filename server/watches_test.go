package server

import (
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// Rows 76 to 82 and 84 to 89 of the table of tricky cases.

func watch(path string) *proto.PathWatchRequest {
	return &proto.PathWatchRequest{Path: path, Watch: true}
}

func TestOwnWriteFiresBeforeItsReply(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.create("/v", nil, 0)
	c.get("/v", true)
	c.send(1, proto.OpSetData, &proto.SetDataRequest{Path: "/v", Version: -1})
	require.Equal(t, "NodeDataChanged(/v)", c.event())
	require.EqualValues(t, 1, c.reply().Xid)
	require.EqualValues(t, 1001, c.set("/v", "again").Xid, "one-shot")
}

func TestWatchOfMissingNode(t *testing.T) {
	s := serving(t, nil)
	c, w := s.connect(), s.connect()
	require.Equal(t, proto.ErrNoNode, c.call(1, proto.OpExists, watch("/n")).Err)
	require.Equal(t, proto.ErrNoNode, c.get("/m", true).Err)
	w.create("/m", nil, 0)
	w.create("/n", nil, 0)
	r := c.reply()
	require.Equal(t, int64(txn.MakeZxid(1, 5)), r.Zxid, "the zxid of the transaction")
	var ev proto.WatcherEvent
	require.NoError(t, ev.Decode(proto.NewReader(r.body)))
	require.Equal(t, proto.WatcherEvent{Type: proto.EventNodeCreated, State: proto.StateSyncConnected, Path: "/n"}, ev)
}

func TestDeleteEvents(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.create("/p", nil, 0)
	c.create("/p/q", nil, 0)
	c.get("/p/q", true)
	c.call(1, proto.OpGetChildren, watch("/p/q"))
	c.call(2, proto.OpGetChildren2, watch("/p"))
	c.send(3, proto.OpDelete, &proto.DeleteRequest{Path: "/p/q", Version: -1})
	require.Equal(t, "NodeDeleted(/p/q)", c.event())
	require.Equal(t, "NodeChildrenChanged(/p)", c.event())
	require.EqualValues(t, 3, c.reply().Xid)
}

func TestPersistentAndRecursive(t *testing.T) {
	s := serving(t, nil)
	c, w := s.connect(), s.connect()
	add := func(path string, mode proto.AddWatchMode, want proto.ErrCode) {
		t.Helper()
		r := c.call(1, proto.OpAddWatch, &proto.AddWatchRequest{Path: path, Mode: mode})
		require.Equal(t, want, r.Err)
		if want == proto.OK {
			require.Equal(t, []byte{0, 0, 0, 0}, r.body)
		}
	}
	add("/r", proto.WatchPersistentRecursive, proto.OK)
	add("/p", proto.WatchPersistent, proto.OK)
	add("rel", proto.WatchPersistent, proto.OK)
	add("/p", 7, proto.ErrMarshalling)
	w.create("/r", nil, 0)
	w.create("/r/a", nil, 0)
	w.create("/p", nil, 0)
	w.call(5, proto.OpDelete, &proto.DeleteRequest{Path: "/p", Version: -1})
	w.create("/p", nil, 0)
	w.create("/p/q", nil, 0)
	w.create("/rx", nil, 0)
	w.set("/r/a", "x")
	for _, want := range []string{"NodeCreated(/r)", "NodeCreated(/r/a)", "NodeCreated(/p)", "NodeDeleted(/p)", "NodeCreated(/p)",
		"NodeChildrenChanged(/p)", "NodeDataChanged(/r/a)"} {
		require.Equal(t, want, c.event())
	}
	remove := func(path string, typ proto.WatcherType, want proto.ErrCode) {
		t.Helper()
		require.Equal(t, want, c.call(1, proto.OpRemoveWatches, &proto.RemoveWatchesRequest{Path: path, Type: typ}).Err)
	}
	check := func(path string, typ proto.WatcherType, want proto.ErrCode) {
		t.Helper()
		require.Equal(t, want, c.call(1, proto.OpCheckWatches, &proto.CheckWatchesRequest{Path: path, Type: typ}).Err)
	}
	check("/r", proto.WatcherPersistentRecursive, proto.OK)
	check("/r", proto.WatcherData, proto.ErrNoWatcher)
	remove("/r", proto.WatcherData, proto.ErrNoWatcher)
	remove("/r", 9, proto.ErrMarshalling)
	remove("/r", proto.WatcherAny, proto.OK)
	remove("/r", proto.WatcherAny, proto.ErrNoWatcher)
	w.set("/r/a", "y")
	w.create("/p/z", nil, 0)
	require.Equal(t, "NodeChildrenChanged(/p)", c.event())
	require.Zero(t, s.rep.watches.recursive)
}

func TestSetWatches(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.create("/v", nil, 0)
	zxid := c.create("/v/c", nil, 0).Zxid
	set := func(q *proto.SetWatches2) {
		c.send(-8, proto.OpSetWatches2, q)
	}
	all := []string{"/v"}
	set(&proto.SetWatches2{SetWatches: proto.SetWatches{RelativeZxid: 1, DataWatches: all, ExistWatches: all, ChildWatches: all},
		PersistentWatches: []string{}, PersistentRecursiveWatches: []string{}})
	require.Equal(t, "NodeDataChanged(/v)", c.event())
	r := c.reply()
	require.EqualValues(t, -1, r.Zxid, "no transaction caused it")
	require.Equal(t, "NodeChildrenChanged(/v)", c.event())
	require.EqualValues(t, -8, c.reply().Xid)
	require.Zero(t, s.rep.watches.size())

	c.send(-8, proto.OpSetWatches, &proto.SetWatches{RelativeZxid: zxid, DataWatches: []string{"/v", "/gone"}, ExistWatches: []string{"/later"},
		ChildWatches: []string{"/v", "/lost"}})
	require.Equal(t, "NodeDeleted(/gone)", c.event())
	require.Equal(t, "NodeDeleted(/lost)", c.event())
	require.EqualValues(t, -8, c.reply().Xid)
	c.send(1, proto.OpCreate, &proto.CreateRequest{Path: "/v/d", ACL: proto.OpenACL()})
	require.Equal(t, "NodeChildrenChanged(/v)", c.event())
	c.reply()
	c.send(1, proto.OpCreate, &proto.CreateRequest{Path: "/later", ACL: proto.OpenACL()})
	require.Equal(t, "NodeCreated(/later)", c.event())
	c.reply()
	// A null list ends it, and what stands before is done.
	c.send(-8, proto.OpSetWatches, &proto.SetWatches{DataWatches: []string{"/gone"}, ChildWatches: []string{"/gone"}})
	require.Equal(t, "NodeDeleted(/gone)", c.event())
	require.Equal(t, proto.ErrMarshalling, c.reply().Err)
}

func TestEphemeralsOfAClosingSession(t *testing.T) {
	s := serving(t, nil)
	c, w := s.connect(), s.connect()
	c.create("/e", nil, proto.FlagEphemeral)
	w.get("/e", true)
	w.call(1, proto.OpGetChildren, watch("/"))
	c.get("/e", true)
	c.send(9, proto.OpCloseSession, nil)
	require.Equal(t, "NodeDeleted(/e)", c.event(), "its own watches too, before the reply")
	require.EqualValues(t, 9, c.reply().Xid)
	c.gone()
	require.Equal(t, "NodeDeleted(/e)", w.event())
	require.Equal(t, "NodeChildrenChanged(/)", w.event())
}

func TestEventsAreFilteredByACL(t *testing.T) {
	s := serving(t, nil)
	c, w := s.connect(), s.connect()
	require.Equal(t, proto.OK, c.call(1, proto.OpAddWatch, &proto.AddWatchRequest{Path: "/", Mode: proto.WatchPersistentRecursive}).Err)
	w.send(-4, proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: []byte("bob:secret")})
	w.reply()
	secret := []proto.ACL{{Perms: proto.PermAll, ID: proto.ID{Scheme: "digest", ID: proto.DigestID([]byte("bob:secret"))}}}
	require.Equal(t, proto.OK, w.call(2, proto.OpCreate, &proto.CreateRequest{Path: "/hidden", ACL: secret}).Err)
	w.create("/open", nil, 0)
	require.Equal(t, "NodeCreated(/open)", c.event())
}

func TestWatchesGoWithTheConnection(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	for i := range 100 {
		c.call(1, proto.OpExists, watch("/n"+strconv.Itoa(i)))
	}
	require.Equal(t, 100, s.rep.watches.size())
	again := s.attach(c)
	c.gone()
	again.send(1, proto.OpPing, nil)
	again.reply()
	require.Eventually(t, func() bool { return s.rep.watches.size() == 0 }, patience, 1e6)
}

// The table against a slow twin that is a list.
func TestWatchTableAgainstModel(t *testing.T) {
	type reg struct {
		c    int
		path string
	}
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		table, model := newWatchTable(), map[reg]watchKind{}
		conns := []*conn{{id: 0}, {id: 1}, {id: 2}}
		paths := []string{"/", "/a", "/a/b", "/a/b/c", "/ab", ""}
		for range 500 {
			c, path := rnd.IntN(3), paths[rnd.IntN(len(paths))]
			kinds := watchKind(1 << rnd.IntN(4))
			switch rnd.IntN(5) {
			case 0, 1:
				table.add(conns[c], path, kinds)
				model[reg{c, path}] |= kinds
			case 2:
				had := model[reg{c, path}]&kinds != 0
				require.Equal(t, had, table.has(conns[c], path, kinds))
				require.Equal(t, had, table.remove(conns[c], path, kinds))
				if model[reg{c, path}] &^= kinds; model[reg{c, path}] == 0 {
					delete(model, reg{c, path})
				}
			default:
				typ := proto.EventType(1 + rnd.IntN(4))
				var want []int
				for i := range conns {
					if modelHit(func(p string) watchKind { return model[reg{i, p}] }, typ, path) {
						want = append(want, i)
					}
					once := onceKinds(typ)
					if model[reg{i, path}] &^= once; model[reg{i, path}] == 0 {
						delete(model, reg{i, path})
					}
				}
				var got []int
				for _, h := range table.fire(typ, path, nil) {
					got = append(got, int(h.id))
				}
				sort.Ints(got)
				require.Equal(t, want, got, "%v(%s)", typ, path)
			}
			inData, inEither := 0, 0
			for _, kinds := range model {
				if kinds != watchChild {
					inData++
					inEither++
				}
				if kinds&(watchChild|watchPersistent) != 0 {
					inEither++
				}
			}
			_, _, watches := table.counts()
			require.Equal(t, []int{inData, inEither}, []int{watches, table.size()})
		}
		for _, c := range conns {
			table.forget(c)
		}
		require.Zero(t, table.size())
		require.Empty(t, table.paths)
		require.Zero(t, table.recursive)
	}
}

func onceKinds(typ proto.EventType) watchKind {
	switch typ {
	case proto.EventNodeDeleted:
		return watchData | watchChild
	case proto.EventNodeChildrenChanged:
		return watchChild
	}
	return watchData
}

func modelHit(kinds func(string) watchKind, typ proto.EventType, path string) bool {
	if kinds(path)&(onceKinds(typ)|watchPersistent) != 0 {
		return true
	}
	if typ == proto.EventNodeChildrenChanged {
		return false
	}
	above := []string{path}
	for p := path; strings.Contains(p, "/") && p != "/"; {
		if p = p[:strings.LastIndex(p, "/")]; p == "" {
			p = "/"
		}
		above = append(above, p)
	}
	return slices.ContainsFunc(above, func(p string) bool { return kinds(p)&watchRecursive != 0 })
}
