package leader

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// Mode is how a learner is brought into line.
type Mode uint8

// The modes. ModeFork: the two histories disagree at a zxid that both have, which must not happen (S15): the learner is told the
// chain here and stops itself. ModeStuck: nothing here reaches the learner.
const (
	ModeDiff Mode = iota + 1
	ModeTrunc
	ModeSnap
	ModeFork
	ModeStuck
)

var modeNames = [...]string{"", "DIFF", "TRUNC", "SNAP", "FORK", "STUCK"}

func (m Mode) String() string { return modeNames[m] }

// PlanInput is all that the choice depends on (docs/protocol.md §8.1).
type PlanInput struct {
	Leader struct {
		Table     zab.EpochTable
		Base      txn.Zxid // streamable from here on
		End       txn.Zxid
		TailStart txn.Zxid // memory holds everything behind it
		Snapshot  txn.Zxid // 0: none
		SnapSize  int64
		// ChainAt is the chain at a position of the leader's history, where memory knows it.
		ChainAt func(txn.Zxid) (uint64, bool)
		// Bytes is about how much would have to be streamed from a zxid on.
		Bytes func(txn.Zxid) int64
	}
	Learner struct {
		Table         zab.EpochTable
		Last          txn.Zxid
		MinRestorable txn.Zxid
	}
	// MustSnap: streaming was tried and did not work (R-30, S16).
	MustSnap     bool
	DiffMinBytes int64
	DiffMaxRatio float64
}

// Plan is the choice. Common is the last position that both histories share, if Known.
type Plan struct {
	Mode   Mode
	Common zab.Position
	Known  bool
}

// MakePlan chooses DIFF, TRUNC or SNAP. It looks at nothing but its input.
func MakePlan(in *PlanInput) Plan {
	t, known, forked := commonPoint(in)
	if mutant.On("R-31") {
		t = zab.Position{}
	}
	p := Plan{Common: t, Known: known}
	switch want := wantsSnap(in, t.Zxid, known); {
	case forked:
		p.Mode = ModeFork
	// never a snapshot that would take the learner back below what both have.
	case want && (in.Leader.Snapshot > t.Zxid || mutant.On("R-67") && in.Leader.Snapshot > 0):
		p.Mode = ModeSnap
	case !known || t.Zxid < in.Leader.Base || in.MustSnap:
		p.Mode = ModeStuck
	case t.Zxid == in.Learner.Last || mutant.On("S6"):
		p.Mode = ModeDiff
	default:
		p.Mode = ModeTrunc
	}
	return p
}

func wantsSnap(in *PlanInput, t txn.Zxid, known bool) bool {
	l, f := &in.Leader, &in.Learner
	switch {
	case !known, in.MustSnap, t < l.Base, t < f.MinRestorable:
		return true
	case f.Last == 0 && l.End != 0:
		return true
	case t < l.TailStart:
		return l.Bytes(t) > max(in.DiffMinBytes, int64(in.DiffMaxRatio*float64(l.SnapSize)))
	}
	return false
}

// commonPoint finds the newest epoch that both have. Within an epoch there is one primary and records are stored in order, so two
// histories differ there in length only, and whoever has a record of it has all that its leader had before. The chain that comes
// with the answer lets the learner check that (D5); forked says that this leader can see a difference already (S15).
func commonPoint(in *PlanInput) (t zab.Position, known, forked bool) {
	lt, ft := &in.Leader.Table, &in.Learner.Table
	if in.Learner.Last == 0 {
		return zab.Position{}, true, false
	}
	i, j := len(lt.Ends)-1, len(ft.Ends)-1
	for i >= 0 && j >= 0 && lt.Ends[i].Epoch != ft.Ends[j].Epoch {
		if lt.Ends[i].Epoch > ft.Ends[j].Epoch {
			i--
		} else {
			j--
		}
	}
	if i < 0 || j < 0 {
		return zab.Position{}, lt.Whole && ft.Whole && !mutant.On("S17"), false // S17, or no answer
	}
	own, theirs := lt.Ends[i], ft.Ends[j]
	if own.Last < theirs.Last {
		return zab.Position{Zxid: own.Last, Chain: own.Chain}, true, false
	}
	t = zab.Position{Zxid: theirs.Last, Chain: theirs.Chain}
	if chain, ok := in.Leader.ChainAt(t.Zxid); ok && chain != t.Chain {
		return zab.Position{Zxid: t.Zxid, Chain: chain}, true, true
	}
	return t, true, false
}
