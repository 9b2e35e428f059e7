package server

import (
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/socket"
)

const (
	// flushAt is how many bytes of replies are made before they are written: a pipeline of large reads goes out in pieces.
	flushAt = 256 << 10
	// keepOutput is the largest output buffer that goes back to the pool. 64 replies of 1 KiB fit, with what append adds when it grows.
	keepOutput = 128 << 10
	// lastWords is how long a connection that is being closed may take to accept what was already said.
	lastWords = time.Second
)

// slowReader is why a connection is cut off whose client lets replies and notifications pile up.
const slowReader = "client does not read its replies"

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
		if c.large.Load() != nil {
			c.tellLarge()
		}
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
	if buf := c.beginKick(); buf != nil {
		c.startFlusher(buf)
	}
}

// kickHere is kick, but it first writes itself what the kernel takes at once: for a single reply that costs less than a goroutine. The
// caller holds no lock of the lock order.
func (c *conn) kickHere() {
	if buf := c.beginKick(); buf != nil {
		c.flushHere(buf)
	}
}

// flushHere is startFlusher, but what the kernel takes at once is written by the caller.
func (c *conn) flushHere(buf []byte) {
	if c.in.raw != nil && len(buf) > 0 {
		n := writeAtOnce(c.in.raw, buf)
		if n < len(buf) {
			buf = buf[n:]
		} else {
			putOutput(buf)
			buf = c.nextFlush(nil)
		}
	}
	if buf == nil {
		c.srv.tasks.Done()
		return
	}
	c.startFlusher(buf)
}

// kickAll is kick for many: one goroutine writes for all of them, and leaves those whose socket is full to goroutines of their own. It ends
// with the last of the server's tasks that it was given.
func kickAll(conns []*conn) {
	type due struct {
		c   *conn
		buf []byte
	}
	list := make([]due, 0, len(conns))
	for _, c := range conns {
		if buf := c.beginKick(); buf != nil {
			list = append(list, due{c, buf})
		}
	}
	if len(list) == 0 {
		return
	}
	go func() {
		for _, d := range list {
			d.c.flushHere(d.buf)
		}
	}()
}

// beginKick makes the caller the flusher and gives it what is to be written; nil if there is nothing to do or somebody does it. A flusher
// is one of the server's tasks: the caller goes on to startFlusher, or says that it is done.
func (c *conn) beginKick() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := len(c.out) == 0 && !c.q.runnable()
	if c.flushing || c.state != live && c.state != closing || c.state == live && idle {
		return nil
	}
	c.flushing = true
	c.srv.tasks.Add(1) // here the reader cannot have ended, as the state is not closed: the group is not empty
	return c.takeOut()
}

// startFlusher goes on on a goroutine.
func (c *conn) startFlusher(buf []byte) {
	go func() {
		defer c.srv.tasks.Done()
		c.flush(buf)
	}()
}

// writeAtOnce writes what the kernel takes without waiting and returns how much that was. An error is left for the next write to find.
func writeAtOnce(raw syscall.RawConn, b []byte) (n int) {
	err := raw.Write(func(fd uintptr) bool {
		n, _ = socket.WriteNow(fd, b)
		return true
	})
	if err != nil {
		return 0
	}
	return max(n, 0)
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
	if c.portion.timer != nil {
		c.portion.timer.Stop()
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	_ = c.nc.Close() // nothing can be done about an error
	c.rep.reg.remove(c)
	c.rep.watches.forget(c)
}

// dropQueue forgets requests; what was submitted happens or not.
func (c *conn) dropQueue() {
	c.rep.outstanding.Add(-int64(c.q.waiting))
	c.rep.outstandingBytes.Add(-int64(c.q.pending))
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
