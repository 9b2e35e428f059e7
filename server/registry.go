package server

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/txn"
)

// registry knows the connections of this server.
type registry struct {
	maxPerAddr, maxConns, maxShaking int

	mu       sync.Mutex
	conns    map[uint64]*conn
	sessions map[txn.SessionID]*conn
	perAddr  map[netip.Addr]int
}

func newRegistry(cfg Config) *registry {
	return &registry{
		maxPerAddr: cfg.MaxClientCnxns, maxConns: cfg.MaxConns, maxShaking: cfg.MaxHandshaking,
		conns: map[uint64]*conn{}, sessions: map[txn.SessionID]*conn{}, perAddr: map[netip.Addr]int{},
	}
}

// add takes a connection in, or says why not.
func (g *registry) add(c *conn) (refused string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	addr := c.remote.Addr()
	switch {
	case g.maxPerAddr > 0 && addr.IsValid() && g.perAddr[addr] >= g.maxPerAddr:
		return "too many connections from this address (maxClientCnxns)"
	case g.maxConns > 0 && len(g.conns) >= g.maxConns:
		return "too many connections (maxCnxns, or the limit of open files)"
	case len(g.conns)-len(g.sessions) >= g.maxShaking:
		return "too many connections that have not shaken hands"
	}
	g.conns[c.id] = c
	g.perAddr[addr]++
	return ""
}

// remove forgets a connection. It may be called more than once.
func (g *registry) remove(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns[c.id] != c {
		return
	}
	delete(g.conns, c.id)
	if g.sessions[c.session] == c {
		delete(g.sessions, c.session)
	}
	addr := c.remote.Addr()
	if g.perAddr[addr]--; g.perAddr[addr] == 0 {
		delete(g.perAddr, addr)
	}
}

// attach makes c the connection of its session and returns the one that was.
func (g *registry) attach(c *conn) (old *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns[c.id] != c {
		return nil // closed meanwhile
	}
	old = g.sessions[c.session]
	g.sessions[c.session] = c
	return old
}

func (g *registry) byConn(id uint64) *conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns[id]
}

func (g *registry) bySession(id txn.SessionID) *conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sessions[id]
}

// all returns every connection.
func (g *registry) all() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.conns))
}

// sorted returns every connection in the order in which they came.
func (g *registry) sorted() []*conn { return inOrder(g.all()) }

func inOrder(conns []*conn) []*conn {
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return conns
}

// attached returns the connections that have a session.
func (g *registry) attached() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.sessions))
}

// counts returns how many connections there are, and how many of them have a session.
func (g *registry) counts() (conns, attached int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns), len(g.sessions)
}
