package quorum

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/zab"
)

// attemptKind is how a role was chosen.
type attemptKind uint8

const (
	elected  attemptKind = iota
	join                 // an established leader was found (§5.5)
	again                // fast rejoin (§5.7)
	handover             // designated by the last leader (§16.1)
)

var attemptNames = [...]string{"elected", "joined an established ensemble", "rejoined", "handover"}

func (k attemptKind) String() string { return attemptNames[k] }

// attempt is one entry into a role.
type attempt struct {
	kind   attemptKind
	leader zab.ServerID
	until  zab.Instant // when it must have come past discovery; Never: the core's own limits are enough
	conn   zab.ConnID  // newest connection to the leader, 0 if none

	learners []zab.ConnID // connections that a leader core has been given, while it is in discovery
}

// enter takes a role. An empty voter that no founding covers first writes down that it is recovering.
func (n *Node) enter(now zab.Instant, a attempt) {
	switch {
	case a.leader == n.cfg.Self:
		n.becomeLeader(now, a)
	case n.mustMark():
		n.mark(now, a)
	default:
		n.becomeFollower(now, a)
	}
}

func (n *Node) becomeLeader(now zab.Instant, a attempt) {
	a.until = zab.Never
	n.becomeRole(now, zab.Leading, a)
	n.core = n.cores.leader(n.local, n.fx, now)
	evs := n.releaseHeld()
	n.keepLearners(evs)
	n.runCore(now, evs)
}

func (n *Node) becomeFollower(now zab.Instant, a attempt) {
	switch a.kind {
	case again:
		a.until = now.Add(n.cfg.JoinProbe)
	case handover:
		a.until = now.Add(n.cfg.HandoverGrace)
	default:
		a.until = zab.Never
	}
	role := zab.Following
	if !n.voter {
		role = zab.Observing
	}
	n.becomeRole(now, role, a)
	n.held = n.closeHeld(zab.ByeNotLeader)
	n.core = n.cores.follower(n.local, n.fx, a.leader, !n.voter, now)
	n.runCore(now, nil)
}

// becomeRole sets what both roles have in common.
func (n *Node) becomeRole(now zab.Instant, role zab.Role, a attempt) {
	n.stage, n.role, n.try, n.attemptAt = inRole, role, a, now
	n.lead, n.draining, n.beenUp, n.served, n.giveUp = 0, false, false, false, ""
	n.left, n.rejoin = zab.Leave{}, rejoin{}
	n.notifyAt, n.noteAt, n.wait, n.quorumAt = zab.Never, zab.Never, zab.Never, zab.Never
	for _, p := range n.peers {
		if p.penalty && p.probeAt == zab.Never {
			p.probeAt = now // the role's own dial may have ended the try without an answer
		}
	}
	n.add(zab.Note{Message: zab.NoteRole, Role: role, Phase: zab.Discovery, Peer: a.leader,
		Epoch: n.local.Hard.Current, Zxid: n.local.Hist.Durable, Reason: a.kind.String()})
	n.tellAll()
}

// runCore gives the role core its events and looks at what became of it.
func (n *Node) runCore(now zab.Instant, evs []zab.Event) {
	n.core.Step(now, evs)
	n.flush(now)
	if leave := n.core.Leave(); leave != nil {
		if n.role == zab.Leading {
			n.closeAccepted(evs)
		}
		n.leaveRole(now, *leave)
		return
	}
	lead, draining := n.core.Established(), n.core.Phase() == zab.Draining
	if lead != n.lead || draining != n.draining {
		n.lead, n.draining = lead, draining
		n.tellAll()
	}
	if n.core.Phase() > zab.Discovery {
		n.try.learners = nil
	}
	if lead != 0 && !n.beenUp {
		n.beenUp, n.failures, n.designated = true, 0, 0
	}
}

// leaveRole ends the role: LOOKING without a vote from here on, clients frozen, nothing new for the disk.
func (n *Node) leaveRole(now zab.Instant, leave zab.Leave) {
	n.keepTotals()
	leader, epoch, up, kind, role := n.try.leader, n.lead, n.beenUp, n.try.kind, n.role
	n.core, n.left, n.giveUp = nil, leave, ""
	n.handed = n.handed || role == zab.Leading && leave.Designated != 0
	n.lead, n.draining = 0, false
	if !up && (kind == elected || kind == join) {
		n.failures++
	}
	if leave.Unreachable {
		n.countUnreachable(now, leader)
	}
	if leave.Full {
		// A leader that needs this server for its quorum is elected again, but not in circles.
		n.fullUntil, n.failures = now.Add(fullWait), max(n.failures, 1)+1
	}
	n.beginLooking(now, leave.Reason)
	n.endAt = now.Add(n.cfg.HbInterval)
	n.tellDirty()
	if leave.Lost && leave.Designated == 0 {
		n.ask(now, leader, epoch)
	}
	if n.served && !mutant.On("R-2") {
		n.served, n.lost, n.lostAt = false, true, now
		n.add(zab.Freeze{Reason: leave.Reason})
	}
	if role == zab.Leading && !mutant.On("K66") {
		n.add(zab.Abandon{})
	}
	level := zab.Info
	if leave.Designated == 0 && !leave.Stopped && (leave.Lost || role == zab.Leading) {
		level = zab.Warn // nobody has planned it
	}
	n.add(zab.Note{Level: level, Message: zab.NoteRole, Role: zab.Looking, Peer: leader, Epoch: epoch, Zxid: n.local.Hist.Durable,
		Reason: leave.Reason})
}

