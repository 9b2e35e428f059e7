package peer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/ports"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// register is a state machine that is as small as can be: the list of the cxids of applied requests.
type register struct {
	mu      sync.Mutex
	applied []int32
	last    txn.Zxid
	changed chan struct{} // closed and replaced at each change
	role    zab.Role
	refused []zab.Refusal
	synced  map[uint64]zab.Synced
	skew    uint64 // what the digest is wrong by
	gate    func() // called while a snapshot is written; may be nil
	busy    int    // so often it has no snapshot to give
	asked   func() // called when a snapshot is asked for; may be nil
}

func newRegister() *register {
	return &register{changed: make(chan struct{}), synced: map[uint64]zab.Synced{}}
}

func (r *register) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *register) Prepare(reqs []txn.Request, wall int64) []txn.Draft {
	out := make([]txn.Draft, len(reqs))
	for i := range reqs {
		q := &reqs[i]
		t := &txn.Txn{Header: txn.Header{Session: q.Session, Cxid: q.Cxid, Origin: q.Origin, Conn: q.Conn, Time: wall, Op: q.Op}}
		switch q.Op {
		case txn.OpSecret:
			t.Body = &txn.Secret{Secret: q.Payload}
		case txn.OpReadmit:
			sid, id, _ := txn.ParseReadmit(q.Payload)
			t.Body = &txn.Readmit{Server: sid, RecoveryID: id}
		default:
			t.Body = &txn.SetData{Path: "/r", Data: q.Payload}
		}
		out[i] = txn.NewDraft(t, q)
	}
	return out
}

func (r *register) Abandon() {}

func (r *register) Apply(recs []txn.Record) error {
	for i := range recs {
		t, err := recs[i].Txn()
		if err != nil {
			return err
		}
		if recs[i].Zxid <= r.last {
			return fmt.Errorf("%v applied after %v", recs[i].Zxid, r.last)
		}
		r.change(func() {
			r.last = recs[i].Zxid
			if t.Body.Type() == txn.TypeSetData {
				r.applied = append(r.applied, t.Cxid)
			}
		})
	}
	return nil
}

func (r *register) DigestAt(at txn.Zxid) (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.skew
	for _, c := range r.applied {
		d = d*31 + uint64(c)
	}
	return d, at == r.last
}

type image struct {
	last    txn.Zxid
	applied []int32
	gate    func()
}

func (r *register) Snapshot() io.WriterTo {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != nil {
		r.asked()
	}
	if r.busy > 0 {
		r.busy--
		return nil
	}
	return &image{r.last, r.applied[:len(r.applied):len(r.applied)], r.gate}
}

func (m *image) WriteTo(w io.Writer) (int64, error) {
	if m.gate != nil {
		m.gate()
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(m.last))
	for _, c := range m.applied {
		b = binary.BigEndian.AppendUint32(b, uint32(c))
	}
	n, err := w.Write(b)
	return int64(n), err
}

func (r *register) Restore(rd io.Reader) error {
	b, err := io.ReadAll(rd)
	if err != nil {
		return err
	}
	r.change(func() {
		r.last, r.applied = txn.Zxid(binary.BigEndian.Uint64(b)), nil
		for b = b[8:]; len(b) > 0; b = b[4:] {
			r.applied = append(r.applied, int32(binary.BigEndian.Uint32(b)))
		}
	})
	return nil
}

func (r *register) Clear() error {
	r.change(func() { r.last, r.applied = 0, nil })
	return nil
}

func (r *register) Touched() []zab.Touch                         { return nil }
func (r *register) Touch(zab.ServerID, []zab.Touch, zab.Instant) {}
func (r *register) Expired(zab.Instant) []txn.SessionID          { return nil }
func (r *register) Revalidate(zab.ServerID, zab.Revalidate, zab.Instant) (bool, bool) {
	return true, false
}
func (r *register) Established(zab.Instant)     {}
func (r *register) Extend(time.Duration)        {}
func (r *register) Revalidated(zab.Revalidated) {}
func (r *register) Serve(role zab.Role, _ zab.ServerID, _ txn.Epoch) {
	r.change(func() { r.role = role })
}
func (r *register) Freeze(string)           { r.change(func() { r.role = zab.Looking }) }
func (r *register) Refused(f []zab.Refusal) { r.change(func() { r.refused = append(r.refused, f...) }) }
func (r *register) Synced(s zab.Synced)     { r.change(func() { r.synced[s.ID] = s }) }

// wait blocks until ok holds; the test's own deadline is the bound.
func (r *register) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond): // what the status says changes without a sign
		case <-timeout:
			t.Fatalf("waited for %s in vain; applied %d, last %v, role %v", what, len(r.applied), r.last, r.role)
		}
	}
}

// member is one server of a test's ensemble, which can be stopped and started again on its folder.
type member struct {
	id   zab.ServerID
	cfg  Config
	reg  *register
	peer *Peer
	stop context.CancelFunc
	done chan error

	lines zapcore.Core // gets the log too; may be nil
}

type ensemble struct {
	t       *testing.T
	members []*member
}

