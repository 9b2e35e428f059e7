package server

import (
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// What follows runs in the peer's loop.

// Touched returns the sessions of this server's clients that were heard since the last call.
func (r *Replica) Touched() []zab.Touch {
	r.touchedMu.Lock()
	heard := r.touched
	r.touched = nil
	r.touchedMu.Unlock()
	touches := make([]zab.Touch, 0, len(heard))
	for _, c := range heard {
		c.touched.Store(false)
		local := c.local.Load()
		if local || r.cfg.LocalSessions { // one that is being upgraded is still among the locals
			r.locals.touch(c.session, c.timeout, r.cfg.Now())
		}
		if local {
			continue
		}
		touches = append(touches, zab.Touch{Session: c.session, TimeoutMillis: c.timeout})
	}
	return touches
}

// noteTouched puts c on the list; c.touched says that it is there. Called by readers.
func (r *Replica) noteTouched(c *conn) {
	r.touchedMu.Lock()
	r.touched = append(r.touched, c)
	r.touchedMu.Unlock()
}

// Touch gives sessions that a server heard of their timeout anew, and the server as owner if they have none.
func (r *Replica) Touch(from zab.ServerID, touches []zab.Touch, now zab.Instant) {
	if r.tracker == nil {
		return
	}
	for _, t := range touches {
		r.tracker.Touch(t.Session, millis(t.TimeoutMillis), time.Duration(now))
		if r.tracker.Owner(t.Session) == 0 {
			r.tracker.SetOwner(t.Session, from)
		}
	}
}

// Expired returns sessions whose time is up. One that is not closed is named again a tick later.
func (r *Replica) Expired(now zab.Instant) []txn.SessionID {
	if r.tracker == nil {
		return nil
	}
	return r.tracker.Expired(time.Duration(now))
}

// Revalidate looks a session up; if it is there and not ending, it is touched and owner becomes its owner. A connection of
// this server that had it is closed when it moves elsewhere. A connection that was held does not take the session back from where its
// client has gone meanwhile: what lies in its socket is older than what was written there.
func (r *Replica) Revalidate(owner zab.ServerID, ask zab.Revalidate, now zab.Instant) (known, ending bool) {
	if r.tracker == nil {
		return false, false
	}
	known, ending = r.tracker.State(ask.Session)
	if !known || ending {
		return known, ending
	}
	if now := r.tracker.Owner(ask.Session); ask.Held && now != 0 && now != owner {
		return false, false
	}
	r.tracker.Touch(ask.Session, millis(ask.TimeoutMillis), time.Duration(now))
	r.tracker.SetOwner(ask.Session, owner)
	if owner != r.cfg.SelfID {
		if c := r.reg.bySession(ask.Session); c != nil {
			c.cut(movedAway)
		}
	}
	return known, ending
}

const movedAway = "session moved to another server"

// left: a session that has a connection here has written through another server. What its client sent here before is older than that, and must
// not be carried out later. As long as this leader leads it refuses that; the next one cannot know, so the connection will not be held until then.
// It is not cut at once while this server serves: that write may have been on its way before the client came here. The caller holds mu.
func (r *Replica) left(session txn.SessionID) {
	c := r.reg.bySession(session)
	if c == nil {
		return
	}
	c.mu.Lock()
	c.elsewhere = true
	if !r.serving {
		c.shut(movedAway)
	}
	c.mu.Unlock()
	if !r.serving {
		r.markDirty(c)
	}
}

// Established: this server leads; every session gets its full timeout from now and has no owner yet.
func (r *Replica) Established(now zab.Instant) {
	r.tracker = session.NewTracker(r.cfg.TickTime)
	r.machine.Sessions(func(id txn.SessionID, timeoutMillis int32) bool {
		r.tracker.Add(id, millis(timeoutMillis), time.Duration(now))
		return true
	})
}

// Extend puts expiry off by a stall's length.
func (r *Replica) Extend(d time.Duration) {
	if r.tracker != nil {
		r.tracker.Extend(d)
	}
}

// moved reports whether a request comes through a server that does not own its session. The first writer of a session without
// an owner becomes it.
func (r *Replica) moved(q *txn.Request) bool {
	if r.tracker == nil || q.Conn == 0 || q.Op == proto.OpCloseSession || q.Op == proto.OpCreateSession {
		return false
	}
	owner := r.tracker.Owner(q.Session)
	if owner == 0 {
		r.tracker.SetOwner(q.Session, q.Origin)
		return false
	}
	return owner != q.Origin
}

// noteEnding: once a closeSession is prepared the session takes no more touches.
func (r *Replica) noteEnding(q *txn.Request) {
	if r.tracker != nil && q.Op == proto.OpCloseSession {
		r.tracker.SetEnding(q.Session)
	}
}

// opened: a session was created. The caller holds mu.
func (r *Replica) opened(t *txn.Txn, timeoutMillis int32) {
	r.upgraded(t.Session)
	if r.tracker != nil {
		r.tracker.Add(t.Session, millis(timeoutMillis), r.cfg.Now())
		r.tracker.SetOwner(t.Session, t.Origin)
	}
}

// ended: a session was closed or has expired. Its connection here is cut without a word, except that whoever asked for the close
// gets the reply. The caller holds mu for writing.
func (r *Replica) ended(t *txn.Txn) {
	if r.tracker != nil {
		r.tracker.Remove(t.Session)
	}
	r.locals.remove(t.Session)
	c := r.reg.bySession(t.Session)
	if c == nil || t.Origin == r.cfg.SelfID && t.Conn == c.id {
		return
	}
	c.mu.Lock()
	c.shut("session ended")
	c.mu.Unlock()
	r.markDirty(c)
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
