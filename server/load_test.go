package server

import (
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

const (
	loadWorkers   = 32
	loadRounds    = 5 // heartbeats of each session
	loadGarbage   = 100
	loadEphemeral = 10 // every tenth session owns a znode
)

// loadSessions is how many sessions TestLoad opens: 10 000 in a long run.
func loadSessions() int {
	if os.Getenv("ZKD_LONG") != "" {
		return 10_000
	}
	return 2_000
}

// crowd listens on a socket and, for what file descriptors do not suffice for, on pipes.
type crowd struct {
	net.Listener
	accepted chan net.Conn
	stop     chan struct{}
	once     sync.Once
	sockets  atomic.Int64 // that may still be opened
}

func newCrowd(t testing.TB) *crowd {
	var lim syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim))
	l := &crowd{Listener: listen(t), accepted: make(chan net.Conn), stop: make(chan struct{})}
	l.sockets.Store(int64(min(lim.Cur, 1<<20))/2 - 2*loadGarbage - 100)
	go func() {
		for {
			c, err := l.Listener.Accept()
			if err != nil {
				return
			}
			select {
			case l.accepted <- c:
			case <-l.stop:
				_ = c.Close()
			}
		}
	}()
	return l
}

func (l *crowd) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.stop:
		return nil, net.ErrClosed
	}
}

func (l *crowd) Close() error {
	l.once.Do(func() { close(l.stop) })
	return l.Listener.Close()
}

func (l *crowd) dial() (net.Conn, error) {
	if l.sockets.Add(-1) >= 0 {
		return net.Dial("tcp", l.Addr().String())
	}
	a, b := net.Pipe()
	l.accepted <- b
	return a, nil
}

// loadClient is one good session. Only its worker touches it.
type loadClient struct {
	client
	n int
}

func (c *loadClient) frameOrErr(want int32) error {
	b, err := c.readFrame()
	if err != nil {
		return err
	}
	var r proto.ReplyHeader
	if err := r.Decode(proto.NewReader(b)); err != nil {
		return err
	}
	if r.Xid != want || r.Err != proto.OK {
		return fmt.Errorf("session %d: %+v instead of xid %d", c.n, r, want)
	}
	return nil
}

func (c *loadClient) ask(xid int32, op proto.Op, record proto.Record) error {
	if _, err := c.nc.Write(request(xid, op, record)); err != nil {
		return err
	}
	return c.frameOrErr(xid)
}

func (c *loadClient) open(l *crowd) error {
	nc, err := l.dial()
	if err != nil {
		return err
	}
	c.nc = nc
	if err := nc.SetDeadline(time.Now().Add(10 * patience)); err != nil {
		return err
	}
	if _, err := nc.Write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 40_000, HasReadOnly: true})); err != nil {
		return err
	}
	b, err := c.readFrame()
	if err == nil {
		err = c.ConnectResponse.Decode(proto.NewReader(b))
	}
	if err == nil && c.ConnectResponse.SessionID == 0 {
		err = errors.New("no session")
	}
	if err == nil && c.n%loadEphemeral == 0 {
		err = c.ask(1, proto.OpCreate, &proto.CreateRequest{Path: fmt.Sprintf("/e%d", c.n), ACL: proto.OpenACL(), Flags: proto.FlagEphemeral})
	}
	if err == nil {
		err = c.ask(2, proto.OpGetData, watch("/load"))
	}
	return err
}

func (c *loadClient) leave() error {
	return errors.Join(c.ask(4, proto.OpCloseSession, nil), c.nc.Close())
}

func newLoadClients(n int) []*loadClient {
	clients := make([]*loadClient, n)
	for i := range clients {
		clients[i] = &loadClient{n: i}
	}
	return clients
}

// awaitAlone waits until the server has one connection, and there are no more goroutines than before.
func (s *solo) awaitAlone(goroutines int) {
	require.Eventually(s.t, func() bool {
		conns, attached := s.rep.reg.counts()
		return conns == 1 && attached == 1 && runtime.NumGoroutine() <= goroutines+1 // this function has one of its own
	}, patience, 10*time.Millisecond, "connections or goroutines are left")
}

// spread runs f for every client, on the workers.
func spread(t *testing.T, clients []*loadClient, f func(*loadClient) error) {
	t.Helper()
	errs := make(chan error, loadWorkers)
	for w := range loadWorkers {
		go func() {
			for i := w; i < len(clients); i += loadWorkers {
				if err := f(clients[i]); err != nil {
					errs <- fmt.Errorf("session %d: %w", i, err)
					return
				}
			}
			errs <- nil
		}()
	}
	for range loadWorkers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// pest sends one kind of garbage and reads what comes until it is cut off; kind 0 stays, half way through its handshake.
func pest(l *crowd, rng *rand.Rand, kind int, stop <-chan struct{}) {
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	junk := make([]byte, 1+rng.Intn(4096))
	rng.Read(junk)
	hello := proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true})
	switch kind {
	case 0:
		_, _ = nc.Write(hello[:20])
		<-stop
		return
	case 1:
		_, _ = nc.Write(junk)
	case 2:
		_, _ = nc.Write([]byte("\x7f\xff\xff\xff"))
	case 3:
		_, _ = nc.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	case 4: // in a session: a frame of nonsense, then an absurd length
		_, _ = nc.Write(append(append(hello, proto.AppendFrame(nil, &proto.RequestHeader{Xid: 1, Op: proto.OpMulti})...), 0xff, 0xff, 0xff, 0xfe))
	case 5: // in a session: an unknown op with junk
		_, _ = nc.Write(append(append(hello, request(9, 4711, nil)...), junk...))
	case 6: // a session that is nobody's
		_, _ = nc.Write(proto.AppendFrame(nil, &proto.ConnectRequest{SessionID: rng.Int63(), Passwd: junk[:min(16, len(junk))]}))
	default:
		_, _ = nc.Write([]byte("ruok"))
	}
	_ = nc.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, nc)
}

