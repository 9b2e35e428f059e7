package server

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func (s *solo) freeze() { s.do(func() { s.srv.Freeze("test") }) }

// quiet expects that nothing comes for a moment.
func (c *client) quiet() {
	c.t.Helper()
	require.NoError(c.t, c.nc.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	n, err := c.nc.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(c.t, err, &timeout)
	require.True(c.t, timeout.Timeout())
	require.Zero(c.t, n)
	require.NoError(c.t, c.nc.SetDeadline(time.Now().Add(patience)))
}

// An idle client is held over a change of role, with its watches; one with a write under way is closed.
func TestFreezeHoldsIdleClients(t *testing.T) {
	s := serving(t, func(c *Config) {
		c.ClientHold, c.MinSessionTimeout = time.Minute, time.Hour
		c.MaxSessionTimeout = time.Hour
	})
	idle, busy, asking := s.connect(), s.connect(), s.connect()
	idle.create("/w", nil, 0)
	idle.get("/w", true)
	s.stall()
	busy.send(1, proto.OpCreate, &proto.CreateRequest{Path: "/b", ACL: proto.OpenACL()})
	require.Eventually(t, func() bool { return s.held() == 1 }, patience, time.Millisecond)
	asking.send(1, proto.OpSync, &proto.SyncRequest{Path: "/"})
	require.Eventually(t, func() bool { return s.held() == 2 }, patience, time.Millisecond)
	opening := s.dial()
	opening.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true}))
	require.Eventually(t, func() bool { return s.held() == 3 }, patience, time.Millisecond)
	s.freeze()
	for _, c := range []*client{busy, asking, opening} {
		c.gone()
	}
	require.Zero(t, s.rep.outstanding.Load())

	idle.send(5, proto.OpPing, nil)
	late := s.dial()
	late.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true}))
	idle.quiet()
	late.quiet()
	require.Equal(t, notServing, s.word("srvr"))
	s.do(func() { // the new leader's history arrives
		s.stalled, s.waiting = false, nil
		s.rep.Abandon()
		s.epoch, s.counter = 2, 0
		s.commit([]txn.Request{{Session: txn.SessionID(idle.SessionID), Op: proto.OpSetData, Origin: 1,
			Payload: (&proto.SetDataRequest{Path: "/w", Version: -1}).Append(nil)}})
	})
	idle.quiet()
	s.do(s.lead)
	require.Equal(t, "NodeDataChanged(/w)", idle.event())
	pong := idle.reply()
	require.EqualValues(t, -2, pong.Xid)
	require.GreaterOrEqual(t, pong.Zxid, int64(txn.MakeZxid(2, 1)))
	require.NoError(t, late.ConnectResponse.Decode(proto.NewReader(late.frame())))
	require.NotZero(t, late.SessionID)
	require.Equal(t, proto.OK, idle.create("/after", nil, 0).Err)
	require.EqualValues(t, 1, s.rep.tracker.Owner(txn.SessionID(idle.SessionID)), "claimed with the new leader")
}

// The reader of a client may be the one that takes the turn in which the role ends, with replies of its own still to be written: it does
// not wait for itself.
func TestFreezeInATurnOfTheClientsReader(t *testing.T) {
	s := serving(t, func(c *Config) {
		c.ClientHold, c.MinSessionTimeout = time.Minute, time.Hour
		c.MaxSessionTimeout = time.Hour
	})
	c := s.connect()
	c.create("/a", nil, 0)
	var once sync.Once
	frozen := make(chan struct{})
	s.do(func() {
		s.act = func() {
			once.Do(func() {
				s.do(func() {}) // somebody else's turn has applied and answered the write
				s.srv.Freeze("test")
				close(frozen)
			})
		}
	})
	get := request(1, proto.OpGetData, &proto.PathWatchRequest{Path: "/a"})
	c.write(append(get, request(2, proto.OpSetData, &proto.SetDataRequest{Path: "/a", Version: -1})...))
	select {
	case <-frozen:
	case <-time.After(patience):
		s.rep.reg.all()[0].close() // whoever waits goes on
		t.Fatal("Freeze waits for the goroutine that called it")
	}
	s.do(s.lead)
	require.EqualValues(t, 1, c.reply().Xid)
	require.EqualValues(t, 2, c.reply().Xid)
	require.Equal(t, proto.OK, c.create("/after", nil, 0).Err, "held and taken up again")
}

