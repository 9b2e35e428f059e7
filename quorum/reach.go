package quorum

import (
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/zab"
)

// fullWait is how long a server whose disk is full stays away from an established leader that it had to leave for it, unless there is
// space before: the leader may have stopped sending.
const fullWait = 10 * time.Second

// unreachableAfter is how many failed attempts in a row make a candidate unreachable.
const unreachableAfter = 2

// unreachable lists the servers whose data port this one cannot reach.
func (n *Node) unreachable() []zab.ServerID {
	var ids []zab.ServerID
	for _, p := range n.peers {
		if p.penalty {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// countUnreachable notes that an attempt to follow id ended because its data port could not be reached.
func (n *Node) countUnreachable(now zab.Instant, id zab.ServerID) {
	p := n.peer(id)
	if p == nil || mutant.On("R-12") {
		return
	}
	p.fails++
	if p.fails >= unreachableAfter {
		p.penalty, p.until, p.probeAt = true, now.Add(n.cfg.Penalty), now.Add(n.cfg.ConnectRetry)
	}
}

// lift makes p a candidate again.
func (n *Node) lift(p *peer) {
	p.fails, p.probeAt = 0, zab.Never
	if !p.penalty {
		return
	}
	p.penalty = false
	n.tellAll()
	if n.stage == voting {
		n.adoptBest()
	}
}

// reachTimers ends penalties, and tries the data ports of those that are left out, one at a time and only while LOOKING: there is one
// connection to a leader, and a role needs it.
func (n *Node) reachTimers(now zab.Instant) {
	if now >= n.fullUntil {
		n.fullUntil = zab.Never
	}
	if n.ban && now >= n.banUntil {
		n.ban = false
		n.checkBan(now)
	}
	var next *peer
	for _, p := range n.peers {
		switch {
		case !p.penalty:
		case now >= p.until:
			n.lift(p)
		case p.probeAt <= now && (next == nil || p.probeAt < next.probeAt):
			next = p
		}
	}
	if next == nil || n.stage >= inRole || n.probing() {
		return
	}
	next.probeAt = zab.Never
	n.add(zab.Dial{Peer: next.id})
}

// probing reports whether a try is under way.
func (n *Node) probing() bool {
	return slices.ContainsFunc(n.peers, func(p *peer) bool { return p.penalty && p.probeAt == zab.Never })
}

func (n *Node) reachDeadline() zab.Instant {
	at := n.fullUntil
	probing := n.probing()
	for _, p := range n.peers {
		if p.penalty {
			at = min(at, p.until)
			if !probing {
				at = min(at, p.probeAt)
			}
		}
	}
	if n.stage == voting && n.vote.Leader == 0 && n.ban {
		at = min(at, n.banUntil)
	}
	return at
}

// follows reports whether the role core is the one that dialled id.
func (n *Node) follows(id zab.ServerID) bool {
	return n.core != nil && n.role != zab.Leading && n.try.leader == id
}

func (n *Node) onDialed(ev zab.Dialed) bool {
	if p := n.peer(ev.Peer); p != nil {
		n.lift(p)
	}
	if n.follows(ev.Peer) {
		n.try.conn = ev.Conn
		return true
	}
	n.add(zab.Close{Conn: ev.Conn, Bye: zab.Bye{Code: zab.ByeRole}})
	return false
}

func (n *Node) onDialFailed(now zab.Instant, ev zab.DialFailed) bool {
	if n.follows(ev.Peer) {
		return true
	}
	if p := n.peer(ev.Peer); p != nil && p.penalty {
		p.probeAt = now.Add(n.cfg.ConnectMax)
	}
	return false
}

// checkBan withdraws this server's candidacy for a while when a quorum says that it cannot reach it.
func (n *Node) checkBan(now zab.Instant) {
	if !n.voter || n.ban {
		return
	}
	n.ban = n.cfg.Members.Satisfied(func(id zab.ServerID) bool {
		p := n.peer(id)
		return p != nil && p.connected && p.hasLast && slices.Contains(p.last.Unreachable, n.cfg.Self)
	})
	if !n.ban {
		return
	}
	n.banUntil = now.Add(n.cfg.Penalty)
	if n.stage == voting && n.vote.Leader == n.cfg.Self {
		n.restartRound(now)
	}
}
