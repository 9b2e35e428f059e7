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
	complainMemory = 1024 // addresses remembered
)

// nag remembers who was complained about, so that a log says once a minute per address what came from it.
type nag struct {
	mu   sync.Mutex
	last map[netip.Addr]time.Duration
}

// due reports whether to complain about an address now.
func (n *nag) due(addr netip.Addr, now time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.last[addr]; ok && now-at < complainEvery {
		return false
	}
	if n.last == nil || len(n.last) >= complainMemory {
		n.last = map[netip.Addr]time.Duration{} // a flood of addresses costs some repeated lines, not memory
	}
	n.last[addr] = now
	return true
}

func (s *Server) complain(c *conn, message string, facts ...zap.Field) {
	if s.nag.due(c.remote.Addr(), s.cfg.Now()) {
		s.log.Warn(message, append(facts, zap.Stringer("addr", c.remote))...)
	}
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
