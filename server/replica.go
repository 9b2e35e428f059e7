package server

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// Replica is this server's copy of the replicated state and everything that hangs on its changes: clients that wait, watches, and
// while this server leads the expiry of sessions. Its exported methods are called in the peer's turns, by one goroutine at a time.
//
// Lock order: Replica.mu, registry.mu, conn.mu, watchTable.mu; touchedMu stands alone.
type Replica struct {
	cfg              Config
	machineCfg       statemachine.Config
	reg              *registry
	watches          *watchTable
	locals           *locals
	stats            stats
	outstanding      atomic.Int64 // writes and syncs of clients under way
	outstandingBytes atomic.Int64 // in their records

	// mu is held for reading while a batch of reads runs, for writing while a batch is applied or the role changes.
	mu       sync.RWMutex
	machine  *statemachine.Machine
	serving  bool
	readOnly bool // in read-only mode; never together with serving

	touchedMu sync.Mutex
	touched   []*conn // heard since the last Touched

	pace pace

	// The rest belongs to the peer's loop alone.
	starting bool             // between Begin and Ready
	tracker  *session.Tracker // nil unless this server leads
	waiters  []waiter
	dirty    []*conn // to be kicked after the lock is released
	hit      []*conn // scratch for firing watches
	over     []overrun
	frame    []byte // scratch
	counting bool   // in the batch that is being applied
}

// waiter is something to do once a zxid is applied.
type waiter struct {
	zxid txn.Zxid
	do   func()
}

// NewReplica returns the state before the first transaction. cfg must be valid.
func NewReplica(cfg Config, machineCfg statemachine.Config) *Replica {
	cfg = cfg.withDefaults()
	r := &Replica{cfg: cfg, machineCfg: machineCfg, machine: statemachine.New(machineCfg), reg: newRegistry(cfg), watches: newWatchTable(), locals: newLocals(cfg.TickTime)}
	r.stats.start = cfg.Wall()
	return r
}

// Prepare turns requests into drafts, one for each in the same order. A write of a session that belongs to another server's
// connection is refused; closing the session is allowed through any connection. wallMillis is the wall clock.
func (r *Replica) Prepare(reqs []txn.Request, wallMillis int64) []txn.Draft {
	for i := range reqs {
		if r.moved(&reqs[i]) {
			return r.prepareApart(reqs, wallMillis)
		}
	}
	drafts := r.machine.Prepare(reqs, wallMillis)
	for i := range reqs {
		r.noteEnding(&reqs[i])
	}
	return drafts
}

// prepareApart is Prepare when some are refused.
func (r *Replica) prepareApart(reqs []txn.Request, wallMillis int64) []txn.Draft {
	drafts := make([]txn.Draft, 0, len(reqs))
	for i := range reqs {
		if r.moved(&reqs[i]) {
			drafts = append(drafts, txn.RefuseDraft(&reqs[i], txn.RefusedSessionMoved))
			continue
		}
		drafts = append(drafts, r.machine.Prepare(reqs[i:i+1:i+1], wallMillis)...)
		r.noteEnding(&reqs[i])
	}
	return drafts
}

// Abandon forgets what was prepared and not applied: this server does not lead any more.
func (r *Replica) Abandon() {
	r.machine.Abandon()
	r.tracker = nil
}

// foresight is how many records are looked at together before they are applied: enough for the processor to have many loads under way, few
// enough for all that they bring to stay in its caches.
const foresight = 32

// Apply carries out committed records. The events of each are queued on the connections that watch before any reply that reflects
// them, and the clients of this server that asked get their replies. An error is a broken invariant.
func (r *Replica) Apply(recs []txn.Record) error {
	if r.starting {
		return r.machine.Replay(recs)
	}
	r.mu.Lock()
	r.counting = r.pace.turn(r.cfg.Now)
	var err error
	for i := range recs {
		if i%foresight == 0 {
			r.machine.Foresee(recs[i:min(i+foresight, len(recs))])
		}
		if err = r.applyOne(&recs[i]); err != nil {
			break
		}
	}
	applied := r.machine.LastZxid()
	r.mu.Unlock()
	r.kickDirty()
	r.wake(applied)
	r.tellOverruns()
	return err
}

func (r *Replica) applyOne(rec *txn.Record) error {
	t, err := rec.Txn()
	if err != nil {
		return err
	}
	if r.counting && t.Session != 0 && t.Op != proto.OpCreateSession && t.Op != proto.OpCloseSession { // sessions that come and go are not so many writers
		r.pace.count(t.Session, len(rec.Bytes))
	}
	var c *conn
	switch {
	case t.Conn == 0:
	case t.Origin == r.cfg.SelfID:
		c = r.reg.byConn(t.Conn)
	default:
		r.left(t.Session)
	}
	if c != nil { // reads that stand before the write must not see it
		c.mu.Lock()
		c.elsewhere = false
		c.advanceTo(r.cfg.MaxUnsent, math.MaxInt64)
		c.mu.Unlock()
	}
	res, err := r.machine.Apply(rec)
	if err != nil {
		return err
	}
	switch b := t.Body.(type) {
	case *txn.CreateSession:
		r.opened(t, b.TimeoutMillis)
	case *txn.CloseSession:
		r.ended(t) // before its events: a connection that is cut hears nothing of them, as in ZooKeeper
	}
	for i := range res.Events {
		r.fire(&res, i)
	}
	if c != nil {
		r.answer(c, &res)
		for _, o := range r.machine.OverQuota(t) {
			r.over = append(r.over, overrun{c, o})
		}
	}
	return nil
}

// overrun is a soft quota that a client of this server has exceeded.
type overrun struct {
	c *conn
	statemachine.Overrun
}

