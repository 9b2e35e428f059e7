package server

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
)

var errClosed = errors.New("connection is closed")

// connState is where a connection is in its life.
type connState uint8

const (
	shaking  connState = iota // no session yet
	live                      // served
	held                      // the role changed: nothing is read, nothing is answered
	claiming                  // a new role serves and the new leader is asked for the session
	closing                   // what is in out is still written, then it is closed
	closed
)

// conn is one client. Its own goroutine, the reader, takes requests in, executes reads and writes their replies. Replies that
// become due otherwise are written by a flusher, a goroutine that lives only while there are some; there is never more than one
// writer. Lock order: Replica.mu, registry.mu, conn.mu, watchTable.mu.
type conn struct {
	id     uint64 // unique in the life of the process and, by its start, practically beyond
	nc     net.Conn
	srv    *Server
	rep    *Replica
	remote netip.AddrPort
	born   time.Duration // Config.Now
	in     *input        // reader only

	touched  atomic.Bool                // since the last Touched
	local    atomic.Bool                // the session is known to this server only
	readOnly atomic.Bool                // attached in read-only mode; then it does not change
	large    atomic.Pointer[largeReply] // to be logged

	mu      sync.Mutex
	changed sync.Cond // state, q, out or flushing changed
	state   connState
	why     string // of closing, for the log
	// session and timeout are set before state becomes live and do not change after.
	session   txn.SessionID
	timeout   int32         // milliseconds
	hasRO     bool          // the client knows about read-only servers
	asked     bool          // the handshake, or the claim after a change of role, waits for the ensemble
	claimed   time.Duration // when the state became claiming
	ids       []proto.ID
	q         queue
	writes    uint64 // submitted so far
	over      bool   // closeSession or an unknown op was taken in: nothing behind it is
	out       []byte // frames to be written
	framesOut int64  // in out
	quick     int64  // requests that were answered when they came, in this batch
	flushing  bool   // somebody writes, and looks at out again before it stops
	elsewhere bool   // the session has written through another server since it last did through this connection
	syncAhead bool   // a sync is under way; what stands behind it is not started
	acting    bool   // who holds mu goes on to Replicator.Act if submitted is set
	submitted bool   // a write was submitted while acting was set
	dirty     bool   // in Replica.dirty; guarded by Replica.mu held for writing
	traffic   traffic
	portion   portion
	pivot     statemachine.Pivot

	watching  map[uint32]struct{} // the watched paths; guarded by watchTable.mu
	watcher   uint32              // this connection in the table, 0 before its first watch; guarded by watchTable.mu
	unwatched bool                // guarded by watchTable.mu
}

// traffic is what cons tells about a connection; guarded by conn.mu.
type traffic struct {
	received, sent     int64
	lastOp             proto.Op
	lastXid            int32
	lastZxid           txn.Zxid
	lastAt             time.Duration
	latLast            int64 // milliseconds, like the rest
	latMin, latMax     int64
	latSum, latSamples int64
}

// answered notes what was asked last, as ZooKeeper does: a write that failed has no name.
func (t *traffic) answered(e *entry) {
	t.lastOp = e.op
	if e.op.IsWrite() && e.err != proto.OK {
		t.lastOp = proto.OpNotification
	}
	if e.xid >= 0 { // pings and the like are not the client's own
		t.lastXid = e.xid
	}
}

// latency notes that a request took ms milliseconds.
func (t *traffic) latency(ms int64) {
	if t.latSamples == 0 || ms < t.latMin {
		t.latMin = ms
	}
	t.latLast, t.latMax = ms, max(t.latMax, ms)
	t.latSum += ms
	t.latSamples++
}

// instant notes n requests that took no time.
func (t *traffic) instant(n int64) {
	if n > 0 {
		t.latency(0)
		t.latSamples += n - 1
	}
}

// run is the reader: it takes in what the client sends until the connection ends. The session is attached when it begins, and
// requests may already wait in the input.
func (c *conn) run() error {
	for {
		if err := c.awaitTurn(); err != nil {
			return err
		}
		starved, err := c.takeIn()
		if err != nil {
			return err
		}
		if starved {
			if err := c.in.fill(); err != nil {
				return err
			}
		}
	}
}

// awaitTurn waits until requests may be taken in: the connection is live, has room, and the server is not overloaded.
func (c *conn) awaitTurn() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.state >= closing:
			return errClosed
		case c.state == live && !c.over && !c.crowded():
			return nil
		}
		c.changed.Wait()
	}
}

// crowded reports whether the connection must not be read for now: too much of it waits, or the server has enough writes under
// way and this one waits for some.
func (c *conn) crowded() bool {
	cfg := &c.srv.cfg
	n := c.q.len()
	return len(c.out) >= flushAt || n >= cfg.MaxInFlight || c.q.bytes >= cfg.OutstandingBytes ||
		n > 0 && (c.rep.outstanding.Load() >= int64(cfg.GlobalOutstanding) || c.rep.outstandingBytes.Load() >= int64(cfg.OutstandingBytes))
}

// A batch of reads lets go of Replica.mu after turnTime, looking at the clock every turnFrames frames: however dear its reads are, applies
// get their turn, and the peer's loop with them.
const (
	turnTime   = 2 * time.Millisecond
	turnFrames = 16
)

// takeIn handles frames that were read. starved is true if more input is needed; otherwise the connection is crowded, or not live.
func (c *conn) takeIn() (starved bool, err error) {
	c.rep.mu.RLock()
	c.mu.Lock()
	c.acting = true
	if c.state == live {
		starved, err = c.takeFrames(c.rep.cfg.Now())
		c.advance()
	}
	submitted := c.acted()
	var buf []byte
	if !submitted {
		buf = c.beginFlush()
	}
	c.mu.Unlock()
	c.rep.mu.RUnlock()
	if submitted {
		buf = c.act()
	}
	if buf != nil {
		c.flush(buf)
	}
	return starved, err
}

// act takes the turn that a write of this connection is due, and then makes the caller the writer like beginFlush. It must not be the
// writer before: the turn may be the one that freezes this server, and Freeze waits for writers.
func (c *conn) act() []byte {
	c.srv.replicator.Act()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.beginFlush()
}

// acted ends a time in which the holder of mu has set acting, and tells whether Replicator.Act is due when the locks are free.
func (c *conn) acted() bool {
	submitted := c.submitted
	c.acting, c.submitted = false, false
	return submitted
}

// takeFrames handles whole frames until there are no more, the connection is crowded, or Replica.mu has been held long enough.
func (c *conn) takeFrames(now time.Duration) (starved bool, err error) {
	n := int64(0)
	for !starved && err == nil && !c.over && c.state == live && !c.crowded() {
		if n%turnFrames == turnFrames-1 && c.rep.cfg.Now()-now > turnTime {
			break
		}
		var frame []byte
		var ok bool
		if frame, ok, err = c.in.frame(); err != nil {
			err = nameOversized(c.in.waiting(), err)
		} else if ok {
			n++
			err = c.takeFrame(frame, now)
		}
		starved = !ok
	}
	if n > 0 {
		c.touch()
		c.received(n)
		c.traffic.instant(c.quick)
		c.rep.stats.instant(c.quick)
		c.quick = 0
	}
	if err != nil {
		c.shut(err.Error())
	}
	return starved, err
}

// received counts messages of the client. The caller holds mu.
func (c *conn) received(n int64) {
	c.traffic.received += n
	c.rep.stats.received.Add(n)
}

// touch notes that the client was heard.
func (c *conn) touch() {
	if !c.touched.Load() && !c.touched.Swap(true) {
		c.rep.noteTouched(c)
	}
}
