package server

import (
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/txn"
)

// A large write keeps the logs of all servers busy for milliseconds, and every write behind it waits. So a connection whose writes are large
// rests between them, the longer the more others there are whose writes are small (ADR 0020).
const (
	// heavy is how many bytes of writes that a connection has under way at once count as large.
	heavy = 256 << 10
	// restPerOther is how long a connection rests for each other session, in units of what its large write has taken.
	restPerOther = 2
	// restMost bounds that: a large write has at least one part of restMost+1 of the time.
	restMost = 16
	// restLongest is the part of the session's timeout that one rest takes at most, whatever a write has taken: a client that is not answered,
	// and not heard, for longer would be lost.
	restLongest = 4
	// tookMost bounds what of the time counts: when all stood still, a large write was not the cause.
	tookMost = 100 * time.Millisecond
	// paceWindow is for how long a session that has written counts. It counts as one of small writes if it wrote less than a part of
	// paceSmaller of what the resting one did.
	paceWindow  = 500 * time.Millisecond
	paceSmaller = 8
)

// pace counts what each session writes while there are large writes. Only the peer's turns use it, but for until.
type pace struct {
	until   atomic.Int64 // Config.Now until which writes are counted; 0 before the first large one
	began   time.Duration
	current map[txn.SessionID]int64 // bytes since began
	before  map[txn.SessionID]int64 // in the window before that
}

// wake has writes counted for some time. Any goroutine may call it.
func (p *pace) wake(now time.Duration) { p.until.Store(int64(now + 4*paceWindow)) }

// turn begins a batch of applies and reports whether its writes are to be counted.
func (p *pace) turn(now func() time.Duration) bool {
	until := time.Duration(p.until.Load())
	if until == 0 {
		return false
	}
	switch at := now(); {
	case at > until:
		p.until.CompareAndSwap(int64(until), 0)
		p.current, p.before = nil, nil
		return false
	case p.current == nil || at-p.began > 2*paceWindow:
		p.began, p.current, p.before = at, map[txn.SessionID]int64{}, nil
	case at-p.began > paceWindow:
		p.began, p.current, p.before = at, map[txn.SessionID]int64{}, p.current
	}
	return true
}

func (p *pace) count(id txn.SessionID, bytes int) { p.current[id] += int64(bytes) }

// rest is how long a session with this timeout has to rest after a large write that took so long.
func (p *pace) rest(id txn.SessionID, took, timeout time.Duration) time.Duration {
	own := p.current[id] + p.before[id]
	others := 0
	for other, n := range p.current {
		if other != id && (n+p.before[other])*paceSmaller < own {
			others++
		}
	}
	for other, n := range p.before {
		if _, again := p.current[other]; !again && other != id && n*paceSmaller < own {
			others++
		}
	}
	return min(min(took, tookMost)*time.Duration(min(restPerOther*others, restMost)), timeout/restLongest)
}

// portion tells when a connection's writes are large: while those under way at once are. The caller of its methods holds conn.mu.
type portion struct {
	large bool
	since time.Duration // when that began, or the last answer since came; of large
	until time.Duration // nothing is submitted before; 0: no rest
	timer *time.Timer
}

// weigh notes a write that is about to be submitted, and not in queue.pending yet.
func (c *conn) weigh(bytes int) {
	p := &c.portion
	if p.large || c.q.pending+bytes < heavy {
		return
	}
	p.large, p.since = true, c.rep.cfg.Now()
	c.rep.pace.wake(p.since)
}

// settleDown begins or prolongs a rest when a write of a large portion has been answered and is in queue.pending no more: for the time that
// this took. What comes with it took no more of it. It runs in the peer's turn.
func (c *conn) settleDown() {
	p := &c.portion
	if !p.large || c.state != live {
		return
	}
	now := c.rep.cfg.Now()
	took := now - p.since
	p.large, p.since = c.q.pending >= heavy, now
	c.rep.pace.wake(now)
	timeout := time.Duration(c.timeout) * time.Millisecond
	rest := c.rep.pace.rest(c.session, took, timeout)
	if rest <= 0 {
		return
	}
	if p.until == 0 {
		c.rep.stats.rests.Add(1)
	}
	p.until = min(max(p.until, now)+rest, now+timeout/restLongest)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.until-now, c.rested)
	} else {
		p.timer.Reset(p.until - now)
	}
}

// resting reports whether nothing may be submitted now.
func (c *conn) resting() bool { return c.portion.until != 0 }

// rested ends a rest. It runs on the timer.
func (c *conn) rested() {
	c.mu.Lock()
	if left := c.portion.until - c.rep.cfg.Now(); left > 0 && c.state == live { // it was prolonged when the timer had fired
		c.portion.timer.Reset(left)
		c.mu.Unlock()
		return
	}
	c.portion.until = 0
	c.mu.Unlock()
	c.goOn()
}
