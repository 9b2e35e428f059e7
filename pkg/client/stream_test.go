package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// streamed opens a stream and plays the server's part.
func streamed(t *testing.T, c *Client, fc *fakeConn, path string, mode WatchMode) *Stream {
	t.Helper()
	var s *Stream
	got := start(func() (err error) { s, err = c.AddWatch(t.Context(), path, mode); return err })
	var req proto.AddWatchRequest
	fc.reply(fc.want(proto.OpAddWatch, &req), proto.OK, &proto.ErrorResponse{})
	require.Equal(t, proto.AddWatchRequest{Path: c.addChroot(path), Mode: mode}, req)
	require.NoError(t, <-got)
	return s
}

func take(s *Stream) (got []string) {
	synctest.Wait()
	for len(s.C()) > 0 {
		e := <-s.C()
		got = append(got, fmt.Sprintf("%d %s", e.Type, e.Path))
	}
	return got
}

func TestStreamGetsWhatItsModeConcerns(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h/root")
		node, tree := streamed(t, c, fc, "/a", WatchNode), streamed(t, c, fc, "/", WatchTree)
		fc.event(EventNodeCreated, "/root/a")
		fc.event(EventNodeChildrenChanged, "/root/a")
		fc.event(EventNodeDataChanged, "/root/a/b/c")
		fc.event(EventNodeDeleted, "/root")
		fc.event(EventNodeDeleted, "/rootless")
		fc.event(proto.EventType(99), "/root/a")
		require.Equal(t, []string{"1 /a", "4 /a"}, take(node))
		require.Equal(t, []string{"1 /a", "3 /a/b/c", "2 /"}, take(tree))
		fc.closed(c)
		e, err := tree.Next(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.Equal(t, Event{Type: EventNone, State: StateClosed, Err: ErrClosed}, e)
		_, open := <-tree.C()
		require.False(t, open)
	})
}

// A reader that falls behind learns that it has missed something, and still gets what came last.
func TestSlowReaderIsToldWhatItMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		s := streamed(t, c, fc, "/a", WatchNode)
		for range streamBacklog {
			fc.event(EventNodeDataChanged, "/a")
		}
		fc.event(EventNodeDeleted, "/a")
		require.Equal(t, []string{"-2 /a", "2 /a"}, take(s))
		fc.closed(c)
	})
}

func TestStreamsAreArmedAgainAndThenToldSo(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("a,b")
		node, tree := streamed(t, c, fc, "/n", WatchNode), streamed(t, c, fc, "/t", WatchTree)
		fc.nc.Close()
		again := <-f.conns
		again.handshake(testTimeout)
		var sw proto.SetWatches2
		require.Equal(t, proto.XidSetWatches, again.want(proto.OpSetWatches2, &sw))
		require.Equal(t, []string{"/n"}, sw.PersistentWatches)
		require.Equal(t, []string{"/t"}, sw.PersistentRecursiveWatches)
		require.Empty(t, take(node), "not before the server has them")
		again.reply(proto.XidSetWatches, proto.OK)
		require.Equal(t, []string{"-2 /n"}, take(node))
		require.Equal(t, []string{"-2 /t"}, take(tree))
		again.closed(c)
	})
}

// Stop tells the server to forget a path, but only if nobody else of this client watches it, even if that one's watch is
// still on its way.
func TestStopLeavesOthersTheirWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		one, two := streamed(t, c, fc, "/a", WatchTree), streamed(t, c, fc, "/a", WatchTree)
		one.Stop()
		one.Stop()
		_, err := one.Next(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		got := start(func() error { _, _, _, err := c.GetW(t.Context(), "/a"); return err })
		xid := fc.want(proto.OpGetData, nil)
		two.Stop()
		fc.reply(xid, proto.OK, &proto.GetDataResponse{})
		require.NoError(t, <-got)
		fc.event(EventNodeDataChanged, "/a")
		synctest.Wait()
		three := streamed(t, c, fc, "/a", WatchTree) // nothing was asked before it
		three.Stop()
		var req proto.RemoveWatchesRequest
		fc.reply(fc.want(proto.OpRemoveWatches, &req), proto.OK)
		require.Equal(t, proto.RemoveWatchesRequest{Path: "/a", Type: proto.WatcherAny}, req)
		fc.closed(c)
	})
}

func TestRefusedOrGivenUpStreamIsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		got := start(func() error { _, err := c.AddWatch(t.Context(), "/a", WatchTree); return err })
		fc.reply(fc.want(proto.OpAddWatch, nil), ErrUnimplemented)
		require.ErrorIs(t, <-got, ErrUnimplemented)
		ctx, cancel := context.WithCancel(t.Context())
		got = start(func() error { _, err := c.AddWatch(ctx, "/a", WatchTree); return err })
		xid := fc.want(proto.OpAddWatch, nil)
		cancel()
		require.ErrorIs(t, <-got, context.Canceled)
		fc.reply(xid, proto.OK, &proto.ErrorResponse{})
		_, err := c.AddWatch(t.Context(), "/a", 7)
		require.ErrorIs(t, err, ErrBadArguments)
		_, err = c.AddWatch(t.Context(), "a", WatchTree)
		require.ErrorIs(t, err, ErrBadArguments)
		synctest.Wait()
		require.Zero(t, c.Watched())
		fc.closed(c)
	})
}

