package peer

import (
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// SnapshotPlan decides when a server begins a snapshot of its own (§19). Peer and internal/sim drive the very same one, in turns:
//
//	applied, demanded ─▶ Due, asked at the end of each turn ─▶ Begin ─▶ written, counts, what it let go of is deleted ─▶ Over
//	                                                                └─▶ failed: nothing is tried again for its sake ───▶ Over
//
// There is at most one between Begin and Over (ADR 0025). Whoever demands one meanwhile gets another: nobody knows whether the state had been taken
// before. A change of role is nothing to it. A server that is told to stop begins none any more; it waits until the one that was begun counts, not
// for the deleting. The plan is pure: no clock, no disk, and chance is an argument.
type SnapshotPlan struct {
	bounds SnapshotBounds

	running bool
	wanted  bool // whatever the bounds say: a damaged file has to be replaced

	txns, dueTxns   int
	bytes, dueBytes int64
	limit           int64

	at         zab.Position // last applied
	installing uint64       // the disk operation that puts another state in the place of this one; 0: there is none
	installAt  zab.Position // of that state
}

// SnapshotBounds are what has to be applied since the last snapshot, each ± 30 %: Txns and Bytes, so that neither a tiny tree nor a large one is
// written all the time, or Limit bytes alone. Bytes are those of records; a last snapshot that is larger takes the place of a bound in bytes.
type SnapshotBounds struct {
	Txns  int
	Bytes int64
	Limit int64
}

// NewSnapshotPlan begins with what a start has found; after is the log, in bytes, behind its snapshot. What the start had to replay counts: the
// next one would have to replay it again. chance is drawn from [0, 1).
func NewSnapshotPlan(b SnapshotBounds, rec *Recovered, after int64, chance float64) SnapshotPlan {
	s := SnapshotPlan{bounds: b, at: rec.Applied}
	s.rearm(rec.SnapshotSize, chance)
	s.txns, s.bytes = rec.Replayed, after
	return s
}

// rearm sets the next bounds, with jitter so that not all servers write together.
func (s *SnapshotPlan) rearm(size int64, chance float64) {
	jitter := 0.7 + 0.6*chance
	s.txns, s.bytes = 0, 0
	s.dueTxns = max(1, int(float64(s.bounds.Txns)*jitter))
	s.dueBytes = int64(float64(max(size, s.bounds.Bytes)) * jitter)
	s.limit = int64(float64(max(size, s.bounds.Limit)) * jitter)
}

// Applied counts what the state has taken, one record or more.
func (s *SnapshotPlan) Applied(recs []txn.Record) {
	last := &recs[len(recs)-1]
	s.at = zab.Position{Zxid: last.Zxid, Chain: last.Chain}
	s.txns += len(recs)
	s.bytes += int64(recordBytes(recs))
}

// Demand wants a snapshot as soon as one can be, of the state as it is now or later.
func (s *SnapshotPlan) Demand() { s.wanted = true }

// Installs notes that a received snapshot is about to replace the state, Installed that the disk operation id is done.
func (s *SnapshotPlan) Installs(fx zab.InstallSnapshot) {
	s.installing, s.installAt = fx.ID, fx.Begin.At
}

func (s *SnapshotPlan) Installed(id uint64) {
	if s.installing == id && id > 0 {
		s.installing, s.at = 0, s.installAt
	}
}

// Due tells whether one is to begin now. If the state is not ready for it nothing has to be done: it stays due.
func (s *SnapshotPlan) Due() bool {
	due := s.txns >= s.dueTxns && s.bytes >= s.dueBytes || s.bytes >= s.limit
	return (due || s.wanted) && !s.running && s.installing == 0 && s.at.Zxid > 0
}

// Begin: the state was taken, in this turn, and is being written. at is where it stands; size is the last snapshot's, in bytes, and chance is
// drawn from [0, 1).
func (s *SnapshotPlan) Begin(size int64, chance float64) (at zab.Position) {
	s.running, s.wanted = true, false
	s.rearm(size, chance)
	return s.at
}

// Over: nothing of it is under way any more, whatever came of it. Due must be asked again.
func (s *SnapshotPlan) Over() { s.running = false }

// Running: between Begin and Over.
func (s *SnapshotPlan) Running() bool { return s.running }
