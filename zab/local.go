package zab

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// Local is what one server knows of itself: promises, history, and the disk operations on their way. quorum makes one and lends it to
// the leader or follower of the moment; only the core that is being stepped touches it.
//
// Disk operations complete in the order in which they were asked for. Their consequences in memory come with the completion, never
// earlier: Hard changes when the write is done, History.Durable when the fsync is (Done is an event).
type Local struct {
	Cfg  *Config
	Hard HardState
	Hist *History
	// Fresh: the directory was empty at start and nothing was promised since.
	Fresh bool
	// Vouched: the operator says that this empty member may vote.
	Vouched     bool
	Initialized bool
	DiskLow     bool
	DiskFull    bool

	reepoched   bool
	reepochedAt Instant

	fx      *Effects
	lastID  uint64
	doneID  uint64
	pending []pendingOp
}

type pendingOp struct {
	id      uint64
	kind    opKind
	asked   Instant
	hard    HardState
	durable txn.Zxid
	snap    SnapBegin
}

type opKind uint8

const (
	opAppend opKind = iota
	opHard
	opTruncate
	opInstall
	opInitialize
)

// NewLocal puts recovered state together; fx is where the effects go.
func NewLocal(cfg *Config, hard HardState, hist *History, fx *Effects) *Local {
	return &Local{Cfg: cfg, Hard: hard, Hist: hist, fx: fx}
}

// Votable reports whether this server's promises are intact and it may vote and be counted. A fresh voter is votable only
// in a founding, which quorum decides.
func (l *Local) Votable() bool { return !l.Hard.Recovering && (!l.Fresh || l.Vouched) }

// Vote is the vote for oneself: what the disk holds (O12).
func (l *Local) Vote() Vote {
	v := Vote{Leader: l.Cfg.Self, Epoch: l.Hard.Current, Zxid: l.Hist.Durable, DiskLow: l.DiskLow}
	if mutant.On("O12") {
		v.Zxid = max(v.Zxid, txn.MakeZxid(l.Hard.Accepted, 0))
	}
	if mutant.On("K31") {
		v.Zxid = l.Hist.Applied
	}
	return v
}

// Append puts records behind the history and on their way to the disk. On an error (a record that does not link) nothing before it is
// taken back and nothing behind it is taken.
func (l *Local) Append(now Instant, recs []txn.Record) error {
	var bad error
	n := 0
	for ; n < len(recs); n++ {
		if bad = l.Hist.Append(recs[n]); bad != nil {
			break
		}
	}
	if n > 0 {
		recs = recs[:n:n]
		last := recs[n-1].Zxid
		id := l.push(now, pendingOp{kind: opAppend, durable: last})
		l.fx.Add(Append{ID: id, Records: recs, Commit: min(l.Hist.Commit, last)})
	}
	return bad
}

// SaveHard writes a new hard state; Hard changes when Done reports it. It returns the operation's id.
func (l *Local) SaveHard(now Instant, h HardState) uint64 {
	id := l.push(now, pendingOp{kind: opHard, hard: h})
	l.fx.Add(SaveHardState{ID: id, State: h})
	return id
}

// Truncate cuts memory and disk to to. The caller has checked R-31.
func (l *Local) Truncate(now Instant, to Position) uint64 {
	l.Hist.CutTo(to)
	id := l.push(now, pendingOp{kind: opTruncate, durable: to.Zxid})
	l.fx.Add(Truncate{ID: id, To: to})
	return id
}

// Install replaces everything by a received snapshot; memory changes when it is done.
func (l *Local) Install(now Instant, conn ConnID, begin SnapBegin) uint64 {
	id := l.push(now, pendingOp{kind: opInstall, snap: begin})
	l.fx.Add(InstallSnapshot{ID: id, Conn: conn, Begin: begin})
	return id
}

// Initialize settles the cluster id on disk.
func (l *Local) Initialize(now Instant) {
	if l.Initialized {
		return
	}
	l.Initialized = true
	id := l.push(now, pendingOp{kind: opInitialize})
	l.fx.Add(Initialize{ID: id, ClusterID: l.Hard.ClusterID})
}

func (l *Local) push(now Instant, op pendingOp) uint64 {
	l.lastID++
	op.id, op.asked = l.lastID, now
	l.pending = append(l.pending, op)
	return op.id
}

// Done takes a DiskDone. It reports whether anything changed.
func (l *Local) Done(ev DiskDone) bool {
	n := 0
	for n < len(l.pending) && l.pending[n].id <= ev.ID {
		op := l.pending[n]
		switch op.kind {
		case opAppend:
			// A truncate behind it may already have cut memory: durable never exceeds what is there.
			l.Hist.Durable = max(l.Hist.Durable, min(op.durable, l.Hist.End.Zxid))
		case opHard:
			l.Hard = op.hard
			if l.Hard.Accepted >= 1 {
				l.Fresh = false
			}
		case opInstall:
			l.Hist.Rebase(op.snap.At, op.snap.Size, op.snap.Table)
		case opTruncate, opInitialize:
		}
		n++
	}
	l.pending = append(l.pending[:0], l.pending[n:]...)
	l.doneID = max(l.doneID, ev.ID)
	return n > 0
}

// MayReepoch reports whether so long has passed since this server gave itself a new epoch for the sake of a stuck voter that it may do it again
// a voter that goes on promising must not keep the ensemble from its work.
func (l *Local) MayReepoch(now Instant) bool {
	return !l.reepoched || now.Sub(l.reepochedAt) >= l.Cfg.ReepochGap
}

// Reepoched notes that it does.
func (l *Local) Reepoched(now Instant) { l.reepoched, l.reepochedAt = true, now }

// IsDone reports whether the operation is on disk.
func (l *Local) IsDone(id uint64) bool { return id <= l.doneID }

// Idle reports whether no disk operation is on its way: the log barrier.
func (l *Local) Idle() bool { return len(l.pending) == 0 }

// OldestPending is when the oldest operation that has not completed was asked for; ok is false if there is none.
func (l *Local) OldestPending() (asked Instant, ok bool) {
	if len(l.pending) == 0 {
		return 0, false
	}
	return l.pending[0].asked, true
}

// ApplyCommitted asks to apply everything that is committed and durable.
func (l *Local) ApplyCommitted() {
	for recs := l.Hist.TakeApplicable(); len(recs) > 0; recs = l.Hist.TakeApplicable() {
		l.fx.Add(Apply{Records: recs})
	}
}
