package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// stats counts what srvr, stat and mntr tell. Any goroutine may use it.
type stats struct {
	start          time.Time
	received, sent atomic.Int64
	slowReaders    atomic.Int64
	rests          atomic.Int64 // of connections between large writes
	authFailed     atomic.Int64
	refused        atomic.Int64 // connections over a limit
	strangers      atomic.Int64 // connections that did not speak the protocol

	mu       sync.Mutex
	min, max int64 // latency in milliseconds
	sum, n   int64
}

// latency notes one answered request.
func (s *stats) latency(ms int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 || ms < s.min {
		s.min = ms
	}
	s.max = max(s.max, ms)
	s.sum += ms
	s.n++
}

// instant notes n requests that took no time.
func (s *stats) instant(n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.min = 0
	s.n += n
}

func (s *stats) latencies() (least int64, mean float64, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return 0, 0, 0
	}
	return s.min, float64(s.sum) / float64(s.n), s.max
}

// reset is what srst does.
func (s *stats) reset() {
	s.received.Store(0)
	s.sent.Store(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.min, s.max, s.sum, s.n = 0, 0, 0, 0
}