func newEnsemble(t *testing.T, n int, tune func(*Config)) *ensemble {
	e := &ensemble{t: t}
	free, err := ports.Free(2 * n)
	require.NoError(t, err)
	var servers []zab.Server
	for i := range n {
		servers = append(servers, zab.Server{ID: zab.ServerID(i + 1), PeerAddr: ports.Addr(free[2*i]), ElectionAddr: ports.Addr(free[2*i+1])})
	}
	for i := range n {
		core := zab.DefaultConfig()
		core.Self, core.Members = zab.ServerID(i+1), zab.Membership{Servers: servers}
		core.HbTimeout = 5 * time.Second // loaded machines must not fail the test
		dir := t.TempDir()
		cfg := Config{Core: core, Disk: env.OSDisk{}, Net: env.TCP{}, Clock: env.RealClock{}, Rand: env.SystemRand{}, DataDir: dir,
			LogDir: dir, SegmentBytes: 1 << 20}
		if tune != nil {
			tune(&cfg)
		}
		m := &member{id: core.Self, cfg: cfg}
		e.members = append(e.members, m)
		e.start(m)
	}
	t.Cleanup(func() {
		for _, m := range e.members {
			e.halt(m)
		}
	})
	return e
}

func (e *ensemble) start(m *member) {
	log := zaptest.NewLogger(e.t, zaptest.Level(zap.InfoLevel)).With(zap.Uint8("sid", uint8(m.id)))
	if m.lines != nil {
		log = log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, m.lines) }))
	}
	m.reg = newRegister()
	var err error
	m.peer, err = Open(m.cfg, m.reg, m.reg, m.reg, log)
	require.NoError(e.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	m.stop, m.done = cancel, make(chan error, 1)
	go func(p *Peer, done chan error) { done <- p.Run(ctx) }(m.peer, m.done)
}

// halt stops a member gracefully.
func (e *ensemble) halt(m *member) {
	if m.stop == nil {
		return
	}
	m.stop()
	require.NoError(e.t, <-m.done)
	m.stop = nil
}

// crash ends a member as kill -9 would: nothing is said and nothing more is written.
func (e *ensemble) crash(m *member) {
	m.peer.fail(errCrash)
	require.ErrorIs(e.t, <-m.done, errCrash)
	m.stop()
	m.stop = nil
}

var errCrash = fmt.Errorf("crashed by the test")

func (e *ensemble) leader() *member {
	e.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		for _, m := range e.members {
			if m.stop != nil {
				m.reg.mu.Lock()
				role := m.reg.role
				m.reg.mu.Unlock()
				if role == zab.Leading {
					return m
				}
			}
		}
		select {
		case <-e.members[0].changedOrNever():
		case <-time.After(5 * time.Millisecond):
		}
	}
	e.t.Fatal("no leader")
	return nil
}

func (m *member) changedOrNever() chan struct{} {
	m.reg.mu.Lock()
	defer m.reg.mu.Unlock()
	return m.reg.changed
}

func (m *member) write(from, n int) {
	reqs := make([]txn.Request, n)
	for i := range reqs {
		reqs[i] = txn.Request{Session: 1, Cxid: int32(from + i), Op: proto.OpSetData, Origin: m.id, Conn: 1, Payload: []byte("payload of a write")}
	}
	m.peer.Submit(reqs, false)
}

func (m *member) waitServing(t *testing.T) {
	t.Helper()
	m.reg.wait(t, "serving", func() bool { return m.reg.role != zab.Looking })
}

func (m *member) waitApplied(t *testing.T, n int) {
	t.Helper()
	m.reg.wait(t, fmt.Sprintf("%d applied", n), func() bool { return len(m.reg.applied) >= n })
	m.reg.mu.Lock()
	defer m.reg.mu.Unlock()
	for i := range n {
		require.Equal(t, int32(i), m.reg.applied[i], "applied once each, in order")
	}
}

func TestAStandaloneServerKeepsWhatItApplied(t *testing.T) {
	e := newEnsemble(t, 1, nil)
	m := e.members[0]
	m.waitServing(t)
	m.write(0, 500)
	m.waitApplied(t, 500)
	e.crash(m)
	e.start(m)
	m.waitServing(t)
	m.waitApplied(t, 500)
	m.write(500, 1)
	m.waitApplied(t, 501)
}

func TestThreeServersAgreeAndSurviveTheLeadersDeath(t *testing.T) {
	e := newEnsemble(t, 3, nil)
	for _, m := range e.members {
		m.waitServing(t)
	}
	for i, m := range e.members {
		m.write(100*i, 100)
		m.waitApplied(t, 100*(i+1))
	}
	old := e.leader()
	e.crash(old)
	for _, m := range e.members {
		if m != old {
			m.reg.wait(t, "the other role", func() bool { return m.reg.role != zab.Looking })
		}
	}
	now := e.leader()
	require.NotEqual(t, old.id, now.id)
	now.write(300, 100)
	for _, m := range e.members {
		if m != old {
			m.waitApplied(t, 400)
		}
	}
	e.start(old)
	old.waitServing(t)
	old.waitApplied(t, 400)
}
