package quorum

import (
	"time"

	"github.com/zkd-project/zkd/zab"
)

// onBallot takes p's latest notification into the election (§5.3, 2).
func (n *Node) onBallot(now zab.Instant, p *peer) {
	m := &p.last
	if m.State != zab.Looking {
		n.onSaid(now, p)
		return
	}
	p.hasSaid, p.leadingAt = false, zab.Never
	if m.Vote.Leader == p.id {
		p.own, p.hasOwn = m.Vote, true
	}
	if m.Vote.Leader == 0 && m.Round >= n.round && n.vote.Leader == p.id {
		// It does not want to lead: not votable, or leaving a role. What it said in an older round may have been overtaken by its vote
		// that came by way of others.
		n.restartRound(now)
	}
	if !p.voter || !m.Votable {
		p.voted = false // supports nobody; counts as an answer
		return
	}
	switch {
	case m.Round > n.round:
		n.openRound(m.Round)
	case m.Round < n.round:
		p.voted, p.dirty = false, true // it is behind: tell it
		return
	}
	if p.voted = m.Vote.Leader != 0; p.voted {
		p.ballot = m.Vote
		n.adopt(m.Vote)
	}
}

// adopt takes a better vote over. A vote for this server comes only from its own disk (O12, K30), one for a server whose data port is out
// of reach from nowhere.
func (n *Node) adopt(v zab.Vote) {
	if !n.votable() || !v.Better(n.vote) {
		return
	}
	if l := n.peer(v.Leader); l == nil || !l.voter || l.penalty {
		return
	}
	n.setVote(v)
}

func (n *Node) setVote(v zab.Vote) {
	n.vote, n.quorumAt = v, zab.Never
	n.tellAll()
}

// considerSelf votes for this server when it has become a candidate without having a vote: a founding began, or a ban ended.
func (n *Node) considerSelf() {
	if n.vote.Leader != 0 || !n.candidate() {
		return
	}
	n.setVote(n.local.Vote())
	n.adoptBest()
}

// adoptBest looks again at the votes of this round, after the set of candidates has grown.
func (n *Node) adoptBest() {
	for _, p := range n.peers {
		if p.voted {
			n.adopt(p.ballot)
		}
	}
}

// elect sees whether the election is over: an established leader is found or a vote has its quorum.
func (n *Node) elect(now zab.Instant) bool {
	n.checkFounding()
	n.considerSelf()
	if a, ok := n.joinable(now); ok {
		n.enter(now, a)
		return true
	}
	if !n.decided(now) {
		return false
	}
	n.enter(now, attempt{kind: elected, leader: n.vote.Leader})
	return true
}

// decided reports whether the vote is final (§5.3, 3 and §5.4).
func (n *Node) decided(now zab.Instant) bool {
	if n.vote.Leader == 0 || n.tooEarly() {
		return false
	}
	if !n.cfg.Members.Satisfied(func(id zab.ServerID) bool { return n.supports(id, n.vote.Leader, false) }) {
		n.quorumAt = zab.Never // a quorum that was there and went on: there is nothing to wait out
		// Some may have gone ahead and follow already. If it is this server whom they elected, that is as good as their vote.
		// Anybody else must say so itself (K51): joinable.
		return n.vote.Leader == n.cfg.Self &&
			n.cfg.Members.Satisfied(func(id zab.ServerID) bool { return n.supports(id, n.vote.Leader, true) })
	}
	if n.quorumAt == zab.Never {
		n.quorumAt = now
	}
	return n.complete() || now >= n.quorumAt.Add(n.finalizeWait())
}

// finalizeWait is how long a missing voter is waited for. In a founding nobody is in a hurry, and an empty voter that has not seen
// all the others yet would miss it and have to be re-admitted.
func (n *Node) finalizeWait() time.Duration {
	if n.local.Fresh {
		for _, p := range n.peers {
			if p.voter && p.connected && p.hasLast && p.last.Fresh && !p.voted {
				return n.cfg.ConnectLimit
			}
		}
	}
	return n.cfg.FinalizeWait
}

// supports reports whether id votes for leader in this round; with ahead also when it already leads or follows as this round's
// outcome and is not established.
func (n *Node) supports(id, leader zab.ServerID, ahead bool) bool {
	if id == n.cfg.Self {
		return n.vote.Leader == leader
	}
	p := n.peer(id)
	if p.voted {
		return p.ballot.Leader == leader
	}
	return ahead && p.hasSaid && p.said.Round == n.round && p.said.Leader == leader && p.said.EstablishedEpoch == 0
}

// complete reports that no missing voter could change the result (§5.4).
func (n *Node) complete() bool {
	for _, p := range n.peers {
		if p.voter && !n.answered(p) {
			return false
		}
	}
	return true
}

// answered reports that nothing is to be awaited from p in this round.
func (n *Node) answered(p *peer) bool {
	if p.voted {
		return true
	}
	if !p.connected {
		// The breaking of both its connections may reach this server in either order, so "since the election began" allows for the
		// time that a silent loss takes to be seen.
		down := p.active && p.downAt.Add(n.cfg.HbTimeout) >= n.since
		return down || p.hasOwn && !ahead(p.own, n.vote)
	}
	switch {
	case p.hasSaid: // its role, in answer to this election; one that already follows this server has voted for it
		return p.said.State == zab.Leading || n.saysLeading(p.said.Leader) ||
			n.vote.Leader == n.cfg.Self && n.supports(p.id, n.cfg.Self, true)
	case !p.hasLast || p.last.State != zab.Looking || p.last.Votable:
		return false // a votable one without a vote is about to have one
	default:
		// Not votable. An empty one may see the founding a moment after this server did.
		return !(p.last.Fresh && n.local.Hard.Current == 0)
	}
}

// saysLeading reports whether id has said in this election that it leads. Who follows somebody that does not is about to look itself.
func (n *Node) saysLeading(id zab.ServerID) bool {
	p := n.peer(id)
	return p != nil && p.hasSaid && p.said.State == zab.Leading
}

// ahead compares histories only.
func ahead(a, b zab.Vote) bool {
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Zxid > b.Zxid
}
