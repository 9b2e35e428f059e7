package quorum

import (
	"fmt"
	"strings"
	"time"

	"github.com/zkd-project/zkd/zab"
)

const (
	noteFirst = time.Second      // LOOKING for so long is worth a word
	noteEvery = 10 * time.Second // and then again
)

// votable reports whether this server's memory of its promises is intact (§18.5). A founding makes an empty one votable by
// vouching for it: checkFounding.
func (n *Node) votable() bool { return n.voter && n.local.Votable() }

// candidate reports whether this server may vote for itself now.
func (n *Node) candidate() bool { return n.votable() && !n.ban }

// checkFounding vouches for an empty voter when every voter is connected and can hold nobody's promise: it looks and has never been part
// of an established ensemble, or it has promised nothing itself. Once seen it holds for the life of the process: this server has promised nothing yet and forgets nothing from here on, and nobody
// can hold a promise of what its directory was before (each word comes over a connection with this process).
func (n *Node) checkFounding() {
	l := n.local
	if !n.voter || !l.Fresh || n.founding || l.Hard.Recovering {
		return
	}
	for _, p := range n.peers {
		if p.voter && !founder(p) {
			return
		}
	}
	n.founding = true
	if !l.Vouched {
		l.Vouched = true
		n.tellAll()
	}
}

// tooEarly: an empty server that the operator vouches for may elect whoever has a history, but it founds nothing while a voter is
// missing: that one may be the server with the data, from which the ensemble is to grow.
func (n *Node) tooEarly() bool {
	return n.local.Fresh && !n.founding && n.vote.Epoch == 0 && n.vote.Zxid == 0
}

// founder: an empty member counts in every state. The election may be over before its LOOKING was heard, since only the latest word
// of a peer is kept; and a would-be leader asks nobody for a promise before its own is stored, when it is empty no longer (O1).
func founder(p *peer) bool {
	m := &p.last
	return p.connected && p.hasLast && m.CurrentEpoch == 0 && (m.Fresh || m.Votable && m.State == zab.Looking)
}

// mustMark reports that this server has to write down that it is recovering before it follows anybody (O14).
func (n *Node) mustMark() bool {
	return n.voter && n.local.Fresh && !n.local.Vouched && !n.local.Hard.Recovering
}

// mark writes it down.
func (n *Node) mark(now zab.Instant, next attempt) {
	h := n.local.Hard
	h.Recovering = true
	for h.RecoveryID = 0; h.RecoveryID == 0; {
		// ClusterID is drawn anew by the shell at each start, so two wipes of one server get two ids whatever the seed is.
		mix := newRandom(n.rng.next() ^ n.cfg.ClusterID)
		h.RecoveryID = mix.next()
	}
	n.local.SaveHard(now, h)
	n.stage, n.next = marking, next
	n.add(zab.Note{Level: zab.Warn, Message: zab.NoteRecovering, Peer: next.leader,
		Reason: "empty data directory in an ensemble that exists: it counts again when the leader has re-admitted it"})
}

// noteWaiting tells the operator at intervals for whom this server waits and what can be done. Nobody is served meanwhile, so it is a warning.
func (n *Node) noteWaiting(now zab.Instant) {
	if now < n.noteAt {
		return
	}
	n.noteAt = now.Add(noteEvery)
	n.add(zab.Note{Level: zab.Warn, Message: zab.NoteWaiting, Role: zab.Looking, Epoch: n.local.Hard.Current,
		Zxid: n.local.Hist.Durable, Reason: n.waitingFor()})
}

func (n *Node) waitingFor() string {
	switch {
	case n.stage == barrier || n.stage == marking:
		return "this server's own disk has not finished what it was asked"
	case n.fullUntil != zab.Never:
		return "this server's disk is full; it follows again when there is space"
	case !n.voter:
		return "no established leader known; not connected: " + n.names(func(p *peer) bool { return !p.connected })
	case n.local.Hard.Recovering:
		return "this server may have lost what it promised and does not vote; it waits for a leader that the others establish; " +
			"not connected: " + n.names(func(p *peer) bool { return !p.connected })
	case n.local.Fresh && !n.local.Vouched:
		return "the data directory is empty; to found an ensemble every voter must be connected and without a history; not connected: " +
			n.names(func(p *peer) bool { return !p.connected }) + "; with a history, or not heard yet: " +
			n.names(func(p *peer) bool { return p.connected && !founder(p) }) + "; start those that are missing, or, if this " +
			"server certainly never took part, restart it with a file named initialize in dataDir"
	case n.local.Fresh && !n.founding:
		return "the data directory is empty, as the operator said; nothing is founded before every voter is there, since a missing one may " +
			"hold the data: start " + n.names(func(p *peer) bool { return !founder(p) })
	default:
		return "no quorum for one vote; not connected: " + n.names(func(p *peer) bool { return !p.connected })
	}
}

// names lists the voters for which f holds.
func (n *Node) names(f func(*peer) bool) string {
	var ids []string
	for _, p := range n.peers {
		if p.voter && f(p) {
			ids = append(ids, fmt.Sprintf("server %d", p.id))
		}
	}
	if ids == nil {
		return "none"
	}
	return strings.Join(ids, ", ")
}