// tellOverruns logs them, each quota once a minute.
func (r *Replica) tellOverruns() {
	for _, o := range r.over {
		o.c.srv.warn(netip.Addr{}, "quota exceeded", o.Subtree+o.What, zap.String("path", o.Subtree), zap.String("what", o.What), zap.Int64("usage", o.Usage),
			zap.Int64("limit", o.Limit), zap.Stringer("session", o.c.session), zap.Stringer("addr", o.c.remote))
	}
	clear(r.over)
	r.over = r.over[:0]
}

// fire queues one event on everybody who watches and may know.
func (r *Replica) fire(res *statemachine.Result, i int) {
	ev := &res.Events[i]
	r.hit = r.watches.fire(ev.Type, ev.Path, r.hit[:0])
	if len(r.hit) == 0 {
		return
	}
	r.frame = appendEvent(r.frame[:0], ev.Type, ev.Path, res.Zxid)
	for _, c := range r.hit {
		c.mu.Lock()
		if r.machine.MayRead(ev.ACL, c.ids) {
			c.notify(r.frame)
		}
		c.mu.Unlock()
		r.markDirty(c)
	}
	clear(r.hit)
}

// answer completes the request of a client of this server.
func (r *Replica) answer(c *conn, res *statemachine.Result) {
	c.mu.Lock()
	if res.Txn.Op == proto.OpCreateSession {
		r.answerHandshake(c, res)
	} else {
		c.complete(res)
	}
	c.mu.Unlock()
	r.markDirty(c)
}

// answerHandshake attaches a connection to the session that was opened for it. The caller holds c.mu.
func (r *Replica) answerHandshake(c *conn, res *statemachine.Result) {
	if c.state != shaking || c.session != res.Txn.Session {
		return
	}
	if res.Err != proto.OK {
		c.shut("session not created: " + res.Err.Error())
		return
	}
	r.reg.attach(c)
	c.welcome(r.machine.Secret())
	c.traffic.lastOp, c.traffic.lastZxid = proto.OpCreateSession, res.Zxid
}

// markDirty remembers to kick c once mu is released. The caller holds mu for writing.
func (r *Replica) markDirty(c *conn) {
	if !c.dirty {
		c.dirty = true
		r.dirty = append(r.dirty, c)
	}
}

const (
	// kickHereConns is how many connections' replies an Apply writes itself. More are written side by side.
	kickHereConns = 2
	// fanOutConns is from how many on, as when an event is awaited by a thousand, a goroutine writes for fanOutPart of them, one after the other.
	fanOutConns = 64
	fanOutPart  = 32
)

func (r *Replica) kickDirty() {
	for i, c := range r.dirty {
		c.dirty = false // only the peer's turns touch it, and this is one
		switch {
		case len(r.dirty) <= kickHereConns:
			c.kickHere()
		case len(r.dirty) < fanOutConns:
			c.kick()
		case i%fanOutPart == 0:
			kickAll(r.dirty[i:min(i+fanOutPart, len(r.dirty))])
		}
	}
	clear(r.dirty)
	r.dirty = r.dirty[:0]
}

// when runs do once zxid is applied, in the peer's loop: at once if it is.
func (r *Replica) when(zxid txn.Zxid, do func()) {
	if zxid <= r.machine.LastZxid() { // only this goroutine changes it
		do()
		return
	}
	r.waiters = append(r.waiters, waiter{zxid, do})
}

func (r *Replica) wake(applied txn.Zxid) {
	if len(r.waiters) == 0 {
		return
	}
	due := r.waiters
	r.waiters = nil
	for _, w := range due {
		if w.zxid <= applied {
			w.do()
		} else {
			r.waiters = append(r.waiters, w)
		}
	}
}

// Snapshot returns the state as it is, in constant time; any goroutine may write it out. Behind a start it is nil until the order of the znodes is there.
func (r *Replica) Snapshot() io.WriterTo {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.machine.Ordered() {
		return nil
	}
	return r.machine.Snapshot()
}

// Restore replaces the state by a snapshot's, which must reach to the end of from; on an error the state is as it was. Connections that were held are closed: the events between are not known.
func (r *Replica) Restore(from io.Reader) error {
	fresh := statemachine.New(r.machineCfg)
	if err := fresh.Restore(from); errors.Is(err, statemachine.ErrVersion) {
		return fmt.Errorf("%w: %w", zab.ErrNewerVersion, err)
	} else if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, from) // to the end: only there has from checked everything
	if err != nil {
		return fmt.Errorf("read the snapshot's end: %w", err)
	}
	if n > 0 {
		return fmt.Errorf("%w: %d bytes behind its end", statemachine.ErrSnapshot, n)
	}
	if !r.starting {
		fresh.Settle()
	}
	r.mu.Lock()
	r.machine = fresh
	if !r.starting {
		r.awaitOrder(fresh)
	}
	r.mu.Unlock()
	r.tracker = nil
	for _, c := range r.reg.attached() {
		c.close()
	}
	r.wake(fresh.LastZxid())
	return nil
}

// LastZxid is the zxid of the last applied transaction.
func (r *Replica) LastZxid() txn.Zxid {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.machine.LastZxid()
}

// Digest is the tree's digest and the zxid at which it is that.
func (r *Replica) Digest() (txn.Zxid, uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.machine.LastZxid(), r.machine.Digest()
}

// DigestAt is the tree's digest behind the transaction with this zxid, if the state still knows it.
func (r *Replica) DigestAt(zxid txn.Zxid) (uint64, bool) { // only the turns change the state, and this is one
	return r.machine.DigestAt(zxid)
}

// HasSecret reports whether the ensemble's secret was applied; the first leader of a history proposes it.
func (r *Replica) HasSecret() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.machine.Secret() != nil
}
