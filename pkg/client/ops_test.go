package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

func TestChrootIsAddedAndTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h/app")
		ctx := t.Context()
		var cr proto.CreateRequest
		got := start(func() error {
			path, err := c.Create(ctx, "/q/n-", []byte("x"), EphemeralSequential, WorldACL(PermRead))
			require.Equal(t, "/q/n-0000000001", path)
			return err
		})
		fc.reply(fc.want(proto.OpCreate, &cr), proto.OK, &proto.CreateResponse{Path: "/app/q/n-0000000001"})
		require.NoError(t, <-got)
		require.Equal(t, proto.CreateRequest{
			Path: "/app/q/n-", Data: []byte("x"), Flags: EphemeralSequential,
			ACL: []ACL{{Perms: PermRead, ID: proto.AnyoneID}},
		}, cr)

		var pw proto.PathWatchRequest
		got = start(func() error {
			_, _, w, err := c.ChildrenW(ctx, "/")
			require.NoError(t, err)
			e, err := w.Wait(ctx)
			require.Equal(t, "/", e.Path)
			return err
		})
		fc.reply(fc.want(proto.OpGetChildren2, &pw), proto.OK, &proto.GetChildren2Response{})
		require.Equal(t, "/app", pw.Path)
		fc.event(EventNodeChildrenChanged, "/app")
		require.NoError(t, <-got)

		got = start(func() error { // below the chroot, not beside it
			path, err := c.Create(ctx, "/", nil, PersistentSequential, nil)
			require.Equal(t, "/0000000001", path)
			return err
		})
		fc.reply(fc.want(proto.OpCreate, &cr), proto.OK, &proto.CreateResponse{Path: "/app/0000000001"})
		require.NoError(t, <-got)
		require.Equal(t, "/app/", cr.Path)
		got = start(func() error {
			_, err := c.Create(ctx, "/", nil, Persistent, nil)
			return err
		})
		fc.reply(fc.want(proto.OpCreate, &cr), proto.OK, &proto.CreateResponse{Path: "/app"})
		require.NoError(t, <-got)
		require.Equal(t, "/app", cr.Path)
		fc.closed(c)
	})
}

func TestOnlyWholeNamesOfTheChrootAreTakenAway(t *testing.T) {
	c := &Client{chroot: "/zoo"}
	for whole, own := range map[string]string{"/zoo": "/", "/zoo/a": "/a", "/zookeeper/config": "/zookeeper/config", "/a": "/a", "": ""} {
		require.Equal(t, own, c.stripChroot(whole))
	}
	c.chroot = ""
	require.Equal(t, "/a", c.stripChroot("/a"))
	require.Equal(t, "/", c.stripChroot("/"))
}

func TestStatCarriesTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		wire := proto.Stat{Czxid: 1, Mzxid: 2, Ctime: 3000, Mtime: 4001, Version: 5, Cversion: 6, Aversion: 7,
			EphemeralOwner: 8, DataLength: 9, NumChildren: 10, Pzxid: 11}
		want := Stat{Czxid: 1, Mzxid: 2, Pzxid: 11, Ctime: time.Unix(3, 0), Mtime: time.UnixMilli(4001), Version: 5,
			Cversion: 6, Aversion: 7, EphemeralOwner: 8, DataLength: 9, NumChildren: 10}
		check := func(s Stat, err error) error { require.Equal(t, want, s); return err }
		ctx := t.Context()
		step := func(op proto.Op, reply proto.Record, call func() error) {
			t.Helper()
			got := start(call)
			fc.reply(fc.want(op, nil), proto.OK, reply)
			require.NoError(t, <-got)
		}
		step(proto.OpExists, &proto.StatResponse{Stat: wire}, func() error {
			s, found, err := c.Exists(ctx, "/a")
			require.True(t, found)
			return check(s, err)
		})
		step(proto.OpGetData, &proto.GetDataResponse{Stat: wire}, func() error {
			data, s, err := c.Get(ctx, "/a")
			require.Nil(t, data)
			return check(s, err)
		})
		step(proto.OpSetData, &proto.StatResponse{Stat: wire}, func() error { return check(c.Set(ctx, "/a", nil, 1)) })
		step(proto.OpSetACL, &proto.StatResponse{Stat: wire}, func() error {
			return check(c.SetACL(ctx, "/a", AuthACL(PermAll), 1))
		})
		step(proto.OpGetACL, &proto.GetACLResponse{Stat: wire, ACL: AuthACL(PermAll)}, func() error {
			acl, s, err := c.GetACL(ctx, "/a")
			require.Equal(t, AuthACL(PermAll), acl)
			return check(s, err)
		})
		step(proto.OpGetChildren2, &proto.GetChildren2Response{Stat: wire, Children: []string{"b"}}, func() error {
			names, s, err := c.Children(ctx, "/a")
			require.Equal(t, []string{"b"}, names)
			return check(s, err)
		})
		step(proto.OpCreate2, &proto.Create2Response{Stat: wire, Path: "/a"}, func() error {
			path, s, err := c.CreateStat(ctx, "/a", nil, Ephemeral, nil)
			require.Equal(t, "/a", path)
			return check(s, err)
		})
		step(proto.OpCreateContainer, &proto.Create2Response{Stat: wire, Path: "/a"}, func() error {
			_, err := c.Create(ctx, "/a", nil, Container, nil)
			return err
		})
		step(proto.OpSync, &proto.SyncResponse{Path: "/a"}, func() error { return c.Sync(ctx, "/a") })
		fc.closed(c)
	})
}

func TestMultiFillsInResults(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h/r")
		var m Multi
		m.Check("/a", 1)
		created := m.Create("/a/n", []byte("x"), PersistentSequential, nil)
		box := m.Create("/box", nil, Container, nil)
		updated := m.Set("/a", []byte("y"), 2)
		m.Delete("/old", AnyVersion)
		require.Equal(t, 5, m.Len())
		got := start(func() error { return c.Multi(t.Context(), &m) })

		var h proto.RequestHeader
		r := fc.frame()
		require.NoError(t, h.Decode(r))
		ops, err := proto.DecodeMulti(r)
		require.NoError(t, err)
		open := proto.OpenACL()
		require.Equal(t, []proto.MultiOp{
			{Op: proto.OpCheck, Request: &proto.CheckVersionRequest{Path: "/r/a", Version: 1}},
			{Op: proto.OpCreate2, Request: &proto.CreateRequest{Path: "/r/a/n", Data: []byte("x"), ACL: open, Flags: PersistentSequential}},
			{Op: proto.OpCreateContainer, Request: &proto.CreateRequest{Path: "/r/box", ACL: open, Flags: Container}},
			{Op: proto.OpSetData, Request: &proto.SetDataRequest{Path: "/r/a", Data: []byte("y"), Version: 2}},
			{Op: proto.OpDelete, Request: &proto.DeleteRequest{Path: "/r/old", Version: -1}},
		}, ops)
		fc.reply(h.Xid, proto.OK, results{
			{Op: proto.OpCheck},
			{Op: proto.OpCreate2, Path: "/r/a/n0000000001", Stat: proto.Stat{Czxid: 9}},
			{Op: proto.OpCreate, Path: "/r/box"}, // as old servers answer
			{Op: proto.OpSetData, Stat: proto.Stat{Version: 3}},
			{Op: proto.OpDelete},
		})
		require.NoError(t, <-got)
		require.Equal(t, "/a/n0000000001", created.Path)
		require.EqualValues(t, 9, created.Stat.Czxid)
		require.Equal(t, Created{Path: "/box"}, *box)
		require.EqualValues(t, 3, updated.Stat.Version)

		got = start(func() error { return c.Multi(t.Context(), &m) })
		fail := func(code proto.ErrCode) proto.MultiResult { return proto.MultiResult{Op: proto.OpError, Err: code} }
		fc.reply(fc.want(proto.OpMulti, nil), proto.OK, results{
			fail(proto.OK), fail(proto.ErrNodeExists), fail(-2), fail(-2), fail(-2),
		})
		err = <-got
		var me *MultiError
		require.ErrorAs(t, err, &me)
		require.Equal(t, MultiError{Index: 1, Op: proto.OpCreate2, Path: "/a/n", Err: ErrNodeExists}, *me)
		require.ErrorIs(t, err, ErrNodeExists)
		require.ErrorContains(t, err, "multi: operation 1, create2 /a/n: node already exists")

		got = start(func() error { return c.Multi(t.Context(), &m) })
		fc.reply(fc.want(proto.OpMulti, nil), proto.OK, results{fail(proto.OK)})
		require.ErrorIs(t, <-got, ErrMarshalling)
		again := <-f.conns
		again.handshake(testTimeout)

		var bad Multi
		bad.Check("/ok", 1)
		bad.Delete("nope", 1)
		err = c.Multi(t.Context(), &bad)
		require.ErrorAs(t, err, &me)
		require.Equal(t, 1, me.Index)
		require.ErrorIs(t, err, ErrBadArguments)
		again.closed(c)
	})
}

