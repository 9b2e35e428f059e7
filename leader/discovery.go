package leader

import (
	"fmt"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// discover goes as far through discovery as the disk and the learners allow.
func (l *Leader) discover() {
	if l.epoch == 0 {
		l.chooseEpoch()
	}
	if l.epoch != 0 && !l.told && (l.local.IsDone(l.promiseID) || mutant.On("O1")) { // O1
		l.told = true
		for _, x := range l.learners {
			l.tellEpoch(x)
		}
	}
	if l.told && l.phase == zab.Discovery && l.quorum(true, (*learner).promised) {
		l.becomeSynchronizing()
	}
	if l.phase < zab.Broadcast && !l.possible() {
		l.quit(zab.ByeRole, zab.Leave{Reason: "a quorum has become impossible"})
	}
}

// promiseEarly writes Ea = Ec+1 while the supporters are still on their way: as a rule that is the epoch (ADR 0017). Only where nothing above Ec is
// promised: Ec was claimed because a quorum had promised it, so whatever is established later is at least Ec+1, and an attempt that fails
// leaves nothing behind that keeps this server from following it.
func (l *Leader) promiseEarly() {
	h := l.local.Hard
	if h.Accepted != h.Current || h.ClusterID == 0 || h.Recovering || h.Accepted >= txn.MaxEpoch || mutant.On("R-20") {
		return
	}
	l.early = h.Accepted + 1
	l.promise(l.early)
}

func (l *Leader) promise(e txn.Epoch) {
	h := l.local.Hard
	h.Accepted, h.AcceptedLeader = e, l.self
	if h.ClusterID == 0 {
		h.ClusterID = l.cfg.ClusterID
	}
	l.promiseID = l.local.SaveHard(l.now, h)
}

// chooseEpoch waits for a quorum of FOLLOWERINFO and goes one above everything that any voter has promised. A voter
// that does not count may still push the number up: that is harmless, and it could not follow otherwise.
func (l *Leader) chooseEpoch() {
	if !l.quorum(true, (*learner).trusted) {
		return
	}
	top := l.local.Hard.Accepted
	if l.early != 0 {
		top = l.early - 1
	}
	for _, x := range l.learners {
		if !x.gone && x.voter {
			top = max(top, x.info.Accepted)
		}
	}
	if top >= txn.MaxEpoch {
		l.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("epoch %d is the last there can be", top)})
		return
	}
	l.epoch = top + 1
	if mutant.On("R-20") {
		l.epoch = max(top, 1)
	}
	if l.epoch != l.early {
		l.promise(l.epoch)
	}
	l.waitFrom = l.now
}

func (l *Leader) onFollowerInfo(x *learner, info *zab.FollowerInfo) {
	if info.Accepted > txn.MaxEpoch || info.Current > info.Accepted && !info.Observer {
		l.drop(x, zab.ByeProtocol, "epochs make no sense")
		return
	}
	x.info = info
	x.voter = !info.Observer && l.cfg.Members.Voter(x.id)
	if x.trusted() {
		l.pulse.heard[x.id] = l.now
		if l.epoch != 0 && info.Current > l.epoch { // L4
			l.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("server %d has history of epoch %d", x.id, info.Current)})
			return
		}
	}
	delete(l.hopeless, x.id)
	if l.told && !(mutant.On("R-24") && l.phase > zab.Discovery) {
		l.tellEpoch(x)
	}
}

// tellEpoch sends LEADERINFO, once per connection, as soon as both sides are ready. Late joiners get the same epoch for ever.
func (l *Leader) tellEpoch(x *learner) {
	if x.gone || x.info == nil || x.epoch != 0 {
		return
	}
	x.epoch = l.epoch
	l.send(x, &zab.LeaderInfo{Epoch: l.epoch, ConfigVersion: l.cfg.Members.Version, ClusterID: l.local.Hard.ClusterID})
}

