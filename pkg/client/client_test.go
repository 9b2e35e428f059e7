package client

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

func TestConnectString(t *testing.T) {
	f := func(in, addrs, chroot string) {
		t.Helper()
		got, root, err := parseConnectString(in)
		require.NoError(t, err)
		require.Equal(t, addrs, strings.Join(got, " "))
		require.Equal(t, chroot, root)
	}
	f("a", "a:2181", "")
	f("a:1,b", "a:1 b:2181", "")
	f("a:1, b:2/x/y", "a:1 b:2", "/x/y")
	f("a/", "a:2181", "")
	f("[::1]:7,::1,[fe80::1]", "[::1]:7 [::1]:2181 [fe80::1]:2181", "")
	for _, bad := range []string{"", ",", "a,", "a:0", "a:x", "a:65536", ":1", "a:1:2", "a/x/", "a/x//y", "/x"} {
		_, _, err := parseConnectString(bad)
		require.ErrorIs(t, err, ErrBadArguments, bad)
	}
}

func TestDialRefusesNonsense(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, time.Microsecond, math.MaxInt64} {
		_, err := Dial(t.Context(), "a", WithSessionTimeout(d))
		require.ErrorIs(t, err, ErrBadArguments)
	}
}

func TestDialOpensAndCloseEndsTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		got := make(chan *Client)
		go func() {
			c, _ := Dial(t.Context(), "h:1", WithDialer(f.dial), WithSessionTimeout(7*time.Second))
			got <- c
		}()
		fc := <-f.conns
		req := fc.handshake(testTimeout)
		require.Equal(t, proto.ConnectRequest{TimeOut: 7000, Passwd: make([]byte, 16), HasReadOnly: true}, req)
		c := <-got
		require.Equal(t, StateConnected, c.State())
		require.Equal(t, testSession, c.SessionID())
		require.Equal(t, testTimeout, c.SessionTimeout())
		require.Equal(t, "h:1", c.Server())
		require.NoError(t, c.Err())
		states := c.States()

		fc.closed(c)
		<-c.Done()
		require.ErrorIs(t, c.Err(), ErrClosed)
		require.Equal(t, StateClosed, c.State())
		require.Equal(t, []State{StateConnected, StateClosed}, collect(states))
		require.Equal(t, []State{StateClosed}, collect(c.States()))
		require.NoError(t, c.Close())
		_, _, err := c.Get(t.Context(), "/a")
		require.ErrorIs(t, err, ErrClosed)
	})
}

func collect(ch <-chan State) (all []State) {
	for s := range ch {
		all = append(all, s)
	}
	return all
}

func TestDialTellsOfEveryServerWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		dial := func(context.Context, string, string) (net.Conn, error) {
			attempts++
			return nil, errors.New("nobody there")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := Dial(ctx, "a:1,b:2", WithDialer(dial))
		var ce *ConnectError
		require.ErrorAs(t, err, &ce)
		require.Len(t, ce.Attempts, 2)
		require.ErrorIs(t, err, ErrConnectionLoss)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "a:1: nobody there")
		require.Greater(t, attempts, 20)
		require.Less(t, attempts, 60, "back-off must grow to a second for each server in the mean of its jitter")
	})
}

// A server that accepts and says nothing must not hold up the others beyond its share of the timeout.
func TestSilentServerIsLeftAfterItsShare(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		begin := time.Now()
		got := start(func() error {
			c, err := Dial(t.Context(), "a,b", WithDialer(f.dial), WithSessionTimeout(8*time.Second))
			if err == nil {
				go c.Close()
			}
			return err
		})
		first := <-f.conns
		first.frame()
		second := <-f.conns
		require.Equal(t, 4*time.Second, time.Since(begin))
		require.NotEqual(t, first.addr, second.addr)
		second.handshake(testTimeout)
		require.NoError(t, <-got)
		second.reply(second.want(proto.OpCloseSession, nil), proto.OK)
	})
}

func TestWhatWaitsTogetherLeavesInOneWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		before := fc.writes.Load()
		results := make(chan error, 50)
		get := func() { _, _, err := c.Get(t.Context(), "/a"); results <- err }
		go get()
		synctest.Wait() // the first one blocks in its write, for nobody reads
		for range 49 {
			go get()
		}
		synctest.Wait()
		for i := range int32(50) {
			require.Equal(t, i+1, fc.want(proto.OpGetData, nil))
		}
		require.EqualValues(t, 2, fc.writes.Load()-before)
		for i := range int32(50) {
			fc.reply(i+1, proto.OK, &proto.GetDataResponse{})
			require.NoError(t, <-results)
		}
		require.EqualValues(t, 50, c.LastZxid())
		fc.closed(c)
	})
}

