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
	early    map[uint64]struct{} // connections without a session
	arrived  []uint64            // ids of these in the order in which they came, and of some that are not any more
}

func newRegistry(cfg Config) *registry {
	return &registry{
		maxPerAddr: cfg.MaxClientCnxns, maxConns: cfg.MaxConns, maxShaking: cfg.MaxHandshaking,
		conns: map[uint64]*conn{}, sessions: map[txn.SessionID]*conn{}, perAddr: map[netip.Addr]int{}, early: map[uint64]struct{}{},
	}
}

// add takes a connection in, or says why not. When there are too many that have not shaken hands, or too many altogether, the one that
// takes longest with it makes room: it is returned, and the caller closes it. So whoever comes gets a chance, however many others say
// nothing.
func (g *registry) add(c *conn) (evicted *conn, refused string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	addr := c.remote.Addr()
	full := g.maxConns > 0 && len(g.conns) >= g.maxConns
	switch {
	case g.maxPerAddr > 0 && addr.IsValid() && g.perAddr[addr] >= g.maxPerAddr:
		return nil, "too many connections from this address (maxClientCnxns)"
	case full && len(g.early) == 0:
		return nil, "too many connections (maxCnxns, or the limit of open files)"
	case full || len(g.early) >= g.maxShaking:
		evicted = g.conns[g.arrived[0]]
		delete(g.early, evicted.id)
	}
	g.conns[c.id] = c
	g.perAddr[addr]++
	g.early[c.id] = struct{}{}
	g.arrived = append(g.arrived, c.id)
	g.trim()
	return evicted, ""
}

// trim makes arrived begin with a connection that is early, if there is one.
func (g *registry) trim() {
	for len(g.arrived) > 0 {
		if _, ok := g.early[g.arrived[0]]; ok {
			return
		}
		g.arrived = g.arrived[1:]
	}
}

// remove forgets a connection. It may be called more than once.
func (g *registry) remove(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns[c.id] != c {
		return
	}
	delete(g.conns, c.id)
	delete(g.early, c.id)
	g.trim()
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
	delete(g.early, c.id)
	g.trim()
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