func (l *Leader) onAckEpoch(x *learner, a *zab.AckEpoch) {
	if x.epoch == 0 || a.Epoch != l.epoch || x.ack != nil || !sane(a) {
		l.drop(x, zab.ByeProtocol, "ACKEPOCH does not fit")
		return
	}
	if before := l.acked[x.id]; x.info.Votable && a.Last.Zxid < before {
		l.note(zab.Note{Level: zab.Alarm, Message: zab.NoteRefused, Peer: x.id, Zxid: a.Last.Zxid, Reason: fmt.Sprintf("it acked %v before", before)})
		l.drop(x, zab.ByeLostAcked, fmt.Sprintf("acked %v, now ends at %v", before, a.Last.Zxid))
		return
	}
	x.ack = a
	if l.phase == zab.Discovery {
		x.ahead = l.isAhead(a)
		if x.ahead && mutant.On("X7") {
			l.quit(zab.ByeRole, zab.Leave{Reason: "somebody is ahead"})
		}
		return
	}
	l.plan(x)
}

// sane checks a table from outside: ascending, and ending where the history ends.
func sane(a *zab.AckEpoch) bool {
	var last zab.EpochEnd
	for _, e := range a.Table.Ends {
		if e.Epoch <= last.Epoch || e.Last.Epoch() != e.Epoch || e.Last.Counter() == 0 {
			return false
		}
		last = e
	}
	return last.Last == a.Last.Zxid && last.Chain == a.Last.Chain
}

// isAhead: whoever has accepted a newer history, or more of the same, cannot be counted by this leader: what it has beyond might be
// committed. Nobody who is counted is ahead, and that is all that completeness needs.
func (l *Leader) isAhead(a *zab.AckEpoch) bool {
	if mutant.On("R-71") || mutant.On("K31") {
		return false
	}
	own := l.local.Hard.Current
	return a.Current > own || a.Current == own && a.Last.Zxid > l.local.Hist.Durable
}

// possible reports whether a quorum can still come together: R-23 before the epoch is agreed and R-71 while it is.
func (l *Leader) possible() bool {
	return l.cfg.Members.Satisfied(func(id zab.ServerID) bool {
		if id == l.self {
			return true
		}
		x := l.byID[id]
		ahead := x != nil && x.ahead && l.phase == zab.Discovery
		return !l.hopeless[id] && !ahead
	})
}

// onHeard looks at notifications for two things only: a supporter that gave up, and proof of a newer leadership (L4).
func (l *Leader) onHeard(ev zab.Heard) {
	n := &ev.Notification
	if !l.cfg.Members.Voter(ev.From) {
		return
	}
	if l.epoch != 0 && (n.EstablishedEpoch > l.epoch || n.Votable && n.CurrentEpoch > l.epoch) {
		l.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("server %d knows of epoch %d", ev.From, max(n.EstablishedEpoch, n.CurrentEpoch))})
		return
	}
	// A notification that still votes for this server may have been overtaken by FOLLOWERINFO: no order holds across connections.
	x := l.byID[ev.From]
	switch {
	case l.phase == zab.Broadcast:
	case n.Vote.Leader == l.self || n.Leader == l.self:
		delete(l.hopeless, ev.From)
	case n.State == zab.Looking && x != nil && x.info != nil:
		l.hopeless[ev.From] = true
	}
}

// becomeSynchronizing: a quorum has promised this epoch to this leader, which is at least as good as each of them. Ec is written while
// records may already flow; NEWLEADER waits for it (O3).
func (l *Leader) becomeSynchronizing() {
	h := l.local.Hard
	if h.Accepted != l.epoch || h.AcceptedLeader != l.self {
		l.broken("hard state says %+v at the end of discovery of epoch %d", h, l.epoch)
		return
	}
	l.phase, l.waitFrom = zab.Synchronization, l.now
	h.Current = l.epoch
	l.claimID = l.local.SaveHard(l.now, h)
	for _, x := range l.learners {
		if !x.gone && x.ack != nil {
			l.plan(x)
		}
	}
}

// claimed: Ec = e is durable, and with it everything before it on the disk: the whole history (O3).
func (l *Leader) claimed() bool { return l.claimID != 0 && l.local.IsDone(l.claimID) }