// followDesignated takes a handover's word for who leads next, for one attempt and no longer than its grace.
func (n *Node) followDesignated(now zab.Instant, t zab.ServerID) bool {
	if !n.cfg.Members.Voter(t) {
		return false
	}
	if p := n.peer(t); t != n.cfg.Self && (p == nil || !p.connected || p.penalty) || t == n.cfg.Self && !n.candidate() {
		return false
	}
	n.round++
	n.designated, n.graceEnd = t, now.Add(n.cfg.HandoverGrace)
	n.enter(now, attempt{kind: handover, leader: t})
	return true
}

func (n *Node) expireGrace(now zab.Instant) {
	if n.designated != 0 && now >= n.graceEnd {
		n.designated = 0
	}
}

// discovering reports whether this server follows somebody who has not shown that it leads.
func (n *Node) discovering() bool {
	return n.core != nil && n.role != zab.Leading && n.core.Phase() <= zab.Discovery
}

// checkTry abandons an attempt that has come to nothing. It reports whether it did.
func (n *Node) checkTry(now zab.Instant) bool {
	if n.giveUp == "" && now >= n.try.until {
		p := n.peer(n.try.leader)
		opened := n.try.kind == handover && p != nil && p.hasLast && p.last.State == zab.Leading
		n.try.until = zab.Never
		if !opened {
			n.giveUp = "no answer in time from the leader that was expected"
		}
	}
	if n.giveUp == "" {
		return false
	}
	if n.core.Phase() > zab.Discovery {
		n.giveUp = ""
		return false
	}
	if n.try.conn != 0 {
		n.add(zab.Close{Conn: n.try.conn, Bye: zab.Bye{Code: zab.ByeRole}})
	}
	for _, c := range n.try.learners {
		n.add(zab.Close{Conn: c, Bye: zab.Bye{Code: zab.ByeRole}})
	}
	n.leaveRole(now, zab.Leave{Reason: n.giveUp})
	return true
}

// leaderWavers sees that the server which was to lead does not: no need to wait until its port stays silent for too long (K35).
func (n *Node) leaderWavers(p *peer) {
	if !n.discovering() || p.id != n.try.leader {
		return
	}
	m := &p.last
	switch n.try.kind {
	case elected:
		if m.Round < n.round || m.State == zab.Leading || m.State == zab.Looking && m.Vote.Leader == p.id && m.Round == n.round {
			return
		}
	case join, again:
		if m.State == zab.Leading {
			return
		}
	case handover:
		return // it may still be busy with its barrier
	}
	n.giveUp = "the server that was to lead does not"
}

// checkOutvoted sees that the voters turned to somebody else right behind this server's election, so that nobody will come (K35). Those that have
// come already are the leader core's business. After a handover the others need a moment to hear of it.
func (n *Node) checkOutvoted() {
	if n.role != zab.Leading || n.try.kind == handover || n.core.Phase() > zab.Discovery {
		return
	}
	if n.cfg.Members.Satisfied(func(id zab.ServerID) bool { return id != n.cfg.Self && n.turnedAway(n.peer(id)) }) {
		n.giveUp = "a quorum turned to another server"
	}
}

// turnedAway reports that p's latest word excludes that it supports this server's leadership. Within a round votes only get better.
func (n *Node) turnedAway(p *peer) bool {
	m := &p.last
	switch {
	case !p.connected || !p.hasLast:
		return false
	case m.State != zab.Looking:
		return m.Leader != n.cfg.Self
	case m.Vote.Leader == 0:
		return false
	default:
		return m.Round > n.round || m.Round == n.round && m.Vote.Leader != n.cfg.Self && m.Vote.Better(n.vote)
	}
}

// keepLearners remembers which connections to close if this server is outvoted.
func (n *Node) keepLearners(evs []zab.Event) {
	for _, ev := range evs {
		if a, ok := ev.(zab.Accepted); ok {
			n.try.learners = append(n.try.learners, a.Conn)
		}
	}
}

// leaderGone sees that the process of the server which was to lead is not there.
func (n *Node) leaderGone(id zab.ServerID) {
	if n.discovering() && id == n.try.leader {
		n.giveUp = "the server that was to lead is gone"
	}
}
