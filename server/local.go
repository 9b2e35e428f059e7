package server

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/txn"
)

// locals are the sessions that only this server knows: no transaction opened them, none closes them, and they cannot be taken up
// elsewhere. Any goroutine may use it.
type locals struct {
	mu      sync.Mutex
	tracker *session.Tracker
}

func newLocals(tick time.Duration) *locals { return &locals{tracker: session.NewTracker(tick)} }

// add takes a session in, or touches it.
func (l *locals) add(id txn.SessionID, timeoutMillis int32, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tracker.Add(id, millis(timeoutMillis), now)
}

// touch gives a session its timeout anew and reports whether it is there.
func (l *locals) touch(id txn.SessionID, timeoutMillis int32, now time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tracker.Touch(id, millis(timeoutMillis), now)
}

func (l *locals) remove(id txn.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tracker.Remove(id)
}

func (l *locals) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tracker.Len()
}

func (l *locals) expired(now time.Duration) []txn.SessionID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tracker.Expired(now)
}

// openLocal attaches a new connection to a new local session. The caller holds what askLocked's does.
func (c *conn) openLocal() {
	c.rep.locals.add(c.session, c.timeout, c.rep.cfg.Now())
	c.local.Store(true)
	c.rep.reg.attach(c)
	c.welcome(c.rep.machine.Secret())
}

// takeUpLocal attaches a connection to a local session of this server, if it is one, and returns the connection that had it.
func (c *conn) takeUpLocal() (old *conn, ok bool) {
	if !c.rep.locals.touch(c.session, c.timeout, c.rep.cfg.Now()) {
		return nil, false
	}
	c.local.Store(true)
	old = c.rep.reg.attach(c)
	c.welcome(c.rep.machine.Secret())
	return old, true
}

// placeLocal decides what a request means to a local session. An ephemeral needs a session that everybody knows: the request
// brings a createSession with it if that is allowed, and is refused otherwise. A closeSession is this server's alone.
func (c *conn) placeLocal(e *entry, body []byte) {
	switch {
	case e.op == proto.OpCloseSession:
		e.here = true
	case !makesEphemeral(e.op, body):
	case !c.srv.cfg.UpgradeSessions:
		e.here, e.err = true, proto.ErrEphemeralOnLocalSession
	default:
		e.upgrade = true // the locals keep it until that is applied
		c.local.Store(false)
	}
}

// executeLocal answers a request that placeLocal kept here.
func (c *conn) executeLocal(e *entry) {
	c.reply(e.xid, c.rep.machine.LastZxid(), e.err, nil)
	if e.op == proto.OpCloseSession {
		c.rep.locals.remove(c.session)
		c.shut("session closed")
	}
}

// upgradeRequest opens the session of c for everybody, under the id that it has.
func (c *conn) upgradeRequest() txn.Request {
	return txn.Request{Session: c.session, Op: proto.OpCreateSession, Origin: c.rep.cfg.SelfID, Payload: txn.AppendTimeout(nil, c.timeout)}
}

// upgraded: a createSession was applied. If it was for a local session that is one no more.
func (r *Replica) upgraded(id txn.SessionID) {
	if !r.cfg.LocalSessions {
		return
	}
	r.locals.remove(id)
	if c := r.reg.bySession(id); c != nil {
		c.local.Store(false)
	}
}

// upgradeRefused makes the session a local one again: its request, and so the upgrade, was refused. If the upgrade got through all
// the same, the next one finds the session open and changes nothing.
func (c *conn) upgradeRefused() {
	c.rep.locals.add(c.session, c.timeout, c.rep.cfg.Now())
	c.local.Store(true)
}

// makesEphemeral reports whether a write would make an ephemeral. One that does not decode makes none.
func makesEphemeral(op proto.Op, body []byte) bool {
	ephemeral := func(op proto.Op, q proto.Record) bool {
		c, ok := q.(*proto.CreateRequest)
		return ok && (op == proto.OpCreate || op == proto.OpCreate2) && c.Flags.Ephemeral()
	}
	switch op {
	case proto.OpCreate, proto.OpCreate2:
		var q proto.CreateRequest
		return q.Decode(proto.NewReader(body)) == nil && ephemeral(op, &q)
	case proto.OpMulti:
		ops, err := proto.DecodeMulti(proto.NewReader(body))
		for i := range ops {
			if err == nil && ephemeral(ops[i].Op, ops[i].Request) {
				return true
			}
		}
	}
	return false
}

// expireLocals ends local sessions whose time is up: their connections are cut without a word.
func (s *Server) expireLocals(now time.Duration) {
	for _, id := range s.rep.locals.expired(now) {
		c := s.rep.reg.bySession(id)
		if c != nil && c.touched.Load() { // heard, and not told to Touched yet
			s.rep.locals.touch(id, c.timeout, now)
			continue
		}
		s.rep.locals.remove(id)
		if c != nil {
			c.cut("session ended")
		}
		s.log.Debug("local session expired", zap.Stringer("session", id))
	}
}