func TestConnectionLossTellsWhatMayHaveHappened(t *testing.T) {
	wrongXid := func(fc *fakeConn) { fc.reply(77, proto.OK) }
	cut := func(fc *fakeConn) { fc.nc.Close() }
	unasked := func(fc *fakeConn) { fc.reply(1, proto.OK, &proto.StatResponse{}); fc.reply(3, proto.OK) }
	garbage := func(fc *fakeConn) { fc.nc.Write([]byte{0xFF, 0xFF, 0xFF, 0xFF, 1}) }
	short := func(fc *fakeConn) { fc.nc.Write([]byte{0, 0, 0, 3, 1, 2, 3}) }
	for name, trouble := range map[string]func(*fakeConn){"wrong xid": wrongXid, "cut": cut, "garbage": garbage, "short": short} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fake) {
				c, fc := f.connected("h")
				set := start(func() error { _, err := c.Set(t.Context(), "/a", nil, 3); return err })
				fc.want(proto.OpSetData, nil)
				get := start(func() error { _, _, err := c.Get(t.Context(), "/b"); return err })
				fc.want(proto.OpGetData, nil)
				go trouble(fc)

				var oe *OpError
				require.ErrorAs(t, <-set, &oe)
				require.Equal(t, OpError{Op: proto.OpSetData, Path: "/a", Err: ErrConnectionLoss, MaybeApplied: true}, *oe)
				require.ErrorAs(t, <-get, &oe)
				require.Equal(t, OpError{Op: proto.OpGetData, Path: "/b", Err: ErrConnectionLoss}, *oe)

				again := <-f.conns
				again.handshake(testTimeout)
				again.closed(c)
			})
		})
	}
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		set := start(func() error { _, err := c.Set(t.Context(), "/a", nil, 3); return err })
		fc.want(proto.OpSetData, nil)
		unasked(fc)
		require.NoError(t, <-set)
		again := <-f.conns
		again.handshake(testTimeout)
		again.closed(c)
	})
}

func TestReplyThatDoesNotDecodeCostsTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		set := start(func() error { _, err := c.Set(t.Context(), "/a", nil, 3); return err })
		fc.reply(fc.want(proto.OpSetData, nil), proto.OK)
		err := <-set
		var oe *OpError
		require.ErrorAs(t, err, &oe)
		require.ErrorIs(t, err, ErrMarshalling)
		require.True(t, oe.MaybeApplied)
		again := <-f.conns
		again.handshake(testTimeout)
		again.closed(c)
	})
}

func TestCancelledCallReturnsAtOnceAndItsAnswerIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		ctx, cancel := context.WithCancel(t.Context())
		del := start(func() error { return c.Delete(ctx, "/a", AnyVersion) })
		xid := fc.want(proto.OpDelete, nil)
		cancel()
		err := <-del
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "delete /a: context canceled (it may have been carried out)")

		get := start(func() error {
			data, _, err := c.Get(t.Context(), "/b")
			require.Equal(t, "b", string(data))
			return err
		})
		second := fc.want(proto.OpGetData, nil)
		fc.reply(xid, ErrNoNode)
		fc.reply(second, proto.OK, &proto.GetDataResponse{Data: []byte("b")})
		require.NoError(t, <-get)

		require.ErrorIs(t, c.Delete(ctx, "/c", 0), context.Canceled)
		fc.closed(c) // which also shows that the last delete was never sent
	})
}

func TestRequestThatWasNotSentSurvivesAReconnectOrItsContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		fc.nc.Close()
		synctest.Wait()
		require.Equal(t, StateDisconnected, c.State())
		require.Empty(t, c.Server())
		ctx, cancel := context.WithCancel(t.Context())
		gone := start(func() error { _, err := c.Create(ctx, "/gone", nil, Persistent, nil); return err })
		kept := start(func() error { _, err := c.Create(t.Context(), "/kept", nil, Persistent, nil); return err })
		synctest.Wait()
		cancel()
		var oe *OpError
		require.ErrorAs(t, <-gone, &oe)
		require.False(t, oe.MaybeApplied)

		again := <-f.conns
		again.handshake(testTimeout)
		var req proto.CreateRequest
		again.reply(again.want(proto.OpCreate, &req), proto.OK, &proto.CreateResponse{Path: "/kept"})
		require.Equal(t, "/kept", req.Path)
		require.Equal(t, proto.OpenACL(), req.ACL)
		require.NoError(t, <-kept)
		again.closed(c)
	})
}

