package quorum

import "github.com/zkd-project/zkd/zab"

// onSaid records that p leads or follows, if it says so in answer to a notification of this election: what was under way before
// may be about a leader that is gone.
func (n *Node) onSaid(now zab.Instant, p *peer) {
	p.voted = false
	if p.asked == 0 || p.last.AnswerTo < p.asked {
		return
	}
	leads := p.last.State == zab.Leading && p.last.Leader == p.id && p.last.EstablishedEpoch > 0
	if !leads {
		p.leadingAt = zab.Never
	} else if !p.hasSaid || p.leadingAt == zab.Never || p.said.EstablishedEpoch != p.last.EstablishedEpoch {
		p.leadingAt = now
	}
	p.said, p.hasSaid = p.last, true
}

// joinable finds a leader that this server may follow without its own vote (§5.5, R-9). Leaders are told apart by (leader,
// establishedEpoch) and by nothing else; the leader must say itself that it leads (K34, K51).
func (n *Node) joinable(now zab.Instant) (attempt, bool) {
	var best *peer
	kind := join
	for _, l := range n.peers {
		if !l.voter || !l.hasSaid || l.penalty || l.said.State != zab.Leading || l.said.Leader != l.id {
			continue
		}
		k, ok := n.mayJoin(now, l)
		if ok && (best == nil || l.said.EstablishedEpoch > best.said.EstablishedEpoch) {
			best, kind = l, k
		}
	}
	if best == nil {
		return attempt{}, false
	}
	return attempt{kind: kind, leader: best.id}, true
}

func (n *Node) mayJoin(now zab.Instant, l *peer) (attemptKind, bool) {
	if l.said.EstablishedEpoch > 0 {
		if n.fullUntil != zab.Never {
			return join, false
		}
		return join, n.followed(l) || now >= l.leadingAt.Add(n.cfg.JoinProbe)
	}
	if !n.voter || !n.votable() {
		return join, false // only an established leader may have it
	}
	if l.said.Designated == l.id {
		return handover, true
	}
	return elected, l.said.Round == n.round &&
		n.cfg.Members.Satisfied(func(id zab.ServerID) bool { return n.supports(id, l.id, true) })
}

// followed reports whether a quorum says that it follows the established leader l.
func (n *Node) followed(l *peer) bool {
	return n.cfg.Members.Satisfied(func(id zab.ServerID) bool {
		p := n.peer(id) // nil: this server itself, which looks
		return p != nil && p.hasSaid && p.said.Leader == l.id && p.said.EstablishedEpoch == l.said.EstablishedEpoch
	})
}
