package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// watched sets one watch of each kind: data on /d, exists on the missing /x and on /there, children on /c.
func watched(t *testing.T, c *Client, fc *fakeConn) (ws []*Watch) {
	t.Helper()
	take := func(w *Watch, err error) error { ws = append(ws, w); return err }
	var req proto.PathWatchRequest

	got := start(func() error { _, _, w, err := c.GetW(t.Context(), "/d"); return take(w, err) })
	fc.reply(fc.want(proto.OpGetData, &req), proto.OK, &proto.GetDataResponse{})
	require.Equal(t, proto.PathWatchRequest{Path: "/d", Watch: true}, req)
	require.NoError(t, <-got)

	got = start(func() error { _, _, w, err := c.ExistsW(t.Context(), "/x"); return take(w, err) })
	fc.reply(fc.want(proto.OpExists, &req), ErrNoNode)
	require.NoError(t, <-got)

	got = start(func() error { _, _, w, err := c.ExistsW(t.Context(), "/there"); return take(w, err) })
	fc.reply(fc.want(proto.OpExists, &req), proto.OK, &proto.StatResponse{})
	require.NoError(t, <-got)

	got = start(func() error { _, _, w, err := c.ChildrenW(t.Context(), "/c"); return take(w, err) })
	fc.reply(fc.want(proto.OpGetChildren2, &req), proto.OK, &proto.GetChildren2Response{Children: []string{}})
	require.NoError(t, <-got)
	return ws
}

func TestEachWatchGetsItsOneEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		ws := watched(t, c, fc)
		fc.event(proto.EventNodeChildrenChanged, "/d") // not what it asked for
		fc.event(proto.EventNodeDataChanged, "/c")
		fc.event(proto.EventNodeCreated, "/unknown")
		fc.event(proto.EventType(99), "/d")
		synctest.Wait()
		for _, w := range ws {
			require.Empty(t, w.C())
		}
		fc.event(proto.EventNodeDataChanged, "/d")
		fc.event(proto.EventNodeCreated, "/x")
		fc.event(proto.EventNodeDeleted, "/there")
		fc.event(proto.EventNodeDeleted, "/c")
		fc.event(proto.EventNodeDataChanged, "/d") // of a watch that is gone
		want := []Event{
			{Type: EventNodeDataChanged, State: StateConnected, Path: "/d"},
			{Type: EventNodeCreated, State: StateConnected, Path: "/x"},
			{Type: EventNodeDeleted, State: StateConnected, Path: "/there"},
			{Type: EventNodeDeleted, State: StateConnected, Path: "/c"},
		}
		for i, w := range ws {
			e, err := w.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, want[i], e)
			_, err = w.Wait(t.Context())
			require.ErrorIs(t, err, ErrClosed)
		}
		fc.closed(c)
	})
}

// The event may be the next frame behind the reply, before the caller has run.
func TestEventRightBehindTheReplyIsNotMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		got := start(func() error {
			_, _, w, err := c.GetW(t.Context(), "/d")
			require.NoError(t, err)
			_, err = w.Wait(t.Context())
			return err
		})
		xid := fc.want(proto.OpGetData, nil)
		frames := proto.AppendFrame(nil, &proto.ReplyHeader{Xid: xid, Zxid: 1}, &proto.GetDataResponse{})
		frames = proto.AppendFrame(frames, &proto.ReplyHeader{Xid: proto.XidNotification, Zxid: -1},
			&proto.WatcherEvent{Type: EventNodeDataChanged, State: proto.StateSyncConnected, Path: "/d"})
		_, err := fc.nc.Write(frames)
		require.NoError(t, err)
		require.NoError(t, <-got)
		fc.closed(c)
	})
}

func TestReconnectGivesSessionCredentialsWatchesThenRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("a,b")
		auth := start(func() error { return c.AddAuth(t.Context(), "digest", []byte("u:p")) })
		require.Equal(t, proto.XidAuth, fc.want(proto.OpAuth, nil))
		fc.send(&proto.ReplyHeader{Xid: proto.XidAuth})
		require.NoError(t, <-auth)
		ws := watched(t, c, fc)
		require.EqualValues(t, 4, c.LastZxid())
		fc.nc.Close()
		synctest.Wait()
		del := start(func() error { return c.Delete(t.Context(), "/a", 1) })
		synctest.Wait() // it is in the queue

		again := <-f.conns
		require.NotEqual(t, fc.addr, again.addr)
		req := again.handshake(testTimeout)
		require.Equal(t, testSession, req.SessionID)
		require.Equal(t, testPassword, req.Passwd)
		require.EqualValues(t, 4, req.LastZxidSeen)
		require.EqualValues(t, testTimeout.Milliseconds(), req.TimeOut)

		var cred proto.AuthPacket
		require.Equal(t, proto.XidAuth, again.want(proto.OpAuth, &cred))
		require.Equal(t, proto.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}, cred)
		var sw proto.SetWatches
		require.Equal(t, proto.XidSetWatches, again.want(proto.OpSetWatches, &sw))
		slices.Sort(sw.DataWatches)
		require.Equal(t, proto.SetWatches{
			RelativeZxid: 4, DataWatches: []string{"/d", "/there"}, ExistWatches: []string{"/x"}, ChildWatches: []string{"/c"},
		}, sw)
		require.EqualValues(t, 1, again.want(proto.OpDelete, nil))
		require.EqualValues(t, 2, again.writes.Load(), "handshake, then everything at once")

		again.send(&proto.ReplyHeader{Xid: proto.XidAuth})
		again.event(proto.EventNodeDataChanged, "/d")
		again.reply(proto.XidSetWatches, proto.OK)
		again.reply(1, proto.OK)
		require.NoError(t, <-del)
		_, err := ws[0].Wait(t.Context())
		require.NoError(t, err)
		again.closed(c)
		for _, w := range ws[1:] {
			e, err := w.Wait(t.Context())
			require.ErrorIs(t, err, ErrClosed)
			require.Equal(t, Event{Type: EventNone, State: StateClosed, Err: ErrClosed}, e)
		}
	})
}

func TestRefusedWatchesCostTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		watched(t, c, fc)
		fc.nc.Close()
		second := <-f.conns
		second.handshake(testTimeout)
		second.want(proto.OpSetWatches, nil)
		second.reply(proto.XidSetWatches, ErrMarshalling)
		third := <-f.conns
		third.handshake(testTimeout)
		third.want(proto.OpSetWatches, nil)
		third.reply(proto.XidSetWatches, proto.OK)
		third.closed(c)
	})
}

// Nobody holds the Watch or the Stream of a reply that does not decode, so nobody could stop it.
func TestReplyThatDoesNotDecodeLeavesNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		get := start(func() error { _, _, _, err := c.GetW(t.Context(), "/a"); return err })
		fc.reply(fc.want(proto.OpGetData, nil), proto.OK)
		require.ErrorIs(t, <-get, ErrMarshalling)
		require.Zero(t, c.Watched())
		second := <-f.conns
		second.handshake(testTimeout)
		add := start(func() error { _, err := c.AddWatch(t.Context(), "/a", WatchTree); return err })
		second.reply(second.want(proto.OpAddWatch, nil), proto.OK)
		require.ErrorIs(t, <-add, ErrMarshalling)
		require.Zero(t, c.Watched())
		third := <-f.conns
		third.handshake(testTimeout)
		third.closed(c)
	})
}

func TestWatchesEndWithTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		ws := watched(t, c, fc)
		fc.nc.Close()
		again := <-f.conns
		again.handshake(0)
		for _, w := range ws {
			e, err := w.Wait(t.Context())
			require.ErrorIs(t, err, ErrSessionExpired)
			require.Equal(t, Event{Type: EventNone, State: StateExpired, Err: ErrSessionExpired}, e)
		}
		require.NoError(t, c.Close())
	})
}

func TestFailedReadSetsNoWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		ctx, cancel := context.WithCancel(t.Context())
		get := start(func() error { _, _, _, err := c.GetW(t.Context(), "/d"); return err })
		fc.reply(fc.want(proto.OpGetData, nil), ErrNoNode)
		require.ErrorIs(t, <-get, ErrNoNode)
		late := start(func() error { _, _, _, err := c.ChildrenW(ctx, "/d"); return err })
		xid := fc.want(proto.OpGetChildren2, nil)
		cancel()
		require.ErrorIs(t, <-late, context.Canceled)
		fc.reply(xid, proto.OK, &proto.GetChildren2Response{})
		synctest.Wait()
		require.Empty(t, c.watches.appendFrames(nil, 1))
		fc.closed(c)
	})
}

func TestStoppedWatchIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		ws := watched(t, c, fc)
		for _, w := range ws {
			w.Stop()
			w.Stop()
			_, err := w.Wait(t.Context())
			require.ErrorIs(t, err, ErrClosed)
		}
		require.Empty(t, c.watches.appendFrames(nil, 1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := (&Watch{ch: make(chan Event)}).Wait(ctx)
		require.ErrorIs(t, err, context.Canceled)
		fc.closed(c)
	})
}

func TestSetWatchesComesInBoundedFrames(t *testing.T) {
	var ws watches
	want := map[string]bool{}
	for i := range 3000 {
		path := fmt.Sprintf("/%0200d", i)
		kind := watchKind(i % 3)
		ws.put(&Watch{kind: kind, path: path})
		want[fmt.Sprint(kind, path)] = true
	}
	frames := ws.appendFrames(nil, 7)
	chunks := 0
	for len(frames) > 0 {
		n, err := proto.ReadFrameHeader(frames, 1<<20)
		require.NoError(t, err)
		r := proto.NewReader(frames[4 : 4+n])
		frames = frames[4+n:]
		var h proto.RequestHeader
		var sw proto.SetWatches
		require.NoError(t, h.Decode(r))
		require.NoError(t, sw.Decode(r))
		require.EqualValues(t, 7, sw.RelativeZxid)
		text := 0
		for kind, list := range [][]string{sw.DataWatches, sw.ExistWatches, sw.ChildWatches} {
			require.NotNil(t, list)
			text += len(strings.Join(list, ""))
			for _, p := range list {
				delete(want, fmt.Sprint(kind, p))
			}
		}
		require.LessOrEqual(t, text, maxWatchBytes)
		chunks++
	}
	require.Empty(t, want)
	require.Equal(t, 5, chunks)
}