// A held session that the new leader does not know is closed without an answer.
func TestHeldSessionThatIsGone(t *testing.T) {
	s := serving(t, func(c *Config) {
		c.ClientHold, c.MinSessionTimeout = time.Minute, time.Hour
		c.MaxSessionTimeout = time.Hour
	})
	c, d := s.connect(), s.connect()
	s.freeze()
	c.send(1, proto.OpPing, nil)
	s.do(func() {
		s.commit([]txn.Request{{Session: txn.SessionID(c.SessionID), Op: proto.OpCloseSession, Origin: 1}})
		s.rep.Established(s.now())
	})
	s.do(s.lead)
	c.gone()
	d.send(1, proto.OpPing, nil)
	d.reply()
}

func TestHoldEnds(t *testing.T) {
	s := serving(t, func(c *Config) { c.ClientHold = 20 * time.Millisecond })
	c, half := s.connect(), s.dial()
	s.freeze()
	half.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true}))
	c.gone()
	half.gone()
	s.do(s.lead)
	require.EqualValues(t, c.SessionID, s.attach(c).SessionID)
}

func TestRestoreClosesHeldConnections(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.create("/a", []byte("kept"), 0)
	var snap bytes.Buffer
	s.do(func() { _, _ = s.rep.Snapshot().WriteTo(&snap) })
	s.freeze()
	s.do(func() {
		longer := bytes.NewReader(append(bytes.Clone(snap.Bytes()), 0))
		require.ErrorIs(t, s.rep.Restore(longer), statemachine.ErrSnapshot)
		require.NoError(t, s.rep.Restore(&snap))
	})
	c.gone()
	s.do(s.lead)
	again := s.attach(c)
	got := again.get("/a", false)
	require.Equal(t, "kept", got.data(t))
}

// A write through a connection whose session has moved is refused, and costs the connection; closing the session is not refused.
func TestSessionMoved(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	q := txn.Request{Session: txn.SessionID(c.SessionID), Op: proto.OpCreate, Origin: 2, Conn: 77, Payload: (&proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()}).Append(nil)}
	s.do(func() {
		ok := q
		ok.Origin, ok.Session = 1, 999
		drafts := s.rep.Prepare([]txn.Request{q, ok}, 0)
		require.Equal(t, txn.RefusedSessionMoved, drafts[0].Refused)
		require.Equal(t, txn.NotRefused, drafts[1].Refused)
		require.Equal(t, 2, len(drafts))
		s.rep.machine.Abandon()

		known, ending := s.rep.Revalidate(2, zab.Revalidate{Session: q.Session, TimeoutMillis: 4000}, s.now())
		require.True(t, known)
		require.False(t, ending)
	})
	c.gone() // the leader closes its own connection of a session that moves away
	s.do(func() {
		require.Equal(t, txn.NotRefused, s.rep.Prepare([]txn.Request{q}, 0)[0].Refused)
		own := q
		own.Origin = 1
		require.Equal(t, txn.RefusedSessionMoved, s.rep.Prepare([]txn.Request{own}, 0)[0].Refused)
		own.Op = proto.OpCloseSession
		require.Equal(t, txn.NotRefused, s.rep.Prepare([]txn.Request{own}, 0)[0].Refused)
		_, ending := s.rep.Revalidate(1, zab.Revalidate{Session: q.Session, TimeoutMillis: 4000}, s.now())
		require.True(t, ending)
		s.rep.Abandon()
		known, _ := s.rep.Revalidate(1, zab.Revalidate{Session: q.Session}, s.now())
		require.False(t, known, "only a leader knows")
	})
}

func TestFirstWriterBecomesOwner(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	id := txn.SessionID(c.SessionID)
	s.do(func() {
		s.rep.Established(s.now()) // owners are forgotten
		require.Zero(t, s.rep.tracker.Owner(id))
		q := txn.Request{Session: id, Op: proto.OpCreate, Origin: 3, Conn: 5}
		s.rep.Prepare([]txn.Request{q}, 0)
		s.rep.machine.Abandon()
		require.EqualValues(t, 3, s.rep.tracker.Owner(id))
		s.rep.Touch(2, []zab.Touch{{Session: id, TimeoutMillis: 4000}}, s.now())
		require.EqualValues(t, 3, s.rep.tracker.Owner(id), "a touch does not move a session")
		s.rep.Established(s.now())
		s.rep.Touch(2, []zab.Touch{{Session: id, TimeoutMillis: 4000}}, s.now())
		require.EqualValues(t, 2, s.rep.tracker.Owner(id))
	})
}

// The answers of an old role reach nobody.
func TestAnswersOfAnOldRole(t *testing.T) {
	s := serving(t, func(c *Config) {
		c.ClientHold, c.MinSessionTimeout = time.Minute, time.Hour
		c.MaxSessionTimeout = time.Hour
	})
	c := s.connect()
	s.stall()
	d := s.dial()
	d.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, SessionID: c.SessionID, Passwd: c.Passwd, HasReadOnly: true}))
	require.Eventually(t, func() bool { return s.held() == 1 }, patience, time.Millisecond)
	s.freeze()
	d.gone()
	s.do(s.lead)
	require.Eventually(t, func() bool { return s.held() == 2 }, patience, time.Millisecond, "the claim")
	s.unstall() // also the answer to d
	c.send(1, proto.OpPing, nil)
	c.reply()
}

