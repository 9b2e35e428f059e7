package server

import (
	"bytes"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	complainEvery  = time.Minute
	complainMemory = 1024 // subjects remembered
)

// subject is what a complaint is about.
type subject struct {
	addr netip.Addr
	what string
}

// nag remembers what was complained about, so that a log says once a minute what happens again and again.
type nag struct {
	mu   sync.Mutex
	last map[subject]time.Duration
}

// due reports whether to complain about something now.
func (n *nag) due(about subject, now time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.last[about]; ok && now-at < complainEvery {
		return false
	}
	if n.last == nil || len(n.last) >= complainMemory {
		n.last = map[subject]time.Duration{} // a flood of addresses costs some repeated lines, not memory
	}
	n.last[about] = now
	return true
}

// warn logs a message unless it did within the last minute for the same address and thing.
func (s *Server) warn(addr netip.Addr, message, thing string, facts ...zap.Field) {
	if s.nag.due(subject{addr, message + thing}, s.cfg.Now()) {
		s.log.Warn(message, facts...)
	}
}

// complain is warn about a client.
func (s *Server) complain(c *conn, message string, facts ...zap.Field) {
	s.warn(c.remote.Addr(), message, "", append(facts, zap.Stringer("addr", c.remote))...)
}

var httpMethods = []string{"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "PRI "}

// hint guesses what a stranger wanted from the first bytes.
func hint(first []byte) string {
	for _, m := range httpMethods {
		if bytes.HasPrefix(first, []byte(m)) {
			return "this is the port for ZooKeeper clients and it does not speak HTTP"
		}
	}
	if len(first) >= 2 && first[0] == 0x16 && first[1] == 0x03 {
		return "the client speaks TLS, this port does not"
	}
	return "check what connects to this port"
}
