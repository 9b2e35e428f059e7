package server

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// solo is an ensemble of one without a disk: a loop that prepares, seals and applies, as peer's does.
type solo struct {
	t    testing.TB
	rep  *Replica
	srv  *Server
	ln   net.Listener
	stop func()

	mu      sync.Mutex
	wake    *sync.Cond
	tasks   []func() // for the loop
	stalled bool     // writes, syncs and questions wait
	waiting []func() // while stalled
	done    bool
	refuse  txn.Refusal // of every write
	looking atomic.Bool // for Status
	act     func()      // Act, if not nil
	second  *follower   // nil: alone

	// of the loop
	zxid    txn.Zxid
	chain   uint64
	epoch   txn.Epoch
	counter uint32
}

func testConfig() Config {
	start := time.Now()
	return Config{
		SelfID: 1, TickTime: 2 * time.Second, Standalone: true, MaxClientCnxns: -1,
		Now:  func() time.Duration { return time.Since(start) },
		Wall: time.Now,
	}
}

// newSolo builds an ensemble that does not serve yet; Run is on ln if ln is not nil.
func newSolo(t testing.TB, cfg Config, ln net.Listener) *solo {
	return newSoloWith(t, cfg, ln, zap.NewNop())
}

func newSoloWith(t testing.TB, cfg Config, ln net.Listener, log *zap.Logger) *solo {
	require.NoError(t, cfg.Validate())
	rep := NewReplica(cfg, statemachine.Config{LocalSessions: cfg.LocalSessions})
	s := &solo{t: t, rep: rep, srv: New(cfg, rep, log), ln: ln, epoch: 1}
	s.wake = sync.NewCond(&s.mu)
	s.srv.Attach(s)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(s.loop)
	if ln != nil {
		wg.Go(func() { require.NoError(t, s.srv.Run(ctx, ln)) })
	}
	s.stop = func() {
		cancel()
		s.mu.Lock()
		s.done = true
		s.wake.Broadcast()
		s.mu.Unlock()
		wg.Wait()
	}
	return s
}

// serving starts one that serves, on loopback, and stops it at the end of the test.
func serving(t testing.TB, change func(*Config)) *solo {
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := newSolo(t, cfg, ln)
	t.Cleanup(s.stop)
	s.do(s.lead)
	return s
}

// lead makes this server the leader and serve.
func (s *solo) lead() {
	if s.rep.machine.Secret() == nil {
		s.commit([]txn.Request{{Op: txn.OpSecret, Origin: 1, Payload: []byte("the secret of the tests")}})
	}
	s.rep.Established(s.now())
	s.srv.Serve(zab.Leading, 1, s.epoch)
}

func (s *solo) now() zab.Instant { return zab.Instant(s.rep.cfg.Now()) }

func (s *solo) loop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.done {
		if len(s.tasks) == 0 {
			s.wake.Wait()
			continue
		}
		task := s.tasks[0]
		s.tasks = s.tasks[1:]
		s.mu.Unlock()
		task()
		s.mu.Lock()
	}
}

func (s *solo) post(task func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = append(s.tasks, task)
	s.wake.Broadcast()
}

// do runs f in the loop and waits for it.
func (s *solo) do(f func()) {
	ready := make(chan struct{})
	s.post(func() { defer close(ready); f() })
	<-ready
}

// ask is post for what a stall holds back.
func (s *solo) ask(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		s.waiting = append(s.waiting, f)
		return
	}
	s.tasks = append(s.tasks, f)
	s.wake.Broadcast()
}

func (s *solo) stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = true
}

// held is how many submissions wait.
func (s *solo) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// release lets the first submission that is held go on.
func (s *solo) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks, s.waiting = append(s.tasks, s.waiting[0]), s.waiting[1:]
	s.wake.Broadcast()
}

func (s *solo) unstall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = false
	s.tasks = append(s.tasks, s.waiting...)
	s.waiting = nil
	s.wake.Broadcast()
}

func (s *solo) Act() {
	if s.act != nil {
		s.act()
	}
}

