package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// What follows runs in the peer's loop, unless it says otherwise.

// Serve opens this server for clients in a role. Everything committed before has been applied. Connections that were held go on once
// the leader has confirmed their sessions.
func (s *Server) Serve(role zab.Role, leader zab.ServerID, epoch txn.Epoch) {
	s.endReadOnly()
	s.raiseSessionIDs()
	s.rep.mu.Lock()
	s.rep.serving = true
	s.rep.mu.Unlock()
	s.hold.end(true)
	resumed := 0
	for _, c := range s.rep.reg.attached() {
		resumed += s.claim(c)
		c.kick()
	}
	s.log.Info("serving clients", zap.Stringer("role", role), zap.Uint8("leader", uint8(leader)), zap.Uint32("epoch", uint32(epoch)),
		zap.Int("held", resumed))
}

// claim asks the new leader for the session of a connection that was held.
func (s *Server) claim(c *conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != held {
		return 0
	}
	if c.local.Load() { // nobody else knows it
		c.state = live
		c.changed.Broadcast()
		return 1
	}
	c.state, c.asked, c.claimed = claiming, true, s.cfg.Now()
	s.askSession(c)
	return 1
}

// Freeze takes this server away from its clients. When it returns nothing of the old role can be answered any more.
// Connections with something under way are closed; the others are held for Config.ClientHold at most.
func (s *Server) Freeze(reason string) {
	s.rep.mu.Lock()
	was := s.rep.serving
	s.rep.serving = false
	s.rep.mu.Unlock()
	if !was {
		return
	}
	s.hold.begin(s.cfg.ClientHold, s.holdExpired)
	s.asks.forget()
	s.rep.waiters = nil
	var draining []*conn
	kept, cut := 0, 0
	for _, c := range s.rep.reg.all() {
		switch keep, writing := c.freeze(s.cfg.DrainTime); {
		case !keep:
			c.close()
			cut++
		case writing:
			draining = append(draining, c)
			kept++
		default:
			kept++
		}
	}
	for _, c := range draining {
		c.awaitFlushed()
		_ = c.nc.SetWriteDeadline(time.Time{}) // see freeze
	}
	s.log.Info("not serving clients", zap.String("reason", reason), zap.Int("held", kept), zap.Int("closed", cut))
}

// freeze holds the connection if nothing of it is under way and its client has not been elsewhere. writing says that replies are on their way to the socket; they have
// until the deadline.
func (c *conn) freeze(drain time.Duration) (keep, writing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == shaking:
		return !c.asked, false
	case c.state != live || c.q.len() > 0 || c.over || c.elsewhere:
		return false, false
	}
	c.state = held
	if c.flushing {
		_ = c.nc.SetWriteDeadline(time.Now().Add(drain)) // if that fails the connection is broken
	}
	return true, c.flushing
}

// holdExpired closes what is still held. It runs on a timer.
func (s *Server) holdExpired() {
	n := 0
	for _, c := range s.rep.reg.attached() {
		c.mu.Lock()
		waits := c.state == held
		c.mu.Unlock()
		if waits {
			c.close()
			n++
		}
	}
	s.log.Info("held clients closed", zap.Int("closed", n))
}

// Refused answers requests that are certainly not in the history. A full leader, or one whose disk is full, is told as ErrThrottledOp, a transaction that would be
// too large as ErrBadArguments (trying again is no use); anything else costs the connection, and the client tries another
// server.
func (s *Server) Refused(refusals []zab.Refusal) {
	for i := range refusals {
		f := &refusals[i]
		if c := s.rep.reg.byConn(f.Conn); c != nil {
			e := s.refused(c, f)
			if f.Code == txn.RefusedTooLarge {
				s.complain(c, "request is too large", zap.Stringer("session", c.session), zap.Stringer("op", e.op), zap.String("path", pathOf(e.op, e.body)),
					zap.Int("bytes", len(e.body)), zap.Int("jute.maxbuffer", s.cfg.MaxFrame))
			}
			c.kick()
		}
	}
}

// refused returns what was asked, as far as it is known.
func (s *Server) refused(c *conn, f *zab.Refusal) (asked entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == shaking {
		c.shut("session not opened: " + f.Code.String())
	}
	if c.state != live {
		return asked
	}
	e := c.q.write(f.Seq)
	if e != nil {
		asked = *e
		if e.upgrade {
			c.upgradeRefused()
		}
	}
	code, tell := refusalCode(f.Code)
	switch {
	case !tell || e != nil && e.op == proto.OpCloseSession:
		c.shut("request refused: " + f.Code.String())
	case e != nil:
		c.finish(e, code)
	}
	return asked
}

// refusalCode is what the client is told; tell is false if it cannot be told and the connection must go.
func refusalCode(why txn.Refusal) (code proto.ErrCode, tell bool) {
	switch why {
	case txn.RefusedPendingFull, txn.RefusedDiskFull:
		return proto.ErrThrottledOp, true
	case txn.RefusedTooLarge:
		return proto.ErrBadArguments, true
	case txn.RefusedMalformed:
		return proto.ErrMarshalling, true
	}
	return proto.OK, false
}

// Synced answers a Replicator.Sync.
func (s *Server) Synced(a zab.Synced) {
	c := s.asks.take(a.ID)
	if c == nil {
		return
	}
	if !a.OK {
		c.cut("sync was not answered")
		return
	}
	s.rep.when(a.Zxid, func() { c.synced(a.ID) })
}

// synced completes the sync with this id. The reply, and the reads behind it, are the flusher's work.
func (c *conn) synced(id uint64) {
	c.mu.Lock()
	if e := c.q.syncing(id); e != nil {
		c.finish(e, proto.OK)
	}
	c.mu.Unlock()
	c.kick()
}

// Revalidated answers a Replicator.Revalidate.
func (s *Server) Revalidated(a zab.Revalidated) {
	c := s.asks.take(a.ID)
	if c == nil {
		return
	}
	if !a.OK {
		c.revalidated(a)
		return
	}
	s.rep.when(a.Zxid, func() { c.revalidated(a) })
}
