package quorum

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/zab"
)

// peer is what this server knows of one other member.
type peer struct {
	id    zab.ServerID
	voter bool

	// The election connection.
	connected bool
	active    bool        // it is down because nobody is there
	foreign   bool        // it is down because a member of another cluster is there
	downAt    zab.Instant // of the last MeshDown
	seq       uint64      // of the last notification told
	heard     uint64      // of the last one heard over this connection
	dirty     bool        // must be told before the Step ends

	// The latest word over this connection.
	last    zab.Notification
	hasLast bool

	// This election. asked is the Seq of the first notification told in it, 0 if none yet.
	asked     uint64
	ballot    zab.Vote // its vote in this round (recv of §5.3)
	voted     bool
	said      zab.Notification // its role, in answer to a notification of this election (out of §5.3)
	hasSaid   bool
	leadingAt zab.Instant // since when it says that it leads established; Never: it does not
	own       zab.Vote    // its vote for itself, of this election
	hasOwn    bool

	// Reachability of its data port.
	fails   int
	penalty bool
	until   zab.Instant
	probeAt zab.Instant // when to try the port again; Never: a try is under way
}

func sortPeers(ps []*peer) {
	slices.SortFunc(ps, func(a, b *peer) int { return int(a.id) - int(b.id) })
}

func (n *Node) peer(id zab.ServerID) *peer {
	for _, p := range n.peers {
		if p.id == id {
			return p
		}
	}
	return nil
}

// forget drops what p said in an election.
func (p *peer) forget() {
	p.voted, p.hasSaid, p.leadingAt = false, false, zab.Never
	p.ballot, p.said = zab.Vote{}, zab.Notification{}
}

func (n *Node) onMeshUp(id zab.ServerID) {
	p := n.peer(id)
	if p == nil {
		return
	}
	// A restarted peer counts from 1 again, and an answer to an older connection's notification must never look like a new one.
	p.connected, p.active, p.foreign, p.heard, p.hasLast, p.dirty = true, false, false, 0, false, true
}

func (n *Node) onMeshDown(now zab.Instant, ev zab.MeshDown) {
	p := n.peer(ev.Peer)
	if p == nil {
		return
	}
	was := p.connected
	p.connected, p.active, p.foreign, p.downAt, p.heard, p.hasLast, p.dirty = false, ev.Active, ev.Foreign, now, 0, false, false
	p.forget()
	n.checkCluster()
	if n.rejoin.leader == p.id {
		n.rejoin.over = true
	}
	if was && n.stage == voting && n.vote.Leader == p.id {
		n.restartRound(now) // whoever we would follow is gone
	}
	if was && ev.Active {
		n.leaderGone(p.id)
	}
}

// checkCluster ends a server that a majority calls a stranger: it has the wrong folder or the wrong list of servers, and nobody will ever
// elect it or follow it. One stranger alone is that one's mistake, and a server with a role has the majority on its side.
func (n *Node) checkCluster() {
	foreign := func(id zab.ServerID) bool {
		p := n.peer(id)
		return p != nil && p.foreign
	}
	if n.stage == inRole || n.stage == ended || !n.cfg.Members.Satisfied(foreign) {
		return
	}
	n.add(zab.Fatal{Code: zab.ExitWrongCluster, Reason: fmt.Sprintf("the servers at the addresses of %s belong to another cluster than "+
		"this data folder (%016x); check dataDir and the server lines", n.names(func(p *peer) bool { return p.foreign }), n.local.Hard.ClusterID)})
}

// onHeard takes a notification in any stage.
func (n *Node) onHeard(now zab.Instant, from zab.ServerID, m zab.Notification) {
	p := n.peer(from)
	if p == nil || n.stage == ended {
		return // not a member of this configuration
	}
	p.connected, p.active, p.heard, p.last, p.hasLast = true, false, m.Seq, m, true
	n.checkBan(now)
	n.checkRejoin(p)
	switch {
	case n.stage == inRole:
		if m.State == zab.Looking {
			p.dirty = true // tell it how things are; never change role for it
			if mutant.On("R-10") && n.core != nil && m.Round > n.round {
				n.leaveRole(now, zab.Leave{Reason: "somebody looks"})
				return
			}
		}
		n.leaderWavers(p)
		n.checkOutvoted()
	case n.stage == voting:
		n.onBallot(now, p)
	}
}

// notification is what this server says of itself now, but for Seq and AnswerTo.
func (n *Node) notification() zab.Notification {
	m := zab.Notification{
		Round: n.round, Votable: n.votable(), Fresh: n.local.Fresh, CurrentEpoch: n.local.Hard.Current,
		ConfigVersion: n.cfg.Members.Version, Unreachable: n.unreachable(), Designated: n.designated,
	}
	switch n.stage {
	case voting:
		m.Vote = n.vote
	case inRole:
		m.State, m.Leader, m.EstablishedEpoch, m.Draining = n.role, n.try.leader, n.lead, n.draining
	}
	return m
}

// tellAll marks everybody who can be told.
func (n *Node) tellAll() {
	for _, p := range n.peers {
		p.dirty = p.connected
	}
}

// tellDirty tells everybody who is marked, once.
func (n *Node) tellDirty() {
	if n.stage == ended {
		return
	}
	var m zab.Notification
	made := false
	for _, p := range n.peers {
		if !p.dirty || !p.connected {
			continue
		}
		if !made {
			m, made = n.notification(), true
		}
		p.dirty = false
		p.seq++
		if n.stage == voting && p.asked == 0 {
			p.asked = p.seq
		}
		m.Seq, m.AnswerTo = p.seq, p.heard
		n.add(zab.Tell{To: p.id, Notification: m})
	}
}
