package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/zab"
)

// minLooking is how long a server looks for a leader, at least, before it serves reads to those who asked for no more.
const minLooking = 2 * time.Second

// considerReadOnly begins and ends read-only mode: a server that is cut off from the quorum answers reads from what it has, which
// may be old, to clients that said that this will do. The sweeper calls it.
func (s *Server) considerReadOnly(now time.Duration) {
	if !s.cfg.ReadOnlyMode {
		return
	}
	if serves, _ := s.hold.state(); serves || s.replicator.Status().Role != zab.Looking {
		s.lookingSince = 0
		s.endReadOnly()
		return
	}
	if s.lookingSince == 0 {
		s.lookingSince = max(now, 1)
	}
	switch {
	case s.rep.isReadOnly():
		s.rep.Touched() // no leader wants to know, and the local sessions are touched
	case now-s.lookingSince >= max(minLooking, s.cfg.TickTime):
		s.beginReadOnly()
	}
}

func (r *Replica) isReadOnly() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.readOnly
}

func (s *Server) beginReadOnly() {
	s.rep.mu.Lock()
	zxid := s.rep.machine.LastZxid()
	// Without the secret there are no passwords, and nothing to read.
	begins := !s.rep.serving && s.rep.machine.Secret() != nil
	s.rep.readOnly = begins
	s.rep.mu.Unlock()
	if begins {
		s.log.Warn("no leader: serving reads only", zap.Stringer("zxid", zxid))
	}
}

// endReadOnly closes what was served in read-only mode, if it was on. Any goroutine may call it.
func (s *Server) endReadOnly() {
	s.rep.mu.Lock()
	was := s.rep.readOnly
	s.rep.readOnly = false
	s.rep.mu.Unlock()
	if !was {
		return
	}
	for _, c := range s.rep.reg.all() {
		if c.readOnly.Load() {
			s.rep.locals.remove(c.session)
			c.close()
		}
	}
	s.log.Info("no longer serving reads only")
}

// askReadOnly answers a handshake in read-only mode. Sessions are local ones, also where local sessions are not enabled. Whoever has
// a session of the ensemble is sent on without a word, and so is a client that wants to write. The caller holds what askLocked's does.
func (c *conn) askReadOnly(q *proto.ConnectRequest) (old *conn, err error) {
	_, global := c.rep.machine.SessionTimeout(c.session)
	switch {
	case !q.ReadOnly:
		return nil, errNotServing
	case q.SessionID == 0:
		c.readOnly.Store(true)
		c.session = c.srv.newSessionID()
		c.openLocal()
	case global:
		return nil, errNotServing
	case !session.CheckPassword(c.rep.machine.Secret(), c.session, q.Passwd):
		c.refuse("wrong password")
	default:
		c.readOnly.Store(true)
		old, ok := c.takeUpLocal()
		if !ok {
			c.refuse("session is not known")
		}
		return old, nil
	}
	return nil, nil
}

// placeReadOnly refuses what a read-only server cannot do, before anything else is looked at.
func (c *conn) placeReadOnly(e *entry) {
	if e.op == proto.OpCloseSession {
		e.here = true
	} else if e.barrier() {
		e.here, e.err = true, proto.ErrNotReadOnly
	}
}
