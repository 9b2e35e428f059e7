package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/socket"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/txn"
)

// acceptPause is how long the listener rests when the process is out of file descriptors.
const acceptPause = 50 * time.Millisecond

// sweepEvery is how often connections are looked at for requests and handshakes that take too long, and local sessions for their end:
// every half tick, at least each second.
const sweepEvery = time.Second

// Server is the client port. New makes one, Attach gives it replication, Run serves a listener until its context ends.
type Server struct {
	cfg          Config
	rep          *Replica
	log          *zap.Logger
	replicator   Replicator
	words        map[string]bool
	nag          nag
	asks         asks
	hold         hold
	lookingSince time.Duration // for considerReadOnly; 0: not looking
	lastConn     atomic.Uint64
	tasks        sync.WaitGroup // readers, flushers, the sweeper

	idsMu sync.Mutex
	ids   *session.Generator
}

// New builds the edge of a replica. cfg must be valid and the one that the replica was made with.
func New(cfg Config, rep *Replica, log *zap.Logger) *Server {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, rep: rep, log: log, words: whitelist(cfg.FourLetterWhitelist)}
	s.ids = session.NewGenerator(cfg.SelfID, cfg.Wall().UnixMilli())
	s.lastConn.Store(uint64(cfg.Wall().UnixNano())) // an earlier life's requests must not find a connection of this one
	return s
}

// Attach gives the server its replication; before Run.
func (s *Server) Attach(r Replicator) { s.replicator = r }

// Run accepts connections until ctx ends, then closes all of them and returns nil once every goroutine has ended. It closes ln. Another
// error means that the listener broke. It may be called once.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	defer s.tasks.Wait() // runs last: no connection outlives Run
	ctx, cancel := context.WithCancel(ctx)
	defer s.closeAll()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	s.tasks.Go(func() { s.sweep(ctx) })
	s.tasks.Go(func() { s.fade(ctx) })
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			if c := s.admit(socket.Quick(nc)); c != nil {
				s.tasks.Go(func() { s.serveConn(ctx, c) })
			}
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept clients: %w", err)
		default:
			s.warn(netip.Addr{}, "cannot accept clients", "", zap.Error(err))
			pause(ctx, acceptPause)
		}
	}
}

// closeAll ends every connection, and what waits for a role. Whoever comes later sees that the context has ended.
func (s *Server) closeAll() {
	s.hold.end(false)
	for _, c := range s.rep.reg.all() {
		c.close()
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// admit takes a connection in, or closes it and returns nil. Run calls it, so that there is never more than one too many.
func (s *Server) admit(nc net.Conn) *conn {
	c := s.newConn(nc)
	evicted, why := s.rep.reg.add(c)
	if evicted != nil {
		evicted.close()
		s.rep.stats.refused.Add(1)
		s.complain(evicted, "client refused", zap.String("reason", "too many connections that have not shaken hands"))
	}
	if why == "" {
		return c
	}
	_ = nc.Close() // it has been told nothing
	s.rep.stats.refused.Add(1)
	s.complain(c, "client refused", zap.String("reason", why))
	return nil
}

// serveConn is the life of a connection, in its own goroutine.
func (s *Server) serveConn(ctx context.Context, c *conn) {
	if ctx.Err() != nil { // closeAll may have looked before
		c.close()
	}
	err := c.shake()
	if err == nil {
		err = c.run()
	}
	c.end()
	c.in.release()
	s.report(c, err)
}

func (s *Server) newConn(nc net.Conn) *conn {
	c := &conn{id: s.lastConn.Add(1), nc: nc, srv: s, rep: s.rep, remote: remoteOf(nc), born: s.cfg.Now(), in: newInput(nc, maxHandshake)}
	c.changed.L = &c.mu
	c.ids = firstIDs(c.remote)
	return c
}

// remoteOf returns the client's address, invalid if it has none.
func remoteOf(nc net.Conn) netip.AddrPort {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
	}
	return netip.AddrPort{}
}

// report logs how a connection ended: once a minute and address if somebody should look at it.
func (s *Server) report(c *conn, err error) {
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	var odd *stranger
	var size *proto.FrameSizeError
	var large *oversized
	switch session := zap.Stringer("session", c.session); {
	case errors.As(err, &odd):
		s.rep.stats.strangers.Add(1)
		s.complain(c, "not a ZooKeeper client", zap.Error(odd.err), zap.String("hint", hint(odd.first)))
	case errors.As(err, &large) && errors.As(err, &size):
		s.complain(c, "frame is too large", session, zap.Stringer("op", large.op), zap.String("path", large.path), zap.Int("bytes", size.Size),
			zap.Int("jute.maxbuffer", size.Max))
	case errors.As(err, &size):
		s.complain(c, "frame is too large", session, zap.Int("bytes", size.Size), zap.Int("jute.maxbuffer", size.Max))
	case errors.Is(err, errAhead):
		s.complain(c, "client refused", zap.Error(err))
	case why == slowReader:
		s.complain(c, why, session, zap.Int("maxUnsent", s.cfg.MaxUnsent))
	case why == noOutcome:
		s.complain(c, why, session, zap.Duration("timeout", s.cfg.RequestTimeout))
	default:
		s.log.Debug("client gone", zap.Stringer("addr", c.remote), session, zap.String("reason", why), zap.NamedError("ended", err))
	}
}

// sweep closes connections whose handshake or whose oldest request takes too long, once a second.
func (s *Server) sweep(ctx context.Context) {
	t := time.NewTicker(min(sweepEvery, s.cfg.TickTime/2))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			now := s.cfg.Now()
			s.expireLocals(now)
			s.considerReadOnly(now)
			for _, c := range s.rep.reg.all() {
				if c.overdue(now, s.cfg.HandshakeTimeout, s.cfg.RequestTimeout) {
					c.close()
				}
			}
		}
	}
}

// noOutcome is why a connection is closed whose write or sync is not answered.
const noOutcome = "request without an outcome, client closed"

// overdue reports whether the connection must be given up: the outcome of what waits is unknown then.
func (c *conn) overdue(now, handshake, request time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := c.q.front(); {
	case c.state == shaking && now-c.born > handshake:
		c.why = "handshake took too long"
		return true
	case e != nil && e.progress == underway && now-max(e.at, c.q.moved) > request:
		c.why = noOutcome
		return true
	case c.state == claiming && now-c.claimed > request:
		c.why = "the leader did not confirm the session"
		return true
	}
	return false
}

func (s *Server) newSessionID() txn.SessionID {
	s.idsMu.Lock()
	defer s.idsMu.Unlock()
	return s.ids.Next()
}

// raiseSessionIDs keeps the generator above every id that this server ever opened, though its clock may have been put back.
func (s *Server) raiseSessionIDs() {
	s.rep.mu.RLock()
	defer s.rep.mu.RUnlock()
	s.idsMu.Lock()
	defer s.idsMu.Unlock()
	if id := s.rep.machine.HighestSession(s.cfg.SelfID); id != 0 {
		s.ids.RaiseAbove(id)
	}
}