// expiring is an ensemble whose clock is the bubble's.
func expiring(t *testing.T) (s *solo, dial func() *client, end func()) {
	return expiringWith(t, func(*Config) {})
}

func expiringWith(t *testing.T, change func(*Config)) (s *solo, dial func() *client, end func()) {
	ln := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	cfg := testConfig()
	change(&cfg)
	s = newSolo(t, cfg, ln)
	s.do(s.lead)
	return s, func() *client {
		a, b := net.Pipe()
		ln.conns <- b
		return &client{t: t, nc: a}
	}, s.stop
}

// pipeListener hands out one end of in-memory pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

// A session expires between its timeout and a tick later; every frame keeps it alive; its connection is cut without a word.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial, end := expiring(t)
		defer end()
		c := dial()
		c.shake(&proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true})
		tick := func() (expired []txn.SessionID) { // as the peer's loop does
			s.do(func() {
				s.rep.Touch(1, s.rep.Touched(), s.now())
				expired = s.rep.Expired(s.now())
				for _, id := range expired {
					s.commit([]txn.Request{{Session: id, Op: proto.OpCloseSession, Origin: 1}})
				}
			})
			return expired
		}
		for range 10 {
			time.Sleep(3 * time.Second)
			c.send(1, proto.OpPing, nil)
			c.reply()
			require.Empty(t, tick())
		}
		last := time.Now()
		for len(tick()) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		silence := time.Since(last)
		require.GreaterOrEqual(t, silence, 4*time.Second)
		require.LessOrEqual(t, silence, 6200*time.Millisecond)
		c.gone()
		d := dial()
		d.shake(&proto.ConnectRequest{TimeOut: 4000, SessionID: c.SessionID, Passwd: c.Passwd, HasReadOnly: true})
		require.Zero(t, d.SessionID)
		d.gone()
	})
}

func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, dial, end := expiring(t)
		defer end()
		mute, slow, stuck := dial(), dial(), dial()
		slow.write([]byte{0, 0, 0})
		stuck.write([]byte{0, 0, 0, 45, 1})
		start := time.Now()
		for _, c := range []*client{mute, slow, stuck} {
			c.gone()
			require.InDelta(t, 10, time.Since(start).Seconds(), 2)
		}
	})
}

// A write without an outcome ends its connection, not with a claim that it was not done.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial, end := expiring(t)
		defer end()
		c := dial()
		c.shake(&proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true})
		s.stall()
		start := time.Now()
		c.send(1, proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()})
		c.gone()
		require.InDelta(t, 10, time.Since(start).Seconds(), 2)
		s.unstall()
	})
}

// Run ends with its context, whatever its connections do.
func TestStop(t *testing.T) {
	cfg := testConfig()
	s := newSolo(t, cfg, listen(t))
	s.do(s.lead)
	idle, half := s.connect(), s.dial()
	s.stall()
	busy := s.connect2(t)
	busy.send(1, proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()})
	s.stop()
	for _, c := range []*client{idle, half, busy} {
		c.gone()
	}
}

// connect2 is connect while the ensemble is stalled: the handshake stays open.
func (s *solo) connect2(t *testing.T) *client {
	c := s.dial()
	c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true}))
	require.Eventually(t, func() bool { return s.held() == 1 }, patience, time.Millisecond)
	return c
}

func TestRunReportsABrokenListener(t *testing.T) {
	ln := listen(t)
	s := newSolo(t, testConfig(), nil)
	defer s.stop()
	require.NoError(t, ln.Close())
	require.Error(t, s.srv.Run(context.Background(), ln))
}

