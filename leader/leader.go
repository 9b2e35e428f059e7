package leader

import (
	"fmt"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// Leader is one attempt to lead and, if it succeeds, one leadership: epoch is chosen once. It is owned by whoever steps it and
// is thrown away when Leave is not nil.
type Leader struct {
	askedFor []txn.SessionID // asked for in this step: alive, whatever the tracker said before

	local  *zab.Local
	cfg    *zab.Config
	fx     *zab.Effects
	self   zab.ServerID
	voters []zab.ServerID

	now   zab.Instant // of the step that is running
	due   zab.Instant // when it wanted to be called at the latest
	phase zab.Phase
	leave *zab.Leave

	// Discovery and synchronisation.
	early     txn.Epoch // promised on entry, before a quorum has come; 0: nothing was
	epoch     txn.Epoch // 0 until chosen
	promiseID uint64    // disk operation of Ea = epoch, before that of Ea = early
	claimID   uint64    // disk operation of Ec = epoch
	told      bool      // Ea is durable, LEADERINFO may leave
	waitFrom  zab.Instant
	hopeless  map[zab.ServerID]bool // voters that cannot support this attempt any more

	// Learners, one per server: its newest connection.
	learners []*learner // ascending by id
	byConn   map[zab.ConnID]*learner
	byID     map[zab.ServerID]*learner
	acked    map[zab.ServerID]txn.Zxid // what each server acked in this epoch, over all its connections
	mustSnap map[zab.ServerID]bool     // the log could not be streamed to it last time
	rejects  map[zab.ServerID]int      // snapshots that it refused in a row

	// Broadcast.
	preparing      int // requests with the state, not answered yet
	preparingBytes int
	batches        []batch // proposed, not committed
	batchBytes     int

	gather gather
	pulse  pulse
	rounds rounds
	drain  *drain
	stuck  stuck
	doubts doubts

	parked      []parked
	parkedBytes int

	stats struct{ diff, trunc, snap uint64 }
}

// batch is records that were proposed together and are not all committed.
type batch struct {
	last  txn.Zxid
	bytes int
	at    zab.Instant
}

// New enters DISCOVERY. fx is shared with the caller: everything asked for goes there, in order.
func New(local *zab.Local, fx *zab.Effects, now zab.Instant) *Leader {
	l := &Leader{
		local: local, cfg: local.Cfg, fx: fx, self: local.Cfg.Self, voters: local.Cfg.Members.Voters(),
		now: now, phase: zab.Discovery, waitFrom: now,
		hopeless: map[zab.ServerID]bool{}, byConn: map[zab.ConnID]*learner{}, byID: map[zab.ServerID]*learner{},
		acked: map[zab.ServerID]txn.Zxid{}, mustSnap: map[zab.ServerID]bool{},
		rejects: map[zab.ServerID]int{},
	}
	l.pulse.start(now)
	l.promiseEarly()
	l.advance()
	l.due = l.Deadline()
	return l
}

// Step takes all events of one turn. DiskDone has been given to Local before.
func (l *Leader) Step(now zab.Instant, evs []zab.Event) {
	if l.leave != nil {
		return
	}
	l.now, l.askedFor = now, l.askedFor[:0]
	l.wake()
	for _, ev := range evs {
		l.on(ev)
		if l.leave != nil {
			return
		}
	}
	l.advance()
	l.due = l.Deadline()
}

// advance does what has become possible. The order matters: commits move before frames leave, so that frames carry them; deadlines come
// when everything that arrived has been looked at, and a handover behind them, because they drop learners and one of these may be
// the successor.
func (l *Leader) advance() {
	for _, step := range [...]func(){l.discover, l.establish, l.commit, l.release, l.pace, l.answer, l.streamAll, l.judge, l.checkLimits, l.drainOn} {
		step()
		if l.leave != nil {
			return
		}
	}
	l.sweep()
}

func (l *Leader) on(ev zab.Event) {
	switch ev := ev.(type) {
	case zab.Accepted:
		l.onAccepted(ev)
	case zab.Received:
		if x := l.byConn[ev.Conn]; x != nil {
			l.onFrame(x, ev)
		}
	case zab.Unread:
		if x := l.byConn[ev.Conn]; x != nil {
			x.heard = l.now
		}
	case zab.Progress:
		if x := l.byConn[ev.Conn]; x != nil {
			x.heard, l.waitFrom = l.now, l.now
		}
	case zab.ConnDown:
		if x := l.byConn[ev.Conn]; x != nil {
			l.forget(x, "connection lost")
		}
	case zab.Heard:
		l.onHeard(ev)
	case zab.MeshDown:
		if ev.Active && l.byID[ev.Peer] == nil {
			l.hopeless[ev.Peer] = true // its process is gone
		}
	case zab.MeshUp:
		delete(l.hopeless, ev.Peer)
	case zab.LogRead:
		l.onLogRead(ev)
	case zab.SnapshotSent:
		l.onSnapshotSent(ev)
	case zab.SnapshotFailed:
		if x := l.byConn[ev.Conn]; x != nil {
			l.drop(x, zab.ByeSyncGap, "snapshot could not be sent: "+ev.Reason)
		}
	case zab.Submit:
		l.admit(nil, ev.Requests)
	case zab.Prepared:
		l.onPrepared(ev)
	case zab.SyncAsked:
		l.onSync(0, ev.ID)
	case zab.RevalidateAsked:
		l.onRevalidate(0, l.self, ev.Revalidate)
	case zab.SessionState:
		l.onSessionState(ev)
	case zab.StateDigest:
		l.onStateDigest(ev)
	case zab.Touched:
		l.fx.Add(zab.TouchSessions{From: l.self, Touches: ev.Touches})
	case zab.Expired:
		l.onExpired(ev)
	case zab.Disk:
		l.onDisk(ev)
	case zab.Stop:
		l.beginDrain(0, whyStop)
	case zab.HandOver:
		l.beginDrain(ev.Target, whyOrder)
	}
	// DiskDone needs nothing: advance asks Local. Tick only brings the time.
}

// Deadline is when Step wants to be called at the latest. Every limit is a multiple of the ping interval or longer, so looking at them
// once per ping is often enough; a handover and requests that are held back are quicker.
func (l *Leader) Deadline() zab.Instant {
	d := l.pulse.next
	if l.drain != nil && l.drain.raiseID == 0 { // else it waits for the disk
		d = min(d, l.drain.until)
	}
	if l.gather.look != 0 {
		d = min(d, l.gather.look)
	}
	return d
}

// Leave is nil while in the role.
func (l *Leader) Leave() *zab.Leave { return l.leave }

// Phase tells how far the leadership has come.
func (l *Leader) Phase() zab.Phase {
	if l.drain != nil && l.phase == zab.Broadcast {
		return zab.Draining
	}
	return l.phase
}

// Established returns the epoch once NEWLEADER was acked by a quorum, 0 before.
func (l *Leader) Established() txn.Epoch {
	if l.phase < zab.Broadcast {
		return 0
	}
	return l.epoch
}

// quit ends the role: connections are closed, nothing else is said.
func (l *Leader) quit(code zab.ByeCode, leave zab.Leave) {
	if l.leave != nil {
		return
	}
	for _, x := range l.learners {
		if !x.gone {
			l.fx.Add(zab.Close{Conn: x.conn, Bye: zab.Bye{Code: code, Text: leave.Reason}})
		}
	}
	l.note(zab.Note{Message: zab.NoteStepDown, Reason: leave.Reason})
	l.leave = &leave
}

// broken reports an impossible state of our own: the process stops rather than go on with bad memory.
func (l *Leader) broken(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	h := l.local.Hist
	dump := fmt.Sprintf("leader %d phase %v epoch %d hard %+v end %+v durable %v commit %v applied %v table %v", l.self, l.phase, l.epoch,
		l.local.Hard, h.End, h.Durable, h.Commit, h.Applied, h.Table.Ends)
	for _, x := range l.learners {
		dump += "\n" + x.String()
	}
	l.fx.Add(zab.Fatal{Code: zab.ExitBrokenInvariant, Reason: reason, Dump: dump})
	l.quit(zab.ByeRole, zab.Leave{Reason: reason})
}

func (l *Leader) note(n zab.Note) {
	n.Role, n.Phase, n.Epoch = zab.Leading, l.phase, l.epoch
	l.fx.Add(n)
}

// quorum reports whether the voters for which in holds are one; own is this server's own condition.
func (l *Leader) quorum(own bool, in func(*learner) bool) bool {
	return l.cfg.Members.Satisfied(func(id zab.ServerID) bool {
		if id == l.self {
			return own
		}
		x := l.byID[id]
		return x != nil && in(x)
	})
}

// Status fills a leader's part of s.
func (l *Leader) Status(s *zab.Status) {
	s.Phase, s.Leader, s.Epoch = l.Phase(), l.self, l.Established()
	s.Pending, s.PendingBytes = l.outstanding(), int64(l.batchBytes+l.preparingBytes+l.gather.bytes)
	s.SyncDiff += l.stats.diff
	s.SyncTrunc += l.stats.trunc
	s.SyncSnap += l.stats.snap
	s.Diverged = l.doubts.oddID != 0
	if s.Epoch == 0 {
		s.Reason = "waiting for a quorum in " + l.phase.String()
	}
	for _, x := range l.learners {
		if x.gone || x.info == nil {
			continue
		}
		s.Learners = append(s.Learners, zab.LearnerStatus{ID: x.id, Observer: !x.voter, Synced: x.synced, Mode: x.mode, Match: x.match,
			LagBytes: l.lag(x), LagTxns: l.lagTxns(x), LagNanos: l.lagNanos(x), InStep: x.synced && !x.behind, Agreed: x.agreed})
		s.DigestAgreed = max(s.DigestAgreed, x.agreed)
	}
}
