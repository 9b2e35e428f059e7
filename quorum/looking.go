package quorum

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// rejoin is the question to a lost leader whether it still leads (§5.7).
type rejoin struct {
	leader    zab.ServerID // 0: no question is open
	epoch     txn.Epoch
	seq       uint64 // Seq of the first notification told after the loss; only an answer to it or a later one counts
	until     zab.Instant
	confirmed bool
	over      bool // it answered something else, or is gone
}

// beginLooking enters the barrier. Nothing of an earlier election is left.
func (n *Node) beginLooking(now zab.Instant, reason string) {
	n.stage, n.since, n.reason = barrier, now, reason
	n.vote, n.quorumAt, n.wait = zab.Vote{}, zab.Never, zab.Never
	n.notifyGap = n.cfg.NotifyMin
	n.notifyAt = now.Add(n.notifyGap)
	n.noteAt = now.Add(noteFirst)
	for _, p := range n.peers {
		p.forget()
		p.asked, p.hasOwn = 0, false
	}
	n.tellAll()
}

// move makes at most one step from stage to stage and reports whether it made one.
func (n *Node) move(now zab.Instant) bool {
	switch n.stage {
	case inRole:
		return n.checkTry(now)
	case ended:
		return false
	}
	if n.left.Fatal != "" {
		if now >= n.endAt {
			n.stage = ended
			n.add(zab.Fatal{Code: zab.ExitBrokenInvariant, Reason: n.left.Fatal})
		}
		return false
	}
	n.rebroadcast(now)
	n.noteWaiting(now)
	if n.stopping || n.left.Stopped {
		if n.local.Idle() {
			n.stage, n.held = ended, n.closeHeld(zab.ByeGoodbye)
			n.add(zab.Ended{})
		}
		return false
	}
	switch n.stage {
	case barrier:
		if !n.local.Idle() && !mutant.On("R-1") {
			return false
		}
		return n.afterBarrier(now)
	case asking:
		return n.askedEnough(now)
	case pause:
		if now < n.wait {
			return false
		}
		n.startVoting(now)
		return true
	case marking:
		if !n.local.Idle() {
			return false
		}
		n.becomeFollower(now, n.next)
		return true
	default:
		return n.elect(now)
	}
}

// afterBarrier chooses what comes behind the last role: a designated leader, the question to the lost one, or an election.
func (n *Node) afterBarrier(now zab.Instant) bool {
	if t := n.left.Designated; t != 0 {
		n.left.Designated = 0
		if n.followDesignated(now, t) {
			return true
		}
	}
	if n.rejoin.leader != 0 {
		n.stage, n.wait = asking, n.rejoin.until
		return true
	}
	n.pauseOrVote(now)
	return true
}

// askedEnough ends the question to the lost leader.
func (n *Node) askedEnough(now zab.Instant) bool {
	r := n.rejoin
	switch {
	case r.confirmed:
		n.rejoin = rejoin{}
		n.enter(now, attempt{kind: again, leader: r.leader})
	case r.over || now >= n.wait:
		n.rejoin = rejoin{}
		n.pauseOrVote(now)
	default:
		return false
	}
	return true
}

// ask opens the question to the leader that was just lost, if there is anybody to ask.
func (n *Node) ask(now zab.Instant, leader zab.ServerID, e txn.Epoch) {
	p := n.peer(leader)
	if p == nil || !p.connected || e == 0 || p.hasLast && !leadsIn(&p.last, p.id, e) {
		return
	}
	n.rejoin = rejoin{leader: leader, epoch: e, seq: p.seq, until: now.Add(n.cfg.FinalizeWait)}
}

// checkRejoin looks whether p has answered the question. That it led before the loss says nothing: a suspended leader keeps its
// connections, and its last words. That it leads no more needs no asking.
func (n *Node) checkRejoin(p *peer) {
	r := &n.rejoin
	switch {
	case r.leader != p.id:
	case !leadsIn(&p.last, p.id, r.epoch):
		r.over, r.confirmed = true, false
	case p.last.AnswerTo >= r.seq:
		r.confirmed = true
	}
}

// leadsIn reports whether m says that its sender id leads in epoch e.
func leadsIn(m *zab.Notification, id zab.ServerID, e txn.Epoch) bool {
	return m.State == zab.Leading && m.Leader == id && m.EstablishedEpoch == e
}

// pauseOrVote keeps failing attempts apart: a moment after the first, a gap between the starts of later ones.
func (n *Node) pauseOrVote(now zab.Instant) {
	switch {
	case n.failures == 1:
		n.wait = now.Add(n.cfg.ConnectRetry)
	case n.failures > 1:
		n.wait = n.attemptAt.Add(n.rng.around(n.cfg.ElectionGap))
	default:
		n.wait = now
	}
	if n.wait > now {
		n.stage = pause
		return
	}
	n.startVoting(now)
}

// startVoting opens a round (§5.3, 1). A round that others have already begun since is as good as a new one, and what they said in
// it is still their word: with it the election goes on without another exchange.
func (n *Node) startVoting(now zab.Instant) {
	n.stage, n.wait = voting, zab.Never
	n.elections++
	for _, p := range n.peers {
		p.asked = 0
		p.forget()
	}
	n.openRound(n.round + 1)
	n.notifyGap = n.cfg.NotifyMin
	n.notifyAt = now.Add(n.notifyGap)
	for _, p := range n.peers {
		if p.connected && p.hasLast && p.last.State == zab.Looking {
			n.onBallot(now, p)
		}
	}
}

// openRound begins round with the own vote and nobody else's.
func (n *Node) openRound(round uint64) {
	n.round, n.vote, n.quorumAt = round, zab.Vote{}, zab.Never
	if n.candidate() {
		n.vote = n.local.Vote()
	}
	for _, p := range n.peers {
		p.voted, p.ballot = false, zab.Vote{}
	}
	n.tellAll()
}

// restartRound gives up the vote of this round: whoever it names is no candidate any more.
func (n *Node) restartRound(now zab.Instant) {
	n.openRound(n.round + 1)
	n.notifyGap = n.cfg.NotifyMin
	n.notifyAt = now.Add(n.notifyGap)
}

// rebroadcast repeats what this server says while it looks, ever more slowly.
func (n *Node) rebroadcast(now zab.Instant) {
	if now < n.notifyAt {
		return
	}
	n.notifyGap = min(2*n.notifyGap, n.cfg.NotifyMax)
	n.notifyAt = now.Add(n.notifyGap)
	n.tellAll()
}

// lookingDeadline is when time alone changes something while LOOKING.
func (n *Node) lookingDeadline() zab.Instant {
	if n.left.Fatal != "" {
		return n.endAt
	}
	at := min(n.notifyAt, n.noteAt, n.wait, n.reachDeadline())
	if n.stage != voting {
		return at
	}
	if n.quorumAt != zab.Never {
		at = min(at, n.quorumAt.Add(n.finalizeWait()))
	}
	for _, p := range n.peers {
		if p.leadingAt != zab.Never && !p.penalty && n.fullUntil == zab.Never {
			at = min(at, p.leadingAt.Add(n.cfg.JoinProbe))
		}
	}
	return at
}
