package sim

import (
	"io"
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

const (
	sessionTick = 500 * time.Millisecond
	clientHold  = time.Second
)

// edge is the client side of one server process: what server.Replica and server.Server do, on one goroutine. It drives the real
// state machine and the real session tracker.
type edge struct {
	n       *node
	machine *statemachine.Machine
	tracker *session.Tracker // nil unless this server leads
	ids     *session.Generator
	serving bool
	epoch   txn.Epoch              // in which it serves
	lies    bool                   // the next data that is applied becomes another
	conns   map[uint64]*clientConn // open ones, by number
	last    uint64                 // connection number
	bySes   map[txn.SessionID]*clientConn
	touched []*clientConn
	waiters []waiter
	watches watchTable
	asks    map[uint64]*clientConn
	asked   uint64
	holds   uint64
}

type waiter struct {
	zxid txn.Zxid
	do   func()
}

// connState is how far a client's connection has come.
type connState uint8

const (
	shaking connState = iota
	live
	held     // the server serves nobody at the moment
	claiming // it serves again, and asks the leader for the session
	closed
)

// clientConn is a client's connection at the server.
type clientConn struct {
	e       *edge
	id      uint64
	c       *client
	wire    uint64 // the client's number of this connection
	session txn.SessionID
	timeout int32 // milliseconds
	state   connState
	waits   bool // for the ensemble's answer about the session
	touched bool
	// elsewhere: the session has written through another server since it last did through this connection.
	elsewhere bool
	queue     []*request
	lastDown  time.Duration // when the last reply arrives: replies are FIFO
}

// request is one client request in a server's queue.
type request struct {
	o        *op
	progress uint8 // 0 fresh, 1 under way, 2 answered
	err      proto.ErrCode
	sync     uint64
}

func (r *request) barrier() bool { return r.o.kind == proto.OpSync || r.o.kind.IsWrite() }

func newEdge(n *node) *edge {
	return &edge{n: n, machine: newMachine(), ids: session.NewGenerator(n.id, n.wallTime().UnixMilli()), conns: map[uint64]*clientConn{},
		bySes: map[txn.SessionID]*clientConn{}, asks: map[uint64]*clientConn{}, watches: watchTable{}}
}

func newMachine() *statemachine.Machine {
	return statemachine.New(statemachine.Config{MaxTxnBytes: 1 << 20})
}

// Prepare turns requests into drafts; a write of a session that belongs to another server is refused.
func (e *edge) Prepare(reqs []txn.Request, wall int64) []txn.Draft {
	drafts := make([]txn.Draft, 0, len(reqs))
	for i := range reqs {
		q := &reqs[i]
		if e.moved(q) {
			drafts = append(drafts, txn.RefuseDraft(q, txn.RefusedSessionMoved))
			continue
		}
		drafts = append(drafts, e.machine.Prepare(reqs[i:i+1:i+1], wall)...)
		if e.tracker != nil && q.Op == proto.OpCloseSession {
			e.tracker.SetEnding(q.Session)
		}
	}
	return drafts
}

func (e *edge) moved(q *txn.Request) bool {
	if e.tracker == nil || q.Conn == 0 || q.Op == proto.OpCloseSession || q.Op == proto.OpCreateSession {
		return false
	}
	owner := e.tracker.Owner(q.Session)
	if owner == 0 {
		e.tracker.SetOwner(q.Session, q.Origin)
		return false
	}
	return owner != q.Origin
}

// Abandon forgets what was prepared and not applied.
func (e *edge) Abandon() {
	e.machine.Abandon()
	e.tracker = nil
}

// Apply carries out committed records and answers the clients that asked for them.
func (e *edge) Apply(recs []txn.Record) error {
	for i := range recs {
		if e.n.core == nil {
			e.n.w.checks.onReplay(e.n, &recs[i])
		}
		if err := e.applyOne(&recs[i]); err != nil {
			return err
		}
		if e.n.w.fail != nil {
			return nil
		}
	}
	e.wake()
	return nil
}

func (e *edge) applyOne(rec *txn.Record) error {
	t, err := rec.Txn()
	if err != nil {
		return err
	}
	var c *clientConn
	switch {
	case t.Conn == 0:
	case t.Origin == e.n.id:
		c = e.conns[t.Conn]
	default:
		if gone := e.bySes[t.Session]; gone != nil {
			gone.elsewhere = true
			if !e.serving {
				gone.shut()
			}
		}
	}
	if c != nil {
		c.elsewhere = false
		c.advance() // reads that stand before the write must not see it
	}
	if other, ok := twisted(rec, t); ok && e.lies {
		e.lies = false
		e.n.w.checks.onLie(e.n)
		rec = &other
	}
	res, err := e.machine.Apply(rec)
	if err != nil {
		return err
	}
	e.n.w.checks.onDigest(e.n, rec.Zxid, e.machine.Digest())
	e.watches.fire(res.Events)
	switch b := t.Body.(type) {
	case *txn.CreateSession:
		if e.tracker != nil {
			e.tracker.Add(t.Session, millis(b.TimeoutMillis), time.Duration(e.n.now()))
			e.tracker.SetOwner(t.Session, t.Origin)
			e.n.w.checks.onAlive(e.n, t.Session)
		}
	case *txn.CloseSession:
		if e.tracker != nil {
			e.tracker.Remove(t.Session)
		}
		if old := e.bySes[t.Session]; old != nil && old != c {
			old.shut()
		}
	}
	if c != nil {
		c.answer(&res)
	}
	return nil
}

func (c *clientConn) answer(res *statemachine.Result) {
	switch {
	case c.state == closed:
	case res.Txn.Op == proto.OpCreateSession:
		if c.state != shaking || c.session != res.Txn.Session {
			return
		}
		if res.Err != proto.OK {
			c.shut()
			return
		}
		c.attach()
		c.welcome()
	case c.state == live:
		r := c.front()
		if r == nil || r.progress != 1 || r.o.xid != res.Txn.Cxid || r.o.kind != res.Txn.Op {
			c.e.n.w.violate("I-30", c.e.n.id, res.Zxid, "the reply to cxid %d of session %v is not the next one of its connection", res.Txn.Cxid, c.session)
			return
		}
		c.queue = c.queue[1:]
		c.reply(r.o, outcome{zxid: res.Zxid, err: res.HeaderErr(), body: res.AppendReply(nil)})
		if res.Txn.Op == proto.OpCloseSession {
			c.shut()
			return
		}
		c.advance()
	}
}

func (e *edge) when(zxid txn.Zxid, do func()) {
	if zxid <= e.machine.LastZxid() {
		do()
		return
	}
	e.waiters = append(e.waiters, waiter{zxid, do})
}

func (e *edge) wake() {
	due := e.waiters
	e.waiters = nil
	for _, w := range due {
		if w.zxid <= e.machine.LastZxid() {
			w.do()
		} else {
			e.waiters = append(e.waiters, w)
		}
	}
}

// Snapshot returns the state as it is.
func (e *edge) Snapshot() io.WriterTo { return e.machine.Snapshot() }

// Restore replaces the state by a snapshot's. Clients that were held are cut.
func (e *edge) Restore(r io.Reader) error {
	fresh := newMachine()
	if err := fresh.Restore(r); err != nil {
		return err
	}
	e.machine, e.tracker = fresh, nil
	for _, id := range sorted(e.conns) {
		e.conns[id].shut()
	}
	if e.n.core == nil {
		e.n.w.checks.onRestored(e.n, fresh.LastZxid(), fresh.Digest())
	}
	e.wake()
	return nil
}

// Clear makes it the state of the empty history.
func (e *edge) Clear() error {
	e.machine = newMachine()
	if e.n.core == nil {
		e.n.w.checks.onRestored(e.n, 0, e.machine.Digest())
	}
	return nil
}

// Touched returns the sessions of this server's clients that were heard since the last call.
func (e *edge) Touched() []zab.Touch {
	out := make([]zab.Touch, 0, len(e.touched))
	for _, c := range e.touched {
		c.touched = false
		out = append(out, zab.Touch{Session: c.session, TimeoutMillis: c.timeout})
	}
	e.touched = e.touched[:0]
	return out
}

// Touch gives sessions that a server heard of their timeout anew.
func (e *edge) Touch(from zab.ServerID, touches []zab.Touch, now zab.Instant) {
	if e.tracker == nil {
		return
	}
	for _, t := range touches {
		e.tracker.Touch(t.Session, millis(t.TimeoutMillis), time.Duration(now))
		if e.tracker.Owner(t.Session) == 0 {
			e.tracker.SetOwner(t.Session, from)
		}
	}
}

// Expired returns sessions whose time is up.
func (e *edge) Expired(now zab.Instant) []txn.SessionID {
	if e.tracker == nil {
		return nil
	}
	return e.tracker.Expired(time.Duration(now))
}

// Revalidate looks a session up in the leader's tracker.
func (e *edge) Revalidate(owner zab.ServerID, ask zab.Revalidate, now zab.Instant) (known, ending bool) {
	if e.tracker == nil {
		return false, false
	}
	known, ending = e.tracker.State(ask.Session)
	if !known || ending {
		return known, ending
	}
	if now := e.tracker.Owner(ask.Session); ask.Held && now != 0 && now != owner {
		return false, false
	}
	e.tracker.Touch(ask.Session, millis(ask.TimeoutMillis), time.Duration(now))
	e.tracker.SetOwner(ask.Session, owner)
	if owner != e.n.id {
		if c := e.bySes[ask.Session]; c != nil {
			c.shut()
		}
	}
	return known, ending
}

// Established: every session gets its full timeout from now.
func (e *edge) Established(now zab.Instant) {
	e.tracker = session.NewTracker(sessionTick)
	e.machine.Sessions(func(id txn.SessionID, timeout int32) bool {
		e.tracker.Add(id, millis(timeout), time.Duration(now))
		return true
	})
}

// Extend puts expiry off.
func (e *edge) Extend(d time.Duration) {
	if e.tracker != nil {
		e.tracker.Extend(d)
	}
}

// Serve opens the server for clients.
func (e *edge) Serve(epoch txn.Epoch) {
	e.epoch = epoch
	if id := e.machine.HighestSession(e.n.id); id != 0 {
		e.ids.RaiseAbove(id)
	}
	e.serving = true
	e.holds++
	for _, id := range sorted(e.conns) {
		if c := e.conns[id]; c.state == held {
			c.state, c.waits = claiming, true
			c.askSession()
		}
	}
}

// Freeze takes it away from them: when it returns nothing of the old role can be answered any more.
func (e *edge) Freeze() {
	if !e.serving {
		return
	}
	e.serving = false
	e.asks = map[uint64]*clientConn{}
	e.waiters = nil
	for _, id := range sorted(e.conns) {
		c := e.conns[id]
		switch {
		case c.state == shaking && !c.waits:
		case c.state != live || len(c.queue) > 0 || c.elsewhere:
			c.shut()
		default:
			c.state = held
		}
	}
	e.holds++
	number := e.holds
	e.n.soon(clientHold, func() {
		if e.holds != number {
			return
		}
		for _, id := range sorted(e.conns) {
			if c := e.conns[id]; c.state == held {
				c.shut()
			}
		}
	})
}

// Refused answers requests that are certainly not in the history.
func (e *edge) Refused(refusals []zab.Refusal) {
	for _, f := range refusals {
		c := e.conns[f.Conn]
		if c == nil || c.state == closed {
			continue
		}
		e.n.w.history.refused(f)
		c.refused(f)
	}
}

func (c *clientConn) refused(f zab.Refusal) {
	if c.state != live {
		c.shut()
		return
	}
	for _, r := range c.queue {
		if r.progress != 1 || r.o.kind == proto.OpSync || r.o.xid != f.Cxid {
			continue
		}
		if f.Code != txn.RefusedPendingFull && f.Code != txn.RefusedDiskFull || r.o.kind == proto.OpCloseSession {
			break
		}
		r.progress, r.err = 2, proto.ErrThrottledOp
		c.advance()
		return
	}
	c.shut()
}

// Synced answers a sync.
func (e *edge) Synced(a zab.Synced) {
	c := e.asks[a.ID]
	delete(e.asks, a.ID)
	if c == nil {
		return
	}
	if !a.OK {
		c.shut()
		return
	}
	e.when(a.Zxid, func() {
		for _, r := range c.queue {
			if r.progress == 1 && r.o.kind == proto.OpSync && r.sync == a.ID {
				r.progress = 2
				c.advance()
				return
			}
		}
	})
}

// Revalidated answers a question for a session.
func (e *edge) Revalidated(a zab.Revalidated) {
	c := e.asks[a.ID]
	delete(e.asks, a.ID)
	if c == nil {
		return
	}
	if !a.OK {
		c.shut()
		return
	}
	e.when(a.Zxid, func() { c.revalidated(a.Valid) })
}

func (c *clientConn) revalidated(valid bool) {
	if !c.waits || c.state == closed {
		return
	}
	_, open := c.e.machine.SessionTimeout(c.session)
	switch {
	case !valid || !open:
		if c.state == shaking {
			c.expire()
		}
		c.shut()
	case c.state == shaking:
		c.attach()
		c.welcome()
	default:
		c.state, c.waits = live, false
		c.advance()
	}
}

// dead: the process is gone.
func (e *edge) dead() {
	for _, id := range sorted(e.conns) {
		e.conns[id].drop(!e.n.off)
	}
	e.serving = false
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