func TestReadOnlyServerIsLeftWhenAnotherWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		got := make(chan *Client, 1)
		go func() {
			c, err := Dial(t.Context(), "a,b", WithReadOnly(), WithDialer(f.dial))
			require.NoError(t, err)
			got <- c
		}()
		fc := <-f.conns
		var hello proto.ConnectRequest
		require.NoError(t, hello.Decode(fc.frame()))
		require.True(t, hello.ReadOnly)
		fc.send(&proto.ConnectResponse{TimeOut: 9000, SessionID: 7, Passwd: testPassword, ReadOnly: true, HasReadOnly: true})
		c := <-got
		require.Equal(t, StateReadOnly, c.State())

		answer := func(says string) {
			look := <-f.conns
			word := make([]byte, 4)
			_, err := io.ReadFull(look.nc, word)
			require.NoError(t, err)
			require.Equal(t, "isro", string(word))
			_, err = look.nc.Write([]byte(says))
			require.NoError(t, err)
			look.nc.Close()
		}
		answer("ro")
		answer("null")
		answer("rw")
		again := <-f.conns
		req := again.handshake(testTimeout)
		require.Zero(t, req.SessionID, "a read-only server's session is nothing to the others")
		synctest.Wait()
		require.Equal(t, StateConnected, c.State())
		again.closed(c)
	})
}

func TestHooksAndStats(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		var told []string
		c, fc := f.connected("h", WithHooks(Hooks{
			Connected:    func(addr string) { told = append(told, "up "+addr) },
			Disconnected: func(addr string, err error) { told = append(told, "down "+addr) },
			Failed:       func(addr string, err error) { told = append(told, "failed "+addr) },
		}))
		fc.nc.Close()
		bad := <-f.conns
		bad.nc.Close()
		again := <-f.conns
		again.handshake(testTimeout)
		again.closed(c)
		require.Equal(t, []string{"up h:2181", "down h:2181", "failed h:2181", "up h:2181", "down h:2181"}, told)
		s := c.Stats()
		require.EqualValues(t, 3, s.Attempts)
		require.EqualValues(t, 2, s.Connects)
		require.EqualValues(t, 1, s.Requests)
		require.EqualValues(t, 1, s.Replies)
		require.NotZero(t, s.BytesSent)
		require.NotZero(t, s.BytesTaken)
	})
}

func TestParseConfig(t *testing.T) {
	members, version, err := ParseConfig([]byte("server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
		"server.2=[::1]:1:2:observer;2182\nserver.3=c:1:2|d:1:2;e:5\nserver.4=f:1:2\nother=x\nversion=1f"))
	require.NoError(t, err)
	require.Equal(t, "1f", version)
	require.Equal(t, []Member{
		{ID: "1", Host: "a", Ports: "2888:3888", Client: "a:2181"},
		{ID: "2", Host: "::1", Ports: "1:2", Observer: true, Client: "[::1]:2182"},
		{ID: "3", Host: "c", Ports: "1:2", Client: "e:5"},
		{ID: "4", Host: "f", Ports: "1:2"},
	}, members)
	for _, bad := range []string{"server.1=x", "server.1=x:1", "server.1=[::1:1:2"} {
		_, _, err := ParseConfig([]byte(bad))
		require.ErrorIs(t, err, ErrMarshalling, bad)
	}
}

func TestQuotaText(t *testing.T) {
	q := Quota{Count: 5, Bytes: NoLimit, CountHard: 7, BytesHard: 9}
	require.Equal(t, "count=5,bytes=-1=;byteHardLimit=9;countHardLimit=7", q.String())
	got, err := ParseQuota([]byte(q.String()))
	require.NoError(t, err)
	require.Equal(t, q, got)
	got, err = ParseQuota([]byte("count=1"))
	require.NoError(t, err)
	require.Equal(t, Quota{1, NoLimit, NoLimit, NoLimit}, got)
	_, err = ParseQuota([]byte("count=x"))
	require.ErrorIs(t, err, ErrMarshalling)
}

func TestTLSNeedsTheRightServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { // no TLS server at all
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			nc.Write([]byte("hello, this is no TLS\n"))
			nc.Close()
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = Dial(ctx, ln.Addr().String(), WithTLS(testTLS), WithHooks(Hooks{Failed: func(string, error) { cancel() }}))
	var trouble *ConnectError
	require.ErrorAs(t, err, &trouble)
	require.ErrorContains(t, err, "TLS")
	ln.Close()
	<-done
}