// Thousands of sessions with heartbeats on one server, and meanwhile a hundred connections at a time that send garbage. The good
// ones notice nothing, and when they are gone nothing is left of them: goroutines, connections, watches, ephemerals, memory.
func TestLoad(t *testing.T) {
	n := loadSessions()
	cfg := testConfig()
	cfg.MinSessionTimeout = time.Millisecond
	l := newCrowd(t)
	s := newSolo(t, cfg, l)
	t.Cleanup(s.stop)
	s.do(s.lead)
	first := &loadClient{n: 1}
	require.NoError(t, func() error {
		nc, err := l.dial()
		first.client = client{t: t, nc: nc}
		return err
	}())
	first.shake(&proto.ConnectRequest{TimeOut: 40_000, HasReadOnly: true})
	first.create("/load", nil, 0)
	// A first crowd, so that what the runtime keeps for good (descriptors of goroutines, maps' room) is there before we weigh.
	goroutines := runtime.NumGoroutine()
	sockets := l.sockets.Load()
	clients := newLoadClients(n)
	spread(t, clients, func(c *loadClient) error { return c.open(l) })
	spread(t, clients, (*loadClient).leave)
	l.sockets.Store(sockets)
	s.awaitAlone(goroutines)
	clear(clients)
	heap := heapInUse()

	stop := make(chan struct{})
	var pests sync.WaitGroup
	var pested atomic.Int64
	for i := range loadGarbage {
		pests.Go(func() {
			rng := rand.New(rand.NewSource(int64(i)))
			for kind := i; ; kind++ {
				select {
				case <-stop:
					return
				default:
					if i < loadGarbage/10 || kind == i+20 { // half open until the end
						pest(l, rng, 0, stop)
					} else {
						pest(l, rng, 1+kind%7, stop)
					}
					pested.Add(1)
				}
			}
		})
	}

	clients = newLoadClients(n)
	began := time.Now()
	spread(t, clients, func(c *loadClient) error { return c.open(l) })
	t.Logf("%d sessions opened in %v", n, time.Since(began))
	sessions, ephemerals := 0, 0
	s.do(func() { sessions, ephemerals = s.rep.machine.SessionCount(), s.rep.machine.EphemeralCount() })
	require.GreaterOrEqual(t, sessions, n+1)
	require.Equal(t, n/loadEphemeral, ephemerals)
	require.Equal(t, n, s.rep.watches.size())

	var slowest atomic.Int64
	for range loadRounds {
		spread(t, clients, func(c *loadClient) error {
			at := time.Now()
			err := c.ask(proto.XidPing, proto.OpPing, nil)
			for took := time.Since(at).Nanoseconds(); took > slowest.Load(); {
				slowest.Store(took)
			}
			return err
		})
	}
	t.Logf("%d heartbeats, the slowest took %v; %d pests meanwhile", n*loadRounds, time.Duration(slowest.Load()), pested.Load())
	var expired []txn.SessionID
	s.do(func() {
		s.rep.Touch(1, s.rep.Touched(), s.now())
		expired = s.rep.Expired(s.now())
	})
	for _, c := range clients {
		require.NotContains(t, expired, txn.SessionID(c.ConnectResponse.SessionID))
	}
	require.Equal(t, proto.OK, first.set("/load", "now").Err)
	spread(t, clients, func(c *loadClient) error { return c.frameOrErr(proto.XidNotification) })
	require.Zero(t, s.rep.watches.size())

	close(stop)
	pests.Wait()
	spread(t, clients, func(c *loadClient) error { // watch once more; one half closes, the other is cut off
		if err := c.ask(3, proto.OpGetData, watch("/load")); err != nil || c.n%2 == 0 {
			return errors.Join(err, c.leave())
		}
		return c.nc.Close()
	})
	closed := 0
	s.do(func() { // as the peer does when time has passed
		s.rep.Touch(1, s.rep.Touched(), s.now())
		var reqs []txn.Request
		s.rep.machine.Sessions(func(id txn.SessionID, _ int32) bool {
			if id != txn.SessionID(first.ConnectResponse.SessionID) {
				reqs = append(reqs, txn.Request{Session: id, Op: proto.OpCloseSession, Origin: 1})
			}
			return true
		})
		closed = len(reqs)
		s.commit(reqs)
		sessions, ephemerals = s.rep.machine.SessionCount(), s.rep.machine.EphemeralCount()
	})
	require.GreaterOrEqual(t, closed, n/2)
	require.Equal(t, 1, sessions)
	require.Zero(t, ephemerals)
	s.awaitAlone(goroutines)
	require.Zero(t, s.rep.watches.size())
	require.Zero(t, s.rep.outstanding.Load())
	require.Equal(t, proto.OK, first.set("/load", "after").Err)
	clear(clients)
	left := int64(heapInUse()) - int64(heap)
	t.Logf("%d bytes more on the heap than before", left)
	if left > 4<<20 {
		t.Errorf("%d bytes are left of %d sessions", left, n)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the first one fills the pools' victims
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
