package server

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

const (
	// flushAt is how many bytes of replies are made before they are written: a pipeline of large reads goes out in pieces.
	flushAt = 256 << 10
	// keepOutput is the largest output buffer that goes back to the pool.
	keepOutput = 64 << 10
	// lastWords is how long a connection that is being closed may take to accept what was already said.
	lastWords = time.Second
)

// slowReader is why a connection is cut off whose client lets replies and notifications pile up.
const slowReader = "client does not read its replies"

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

	touched atomic.Bool // since the last Touched

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
	over      bool   // closeSession or an unknown op was taken in: nothing behind it is
	out       []byte // frames to be written
	framesOut int64  // in out
	quick     int64  // requests that were answered when they came, in this batch
	flushing  bool   // somebody writes, and looks at out again before it stops
	syncAhead bool   // a sync is under way; what stands behind it is not started
	dirty     bool   // in Replica.dirty; guarded by Replica.mu held for writing
	traffic   traffic

	watching  map[*watchNode]struct{} // guarded by watchTable.mu
	unwatched bool                    // guarded by watchTable.mu
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
	n := c.q.len()
	return len(c.out) >= flushAt || n >= c.srv.cfg.MaxInFlight ||
		n > 0 && c.rep.outstanding.Load() >= int64(c.srv.cfg.GlobalOutstanding)
}

// takeIn handles frames that were read. starved is true if more input is needed; otherwise the connection is crowded, or not live.
func (c *conn) takeIn() (starved bool, err error) {
	c.rep.mu.RLock()
	c.mu.Lock()
	if c.state == live {
		starved, err = c.takeFrames(c.rep.cfg.Now())
		c.advance()
	}
	buf := c.beginFlush()
	c.mu.Unlock()
	c.rep.mu.RUnlock()
	if buf != nil {
		c.flush(buf)
	}
	return starved, err
}

// takeFrames handles whole frames until there are no more or the connection is crowded.
func (c *conn) takeFrames(now time.Duration) (starved bool, err error) {
	n := int64(0)
	for !starved && err == nil && !c.over && c.state == live && !c.crowded() {
		var frame []byte
		var ok bool
		if frame, ok, err = c.in.frame(); err == nil && ok {
			n++
			err = c.takeFrame(frame, now)
		}
		starved = !ok
	}
	if n > 0 {
		c.touch()
		c.traffic.received += n
		c.rep.stats.received.Add(n)
		c.traffic.instant(c.quick)
		c.rep.stats.instant(c.quick)
		c.quick = 0
	}
	if err != nil {
		c.shut(err.Error())
	}
	return starved, err
}

// touch notes that the client was heard.
func (c *conn) touch() {
	if !c.touched.Load() && !c.touched.Swap(true) {
		c.rep.noteTouched(c)
	}
}

// beginFlush makes the caller the writer and gives it what is to be written; nil if there is nothing or somebody else writes. The caller
// must call flush after it has let go of the locks.
func (c *conn) beginFlush() []byte {
	if c.flushing || c.state != live && c.state != closing || c.state == live && len(c.out) == 0 {
		return nil
	}
	c.flushing = true
	return c.takeOut()
}

// takeOut empties out. The result is not nil.
func (c *conn) takeOut() []byte {
	buf := c.out
	c.out = nil
	c.rep.stats.sent.Add(c.framesOut)
	c.traffic.sent += c.framesOut
	c.framesOut = 0
	if buf == nil {
		buf = emptyOutput
	}
	return buf
}

var emptyOutput = []byte{}

// flush writes buf and whatever is queued meanwhile, in one write per round, until nothing is left.
func (c *conn) flush(buf []byte) {
	for buf != nil {
		var err error
		if len(buf) > 0 {
			_, err = c.nc.Write(buf)
			putOutput(buf)
		}
		buf = c.nextFlush(err)
	}
}

// nextFlush looks for more to write, running requests whose turn has come; nil ends the flusher.
func (c *conn) nextFlush(err error) []byte {
	c.rep.mu.RLock()
	c.mu.Lock()
	if err != nil && c.state < closing {
		c.state = closing
		c.why = err.Error()
	}
	if err == nil && c.state == live {
		c.advance()
	}
	done := c.state >= closing && (err != nil || len(c.out) == 0)
	var buf []byte
	if len(c.out) == 0 || done || c.state == claiming {
		c.flushing = false
	} else {
		buf = c.takeOut()
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	c.rep.mu.RUnlock()
	if done {
		c.close()
	}
	return buf
}

// kick starts a flusher if there is something to do and nobody does it.
func (c *conn) kick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := len(c.out) == 0 && !c.q.runnable()
	if c.flushing || c.state != live && c.state != closing || c.state == live && idle {
		return
	}
	c.flushing = true
	buf := c.takeOut()
	// The reader cannot have ended before the state is closed, so the group is not empty.
	c.srv.tasks.Go(func() { c.flush(buf) })
}

// end is the reader's last act: what was said before is still written, then the connection is closed.
func (c *conn) end() {
	c.mu.Lock()
	said := c.state == closing
	c.mu.Unlock()
	if said {
		c.kick()
		c.awaitFlushed()
	}
	c.close()
}

// awaitFlushed waits until nobody writes. A deadline for the write must have been set.
func (c *conn) awaitFlushed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.flushing && c.state != closed {
		c.changed.Wait()
	}
}

// shut closes the connection once what is in out has been written. What a held connection did not get yet is not sent. The
// caller holds mu; somebody must flush or kick afterwards.
func (c *conn) shut(why string) {
	if c.state >= closing {
		return
	}
	if c.state == held || c.state == claiming {
		c.out = nil
	}
	c.state, c.why = closing, why
	c.dropQueue()
	_ = c.nc.SetWriteDeadline(time.Now().Add(lastWords)) // if that fails the write will too
	c.changed.Broadcast()
}

// cut shuts the connection from outside.
func (c *conn) cut(why string) {
	c.mu.Lock()
	c.shut(why)
	c.mu.Unlock()
	c.kick()
}

// close ends the connection at once. It may be called more than once.
func (c *conn) close() {
	c.mu.Lock()
	if c.state == closed {
		c.mu.Unlock()
		return
	}
	c.state = closed
	c.dropQueue()
	c.out = nil
	c.changed.Broadcast()
	c.mu.Unlock()
	_ = c.nc.Close() // nothing can be done about an error
	c.rep.reg.remove(c)
	c.rep.watches.forget(c)
}

// dropQueue forgets requests; what was submitted happens or not.
func (c *conn) dropQueue() {
	c.rep.outstanding.Add(-int64(c.q.waiting))
	c.q = queue{}
}

// pushed looks after something was added to out: a client that lets too much pile up is cut off.
func (c *conn) pushed() {
	if len(c.out) > c.srv.cfg.MaxUnsent && (c.flushing || c.state != live) && c.state < closing {
		c.out = nil
		c.shut(slowReader)
		c.rep.stats.slowReaders.Add(1)
	}
}

var outputPool = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// output returns out to append to.
func (c *conn) output() []byte {
	if c.out == nil {
		c.out = (*outputPool.Get().(*[]byte))[:0]
	}
	return c.out
}

func putOutput(b []byte) {
	if cap(b) > 0 && cap(b) <= keepOutput {
		b = b[:0]
		outputPool.Put(&b)
	}
}
