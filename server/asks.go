package server

import (
	"sync"
	"time"

	"github.com/zkd-project/zkd/zab"
)

// asks remembers which connection waits for which answer of the ensemble.
type asks struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*conn
}

func (a *asks) add(c *conn) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[uint64]*conn{}
	}
	a.last++
	a.open[a.last] = c
	return a.last
}

// take returns who asked, nil if the role has changed since.
func (a *asks) take(id uint64) *conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.open[id]
	delete(a.open, id)
	return c
}

// forget drops every question: its answer would be of an old role.
func (a *asks) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.open)
}

// askSync asks for a leadership round on behalf of c and returns its id.
func (s *Server) askSync(c *conn) uint64 {
	id := s.asks.add(c)
	s.replicator.Sync(id)
	return id
}

// askSession asks the leader for the session of c. The caller holds c.mu.
func (s *Server) askSession(c *conn) {
	s.replicator.Revalidate(zab.Revalidate{ID: s.asks.add(c), Session: c.session, TimeoutMillis: c.timeout, Held: c.state == claiming})
}

// hold is the time between two roles in which clients are kept waiting. Any goroutine may use it.
type hold struct {
	mu    sync.Mutex
	gate  chan struct{} // closed when it ends; nil while there is none
	timer *time.Timer
	open  bool // this server serves
}

// begin starts a hold; expired is called if it is not ended within d.
func (h *hold) begin(d time.Duration, expired func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = false
	gate := make(chan struct{})
	h.gate = gate
	h.timer = time.AfterFunc(d, func() {
		if h.expire(gate) {
			expired()
		}
	})
}

// expire ends the hold that gate belongs to, if it still lasts.
func (h *hold) expire(gate chan struct{}) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate != gate {
		return false
	}
	close(gate)
	h.gate = nil
	return true
}

// end ends the hold, if there is one, because this server serves or because it stops.
func (h *hold) end(serves bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = serves
	if h.gate != nil {
		h.timer.Stop()
		close(h.gate)
		h.gate = nil
	}
}

// state tells whether this server serves, and what to wait for if it may soon.
func (h *hold) state() (serves bool, gate <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open, h.gate
}

// awaitServing waits out a hold and reports whether this server serves, if only reads.
func (s *Server) awaitServing() bool {
	serves, gate := s.hold.state()
	if !serves && gate != nil {
		<-gate
		serves, _ = s.hold.state()
	}
	return serves || s.rep.isReadOnly()
}
