package leader

import (
	"fmt"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// cursorState is where a learner's cursor stands (docs/protocol.md §17).
type cursorState uint8

const (
	cursorCompare cursorState = iota // no plan yet
	cursorFork                       // told that the histories differ; nothing follows
	cursorSnap                       // a snapshot is on its way; records follow behind it
	cursorCatchup                    // waiting for records from disk
	cursorStream                     // fed from the memory tail
	cursorPaused                     // window full
)

var cursorNames = [...]string{"compare", "fork", "snap", "catchup", "stream", "paused"}

func (c cursorState) String() string { return cursorNames[c] }

// learner is one connection of one server, from Accepted until it is gone. match <= sent; what it acked in this epoch over
// an earlier connection is not match.
type learner struct {
	id    zab.ServerID
	conn  zab.ConnID
	gone  bool
	epoch txn.Epoch // in the headers of its frames: 0 before LEADERINFO
	voter bool      // by our configuration and its own word
	info  *zab.FollowerInfo
	ack   *zab.AckEpoch
	ahead bool
	heard zab.Instant

	cursor    cursorState
	mode      string
	sent      txn.Zxid     // last record handed to the connection
	end       zab.Position // of the initial history: NEWLEADER's
	newLeader bool         // NEWLEADER was sent
	synced    bool         // and acked
	upToDate  bool         // UPTODATE was sent
	votable   bool         // as of its last ack
	readmit   bool         // a readmit record was asked for
	match     txn.Zxid
	rejected  bool // it refused to cut or to go on; a snapshot was next

	window      []sentBatch // sent and not acked
	windowBytes int
	windowCount int

	commitTold txn.Zxid // largest commit that a frame carried
	nonce      uint64   // largest that it answered
	diskLow    bool
	diskFull   bool
	behind     bool // lacks more than FallBehind, as last told

	agreed  txn.Zxid // last zxid at which its state was equal to this one's
	differs mark     // last one at which it was not
}

func (x *learner) String() string {
	return fmt.Sprintf("learner %d conn %d %v sent %v match %v end %v synced %v votable %v window %d", x.id, x.conn, x.cursor, x.sent, x.match,
		x.end.Zxid, x.synced, x.votable, x.windowBytes)
}

// trusted: a voter whose memory of its promises is intact; its word counts for liveness and discovery.
func (x *learner) trusted() bool {
	if x.info != nil && !x.voter && mutant.On("R-8") {
		return true
	}
	if x.info == nil || !x.voter {
		return false
	}
	if x.synced {
		return x.votable
	}
	return x.info.Votable
}

// promised: its ACKEPOCH counts.
func (x *learner) promised() bool {
	return x.trusted() && x.ack != nil && (x.ack.Vote || mutant.On("R-22-count")) && !x.ahead
}

// counts: it has Ec = e on disk, said so on this connection, and may be counted for commits and rounds.
func (x *learner) counts() bool {
	if mutant.On("R-8") && !x.voter {
		return x.synced
	}
	return x.voter && x.synced && (x.votable || mutant.On("X4") && x.upToDate)
}

// plan brings a learner into line, from the moment when the epoch is agreed. An observer waits for establishment: before it, the
// commit here may be behind its own (§14).
func (l *Leader) plan(x *learner) {
	if x.cursor != cursorCompare || !x.voter && l.phase < zab.Broadcast {
		return
	}
	p := MakePlan(l.planInput(x))
	if p.Mode == ModeSnap && l.doubts.contested.zxid != 0 {
		return // a copy of this state would agree with it, whatever it is worth
	}
	if p.Mode == ModeSnap && l.snapsRunning() >= l.cfg.MaxSnapSends && !(x.voter && l.phase < zab.Broadcast) {
		return // its turn comes when another one ends; voters that a quorum may need do not wait
	}
	x.mode = p.Mode.String()
	switch p.Mode {
	case ModeSnap:
		l.stats.snap++
		x.cursor = cursorSnap
		l.fx.Add(zab.SendSnapshot{Conn: x.conn, Epoch: x.epoch, Common: p.Common.Zxid, CommonKnown: p.Known})
	case ModeDiff:
		l.stats.diff++
		l.send(x, &zab.Diff{From: p.Common})
		l.startStream(x, p.Common.Zxid)
	case ModeTrunc:
		l.stats.trunc++
		l.send(x, &zab.Trunc{To: p.Common})
		l.startStream(x, p.Common.Zxid)
	case ModeFork:
		// The header carries the chain of this side, so the learner sees for itself and stops with its files untouched.
		l.note(zab.Note{Level: zab.Alarm, Message: zab.NoteRefused, Peer: x.id, Zxid: p.Common.Zxid, Reason: "its history differs from this one"})
		l.send(x, &zab.Diff{From: p.Common})
		x.cursor = cursorFork
		return
	case ModeStuck:
		l.note(zab.Note{Level: zab.Alarm, Message: zab.NoteRefused, Peer: x.id, Zxid: x.ack.Last.Zxid, Reason: "nothing here reaches its history"})
		l.drop(x, zab.ByeSyncGap, "no snapshot and no log reach your history")
		return
	}
	size := l.local.Hist.SnapSize
	if p.Mode != ModeSnap {
		size = l.bytesBehind(p.Common.Zxid)
	}
	l.note(zab.Note{Message: zab.NoteSyncStart, Peer: x.id, Zxid: p.Common.Zxid, Mode: x.mode, Bytes: size,
		Records: l.local.Hist.Table.Between(p.Common.Zxid, l.local.Hist.End.Zxid)})
}

func (l *Leader) planInput(x *learner) *PlanInput {
	h := l.local.Hist
	in := &PlanInput{MustSnap: x.rejected || l.mustSnap[x.id], DiffMinBytes: l.cfg.DiffMinBytes, DiffMaxRatio: l.cfg.DiffMaxRatio}
	in.Leader.Table, in.Leader.Base, in.Leader.End = h.Table, h.Base.Zxid, h.End.Zxid
	in.Leader.TailStart, in.Leader.Snapshot, in.Leader.SnapSize = h.TailStart().Zxid, h.Snapshot.Zxid, h.SnapSize
	in.Leader.ChainAt, in.Leader.Bytes = h.ChainAt, l.bytesBehind
	in.Learner.Table, in.Learner.Last, in.Learner.MinRestorable = x.ack.Table, x.ack.Last.Zxid, x.ack.MinRestorable
	return in
}

// onSyncReject: the learner cannot do that, so a snapshot is tried. Who refuses that one has to come again; the snapshot may be
// newer by then.
func (l *Leader) onSyncReject(x *learner, r *zab.SyncReject) {
	if x.ack == nil || x.newLeader && x.synced {
		l.drop(x, zab.ByeProtocol, "SYNCREJECT out of place")
		return
	}
	l.note(zab.Note{Level: zab.Warn, Message: zab.NoteRefused, Peer: x.id, Zxid: r.Last.Zxid, Mode: x.mode, Reason: r.Reason})
	if x.mode == ModeSnap.String() {
		if l.rejects[x.id]++; l.rejects[x.id] > 1 {
			l.note(zab.Note{Level: zab.Alarm, Message: zab.NoteLearnerGone, Peer: x.id, Reason: "it refuses every snapshot"})
		}
		l.drop(x, zab.ByeSyncGap, "snapshot refused")
		return
	}
	x.rejected = true
	x.cursor, x.sent, x.end, x.newLeader = cursorCompare, 0, zab.Position{}, false
	x.window, x.windowBytes, x.windowCount = nil, 0, 0
	x.ack.Last, x.ack.MinRestorable = r.Last, r.MinRestorable
	l.plan(x)
}

func (l *Leader) snapsRunning() (n int) {
	for _, x := range l.learners {
		if !x.gone && x.cursor == cursorSnap {
			n++
		}
	}
	return n
}