type results []proto.MultiResult

func (rs results) Append(dst []byte) []byte  { return proto.AppendMultiResults(dst, rs) }
func (results) Decode(r *proto.Reader) error { return r.Err() }

func TestRefusedCredentialsAreNotGivenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		auth := start(func() error { return c.AddAuth(t.Context(), "nope", nil) })
		fc.want(proto.OpAuth, nil)
		fc.send(&proto.ReplyHeader{Xid: proto.XidAuth, Err: ErrAuthFailed})
		require.ErrorIs(t, <-auth, ErrAuthFailed)
		sync := start(func() error { return c.Sync(t.Context(), "/") }) // not on the connection that is about to break
		again := <-f.conns
		again.handshake(testTimeout)
		again.reply(again.want(proto.OpSync, nil), proto.OK, &proto.SyncResponse{})
		require.NoError(t, <-sync)
		again.closed(c) // no credentials before the close
	})
}

func TestGoodCredentialsRefusedLaterEndTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h", WithAuth("digest", []byte("u:p")))
		fc.want(proto.OpAuth, nil)
		fc.send(&proto.ReplyHeader{Xid: proto.XidAuth})
		twice := start(func() error { return c.AddAuth(t.Context(), "digest", []byte("u:p")) })
		fc.want(proto.OpAuth, nil)
		fc.send(&proto.ReplyHeader{Xid: proto.XidAuth})
		require.NoError(t, <-twice)
		fc.nc.Close()
		again := <-f.conns
		again.handshake(testTimeout)
		again.want(proto.OpAuth, nil)
		again.send(&proto.ReplyHeader{Xid: proto.XidAuth, Err: ErrAuthFailed})
		<-c.Done()
		require.ErrorIs(t, c.Err(), ErrAuthFailed)
		require.Equal(t, StateAuthFailed, c.State())
		require.NoError(t, c.Close())
	})
}

// An answer to credentials may overtake those of earlier requests.
func TestAuthReplyOvertakes(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		get := start(func() error { _, _, err := c.Get(t.Context(), "/a"); return err })
		xid := fc.want(proto.OpGetData, nil)
		auth := start(func() error { return c.AddAuth(t.Context(), "digest", []byte("u:p")) })
		fc.want(proto.OpAuth, nil)
		fc.send(&proto.ReplyHeader{Xid: proto.XidAuth})
		require.NoError(t, <-auth)
		synctest.Wait()
		require.Empty(t, get)
		fc.reply(xid, proto.OK, &proto.GetDataResponse{})
		require.NoError(t, <-get)
		fc.closed(c)
	})
}

func TestDigestACL(t *testing.T) {
	require.Equal(t, []ACL{{Perms: PermRead, ID: proto.ID{Scheme: "digest", ID: "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="}}},
		DigestACL("bob", "secret", PermRead))
}