// A session moves to another server and back. The old connection at a follower goes on reading until it writes; the one at the leader
// is closed at once; a close through the old one ends the session for everyone.
func TestSessionMovesBetweenServers(t *testing.T) {
	s := newSolo(t, testConfig(), listen(t))
	t.Cleanup(s.stop)
	f := s.join()
	s.do(func() { s.lead(); f.srv.Serve(zab.Following, 1, 1) })

	first := s.connect()
	require.Equal(t, proto.OK, first.create("/e", []byte("x"), proto.FlagEphemeral).Err)
	f.client.refusesSession(first.SessionID, make([]byte, 16))

	second := f.client.attach(first)
	require.Equal(t, first.SessionID, second.SessionID)
	first.gone()
	got := second.get("/e", true)
	require.Equal(t, "x", got.data(t))
	require.Equal(t, proto.OK, second.create("/open", nil, 0).Err)

	third := s.attach(second)
	require.Equal(t, first.SessionID, third.SessionID)
	require.Equal(t, proto.OK, third.set("/e", "y").Err)
	require.Equal(t, "NodeDataChanged(/e)", second.event())
	got = second.get("/e", false)
	require.Equal(t, "y", got.data(t))
	second.send(1, proto.OpSetData, &proto.SetDataRequest{Path: "/e", Version: -1})
	second.gone()

	fourth := f.client.attach(third)
	third.gone()
	fifth := s.attach(fourth)
	require.Equal(t, proto.OK, fourth.call(9, proto.OpCloseSession, nil).Err)
	fourth.gone()
	fifth.gone()
	s.refusesSession(first.SessionID, first.Passwd)
	f.client.refusesSession(first.SessionID, first.Passwd)
}

// A server that was away holds connections whose clients have gone elsewhere. It does not take their sessions back: what still lies in its
// sockets is older than what was written since.
func TestAHeldConnectionDoesNotTakeItsSessionBack(t *testing.T) {
	held := func(c *Config) {
		c.ClientHold, c.MinSessionTimeout, c.MaxSessionTimeout = time.Minute, time.Hour, time.Hour
	}
	t.Run("the leader knows where the session is", func(t *testing.T) {
		cfg := testConfig()
		held(&cfg)
		s := newSolo(t, cfg, listen(t))
		t.Cleanup(s.stop)
		f := s.join()
		s.do(func() { s.lead(); f.srv.Serve(zab.Following, 1, 1) })
		first := f.client.connect()
		first.create("/x", nil, 0)
		s.do(func() { f.srv.Freeze("test") })
		first.send(7, proto.OpSetData, &proto.SetDataRequest{Path: "/x", Data: []byte("old"), Version: -1})
		second := s.attach(first)
		require.Equal(t, proto.OK, second.set("/x", "new").Err)
		s.do(func() { f.srv.Serve(zab.Following, 1, 1) })
		first.gone()
		got := second.get("/x", false)
		require.Equal(t, "new", got.data(t))
	})
	t.Run("another leader does not, but the history shows it", func(t *testing.T) {
		s := serving(t, held)
		c := s.connect()
		c.create("/x", nil, 0)
		s.freeze()
		c.send(7, proto.OpSetData, &proto.SetDataRequest{Path: "/x", Data: []byte("old"), Version: -1})
		s.do(func() {
			s.rep.Abandon()
			s.epoch, s.counter = 2, 0
			s.commit([]txn.Request{{Session: txn.SessionID(c.SessionID), Op: proto.OpSetData, Origin: 2, Conn: 5,
				Payload: (&proto.SetDataRequest{Path: "/x", Data: []byte("new"), Version: -1}).Append(nil)}})
			s.lead()
		})
		c.gone()
		again := s.attach(c)
		got := again.get("/x", false)
		require.Equal(t, "new", got.data(t))
	})
	for _, back := range []bool{false, true} {
		name := map[bool]string{false: "the history has shown it while this server still served", true: "it has come back since"}[back]
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			held(&cfg)
			s := newSolo(t, cfg, listen(t))
			t.Cleanup(s.stop)
			f := s.join()
			s.do(func() { s.lead(); f.srv.Serve(zab.Following, 1, 1) })
			first := f.client.connect()
			first.create("/x", nil, 0)
			second := s.attach(first)
			require.Equal(t, proto.OK, second.set("/x", "new").Err)
			if back { // the connection is the newest, and is held like any other
				first = f.client.attach(first)
				s.do(func() {
					f.rep.mu.Lock()
					defer f.rep.mu.Unlock()
					f.rep.left(txn.SessionID(first.SessionID)) // a write that was on its way before the client came here
				})
				require.Equal(t, proto.OK, first.set("/x", "newer").Err)
			}
			s.do(func() {
				f.srv.Freeze("test")
				s.srv.Freeze("test")
				s.rep.Abandon()
				s.epoch, s.counter = 2, 0
				s.rep.Established(s.now()) // this leader knows no owner, and this server asks it first
				f.srv.Serve(zab.Following, 1, 2)
			})
			first.send(7, proto.OpSetData, &proto.SetDataRequest{Path: "/x", Data: []byte("old"), Version: -1})
			if back {
				require.Equal(t, int32(7), first.reply().Xid, "it is served")
				return
			}
			first.gone()
			s.do(func() { s.srv.Serve(zab.Leading, 1, 2) })
			got := s.attach(first).get("/x", false)
			require.Equal(t, "new", got.data(t))
		})
	}
}