func (s *solo) Submit(reqs []txn.Request, _ bool) { s.ask(func() { s.commit(reqs) }) }

func (s *solo) Sync(id uint64) {
	s.ask(func() { s.srv.Synced(zab.Synced{ID: id, OK: true, Zxid: s.zxid}) })
}

func (s *solo) Revalidate(q zab.Revalidate) {
	s.ask(func() {
		known, ending := s.rep.Revalidate(1, q, s.now())
		s.srv.Revalidated(zab.Revalidated{ID: q.ID, OK: true, Valid: known && !ending, Zxid: s.zxid})
	})
}

func (s *solo) Status() zab.Status {
	if s.looking.Load() {
		return zab.Status{Self: 1, Role: zab.Looking}
	}
	return zab.Status{Self: 1, Role: zab.Leading, Phase: zab.Broadcast, Leader: 1, Epoch: 1, Votable: true,
		Learners: []zab.LearnerStatus{{ID: 2, Synced: true}, {ID: 3}}}
}

// commit prepares, numbers and applies. It runs in the loop.
func (s *solo) commit(reqs []txn.Request) {
	if s.refuse != txn.NotRefused {
		for _, q := range reqs {
			s.srv.Refused([]zab.Refusal{zab.RefusalOf(&q, s.refuse)})
		}
		return
	}
	drafts := s.rep.Prepare(reqs, time.Now().UnixMilli())
	var recs []txn.Record
	for i := range drafts {
		if d := &drafts[i]; d.Refused != txn.NotRefused {
			q := d.Request
			s.edge(q.Origin).Refused([]zab.Refusal{zab.RefusalOf(q, d.Refused)})
			continue
		}
		s.counter++
		rec := drafts[i].Seal(txn.MakeZxid(s.epoch, s.counter), s.zxid, s.chain)
		s.zxid, s.chain = rec.Zxid, rec.Chain
		recs = append(recs, rec)
	}
	must(s.rep.Apply(recs))
	if s.second != nil {
		must(s.second.rep.Apply(recs))
	}
}

// must is for the loop, which is no test's goroutine.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// edge is the Server of a member.
func (s *solo) edge(id zab.ServerID) *Server {
	if id == 2 {
		return s.second.srv
	}
	return s.srv
}

// follower is a second member, which applies what solo commits, in solo's loop.
type follower struct {
	*solo  // the leader
	rep    *Replica
	srv    *Server
	ln     net.Listener
	client *solo // for dialling it
}

// join adds a follower from the beginning of the history.
func (s *solo) join() *follower {
	cfg := testConfig()
	cfg.SelfID = 2
	rep := NewReplica(cfg, statemachine.Config{})
	f := &follower{solo: s, rep: rep, srv: New(cfg, rep, zap.NewNop()), ln: listen(s.t)}
	f.client = &solo{t: s.t, ln: f.ln}
	f.srv.Attach(f)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(s.t, f.srv.Run(ctx, f.ln)) })
	s.t.Cleanup(func() { cancel(); wg.Wait() })
	s.second = f
	return f
}

func (f *follower) Sync(id uint64) {
	f.ask(func() { f.srv.Synced(zab.Synced{ID: id, OK: true, Zxid: f.zxid}) })
}

func (f *follower) Revalidate(q zab.Revalidate) {
	f.ask(func() {
		known, ending := f.solo.rep.Revalidate(2, q, f.now())
		f.srv.Revalidated(zab.Revalidated{ID: q.ID, OK: true, Valid: known && !ending, Zxid: f.zxid})
	})
}

// client speaks the protocol, one frame at a time.
type client struct {
	t  testing.TB
	nc net.Conn
	ConnectedAs
}

// ConnectedAs is the answer to a handshake.
type ConnectedAs struct{ proto.ConnectResponse }

const patience = 20 * time.Second

func (s *solo) dial() *client {
	nc, err := net.Dial("tcp", s.ln.Addr().String())
	require.NoError(s.t, err)
	return newClient(s.t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, nc: nc}
}