func TestPingsAtAThirdAndLeavesASilentServerAtTwoThirds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		begin := time.Now()
		for i := range time.Duration(3) {
			require.Equal(t, proto.XidPing, fc.want(proto.OpPing, nil))
			require.Equal(t, (i+1)*testTimeout/3, time.Since(begin))
			fc.reply(proto.XidPing, proto.OK)
		}
		require.Equal(t, proto.XidPing, fc.want(proto.OpPing, nil)) // and no answer
		again := <-f.conns
		since := time.Since(begin) - testTimeout
		require.GreaterOrEqual(t, since, testTimeout*2/3)
		require.Less(t, since, testTimeout*2/3+maxBackoff)
		again.handshake(testTimeout)
		again.closed(c)
	})
}

func TestARequestPutsOffThePing(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		begin := time.Now()
		time.Sleep(testTimeout / 4)
		get := start(func() error { _, _, err := c.Exists(t.Context(), "/a"); return err })
		fc.reply(fc.want(proto.OpExists, nil), ErrNoNode)
		require.NoError(t, <-get)
		fc.want(proto.OpPing, nil)
		require.Equal(t, testTimeout/4+testTimeout/3, time.Since(begin))
		fc.reply(proto.XidPing, proto.OK)
		fc.closed(c)
	})
}

func TestCloseWithoutAServer(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		fc.nc.Close()
		synctest.Wait()
		get := start(func() error { _, _, err := c.Get(t.Context(), "/a"); return err })
		synctest.Wait()
		require.ErrorIs(t, c.Close(), ErrConnectionLoss)
		require.ErrorIs(t, <-get, ErrClosed)
	})
}

func TestCloseWhenTheServerDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		get := start(func() error { _, _, err := c.Get(t.Context(), "/a"); return err })
		fc.want(proto.OpGetData, nil)
		begin := time.Now()
		closing := start(c.Close)
		fc.want(proto.OpCloseSession, nil)
		go func() { var b [64]byte; fc.nc.Read(b[:]) }() // a ping
		require.ErrorIs(t, <-closing, context.DeadlineExceeded)
		require.Equal(t, closeTimeout, time.Since(begin))
		require.ErrorIs(t, <-get, ErrConnectionLoss)
		fc.nc.Close()
	})
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		closing := start(c.Close)
		fc.want(proto.OpCloseSession, nil)
		fc.nc.Close()
		require.ErrorIs(t, <-closing, ErrConnectionLoss)
		require.ErrorIs(t, c.Err(), ErrClosed)
	})
}

func TestRefusedSessionEndsTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h")
		states := c.States()
		fc.nc.Close()
		synctest.Wait()
		set := start(func() error { _, err := c.Set(t.Context(), "/a", nil, 1); return err })
		again := <-f.conns
		again.handshake(0)
		<-c.Done()
		require.ErrorIs(t, c.Err(), ErrSessionExpired)
		err := <-set
		require.ErrorIs(t, err, ErrSessionExpired)
		require.ErrorIs(t, c.Delete(t.Context(), "/a", 1), ErrSessionExpired)
		require.Equal(t, []State{StateConnected, StateDisconnected, StateExpired}, collect(states))
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Err(), ErrSessionExpired)
	})
}

func TestSlowSubscriberLosesOldStatesNotTheLast(t *testing.T) {
	c := &Client{state: StateConnected}
	ch := c.States()
	for range 3 * stateBacklog {
		c.setStateLocked(StateDisconnected)
		c.setStateLocked(StateConnected)
	}
	c.setStateLocked(StateExpired)
	all := collect(ch)
	require.Len(t, all, stateBacklog)
	require.Equal(t, StateExpired, all[stateBacklog-1])
}

func TestXidsStayPositive(t *testing.T) {
	require.EqualValues(t, 1, nextAfter(0))
	require.EqualValues(t, 1, nextAfter(math.MaxInt32))
}

func TestBadCallsDoNotReachTheWire(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("h", WithMaxFrame(100))
		ctx := t.Context()
		for _, p := range []string{"", "a", "/a/", "/a//b", "/a/..", "/\x00"} {
			_, _, err := c.Get(ctx, p)
			require.ErrorIs(t, err, ErrBadArguments)
			_, err = c.Create(ctx, p+"", nil, Persistent, nil)
			require.ErrorIs(t, err, ErrBadArguments)
		}
		_, err := c.Create(ctx, "/a", nil, proto.FlagPersistentTTL, nil)
		require.ErrorIs(t, err, ErrBadArguments)
		_, err = c.Create(ctx, "/a", nil, 99, nil)
		require.ErrorIs(t, err, ErrBadArguments)
		_, err = c.Set(ctx, "/a", make([]byte, 100), 0)
		require.ErrorIs(t, err, ErrTooLarge)
		require.ErrorContains(t, err, "limit 100")
		fc.closed(c)
	})
}