// connect opens a new session with a timeout of 4 s.
func (s *solo) connect() *client {
	c := s.dial()
	c.shake(&proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true})
	require.NotZero(s.t, c.SessionID)
	return c
}

// attach takes a session up on a new connection.
func (s *solo) attach(old *client) *client {
	c := s.dial()
	c.shake(&proto.ConnectRequest{TimeOut: 4000, SessionID: old.SessionID, Passwd: old.Passwd, HasReadOnly: true})
	return c
}

func (c *client) shake(q *proto.ConnectRequest) {
	c.write(proto.AppendFrame(nil, q))
	require.NoError(c.t, c.ConnectResponse.Decode(proto.NewReader(c.frame())))
}

func (c *client) write(b []byte) {
	_, err := c.nc.Write(b)
	require.NoError(c.t, err)
}

// request is the frame of one request; record may be nil.
func request(xid int32, op proto.Op, record proto.Record) []byte {
	h := &proto.RequestHeader{Xid: xid, Op: op}
	if record == nil {
		return proto.AppendFrame(nil, h)
	}
	return proto.AppendFrame(nil, h, record)
}

func (c *client) send(xid int32, op proto.Op, record proto.Record) { c.write(request(xid, op, record)) }

func (c *client) readFrame() ([]byte, error) {
	head := make([]byte, proto.FrameHeaderBytes)
	if _, err := io.ReadFull(c.nc, head); err != nil {
		return nil, err
	}
	n, err := proto.ReadFrameHeader(head, 64<<20)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(c.nc, b)
	return b, err
}

func (c *client) frame() []byte {
	c.t.Helper()
	b, err := c.readFrame()
	require.NoError(c.t, err)
	return b
}

// reply is one frame from the server.
type reply struct {
	proto.ReplyHeader
	body []byte
}

func (c *client) reply() reply {
	c.t.Helper()
	b := c.frame()
	var r reply
	require.NoError(c.t, r.Decode(proto.NewReader(b)))
	r.body = b[replyHeaderBytes:]
	return r
}

// call sends a request and returns the next frame, which must answer it.
func (c *client) call(xid int32, op proto.Op, record proto.Record) reply {
	c.t.Helper()
	c.send(xid, op, record)
	r := c.reply()
	require.Equal(c.t, xid, r.Xid, "%+v", r)
	return r
}

// event reads a notification and returns it as type(path).
func (c *client) event() string {
	c.t.Helper()
	r := c.reply()
	require.Equal(c.t, proto.XidNotification, r.Xid, "%+v", r)
	var ev proto.WatcherEvent
	require.NoError(c.t, ev.Decode(proto.NewReader(r.body)))
	require.Equal(c.t, proto.StateSyncConnected, ev.State)
	return ev.Type.String() + "(" + ev.Path + ")"
}

// gone expects the server to close without another byte.
func (c *client) gone() {
	c.t.Helper()
	var b [1]byte
	n, err := c.nc.Read(b[:])
	require.Zero(c.t, n, "a byte instead of the end")
	require.Error(c.t, err)
	var timeout net.Error
	require.False(c.t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
}

func (c *client) create(path string, data []byte, flags proto.CreateFlags) reply {
	c.t.Helper()
	return c.call(1000, proto.OpCreate, &proto.CreateRequest{Path: path, Data: data, ACL: proto.OpenACL(), Flags: flags})
}

func (c *client) set(path string, data string) reply {
	c.t.Helper()
	return c.call(1001, proto.OpSetData, &proto.SetDataRequest{Path: path, Data: []byte(data), Version: -1})
}

func (c *client) get(path string, watch bool) reply {
	c.t.Helper()
	return c.call(1002, proto.OpGetData, &proto.PathWatchRequest{Path: path, Watch: watch})
}

func (r *reply) data(t testing.TB) string {
	var m proto.GetDataResponse
	require.NoError(t, m.Decode(proto.NewReader(r.body)))
	return string(m.Data)
}

func listen(t testing.TB) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}
