package sim

import (
	"errors"
	"io"
	"math"
	"time"

	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// idleConfirm is how long the log is idle before its last batch is confirmed.
const idleConfirm = 10 * time.Millisecond

// writer is the disk goroutine of a server: operations in order, each with its latency, each followed by its completion.
type writer struct {
	n       *node
	ops     []zab.Effect // asked for in this turn or while busy
	jobs    []func() error
	taken   []zab.Effect // being carried out
	busy    bool
	commit  txn.Zxid // largest applied, the hint for batch headers
	pending bool     // an append has no batch behind it
	idle    uint64
}

func (d *writer) queue(fx zab.Effect) {
	d.n.w.checks.onQueued(d.n, operationID(fx))
	d.ops = append(d.ops, fx)
}

func (d *writer) do(job func() error) {
	d.jobs = append(d.jobs, job)
	d.kick()
}

// latency draws how long the next operation takes.
func (d *writer) latency() time.Duration {
	n := d.n
	base := n.w.sc.DiskDelay
	if base == 0 {
		base = time.Millisecond
	}
	t := base/2 + time.Duration(n.diskRng.ExpFloat64()*float64(base)/2)
	if chance(n.diskRng, 100) {
		t += time.Duration(n.diskRng.Int64N(int64(20 * base)))
	}
	return t + n.w.diskSlow[n.id]
}

// kick starts the next operation if none is under way.
func (d *writer) kick() {
	n := d.n
	if d.busy || n.w.diskHung[n.id] {
		return
	}
	if len(d.taken) == 0 {
		d.taken, d.ops = d.ops, nil
	}
	if len(d.taken)+len(d.jobs) == 0 {
		d.confirmLater()
		return
	}
	d.busy = true
	d.idle++
	n.soon(d.latency(), func() {
		if len(d.taken) > 0 && n.w.caughtBy(d.taken[0], n.id, 0) {
			n.w.diskHung[n.id] = true
		}
		if n.w.diskHung[n.id] { // it hangs in the middle
			d.busy = false
			return
		}
		if d.step() {
			d.busy = false
			d.kick()
		}
	})
}

// step carries out the next thing; false when the process died of it.
func (d *writer) step() bool {
	n := d.n
	var err error
	if len(d.taken) > 0 {
		var k int
		k, err = d.perform(d.taken)
		if err == nil {
			_, d.pending = d.taken[0].(zab.Append)
			d.taken = d.taken[k:]
		}
	} else if len(d.jobs) > 0 {
		job := d.jobs[0]
		d.jobs = d.jobs[1:]
		err = job()
	}
	if err != nil {
		n.die(err)
		return false
	}
	return n.w.fail == nil
}

func (d *writer) confirmLater() {
	if !d.pending {
		return
	}
	n := d.n
	d.idle++
	number := d.idle
	n.soon(idleConfirm, func() {
		if d.idle != number || d.busy || n.w.diskHung[n.id] {
			return
		}
		d.pending = false
		n.w.checks.begin(n, zab.Append{})
		if err := n.store.Confirm(d.commit); err != nil {
			n.die(err)
			return
		}
		n.w.checks.done(n)
	})
}

// drain carries out everything that waits, at once.
func (d *writer) drain() {
	for {
		d.taken, d.ops = append(d.taken, d.ops...), nil
		if len(d.taken)+len(d.jobs) == 0 {
			return
		}
		if !d.step() {
			return
		}
	}
}

// perform carries out the first operation, and with it the appends that follow directly and fit into one batch.
func (d *writer) perform(ops []zab.Effect) (k int, err error) {
	n, w := d.n, d.n.w
	k = 1
	var id uint64
	switch op := ops[0].(type) {
	case zab.Append:
		op, _, k = zab.MergeAppends(ops, n.cfg.BatchBytes, n.cfg.BatchCount)
		recs := op.Records
		id = op.ID
		w.checks.begin(n, zab.Append{Records: recs})
		if err = n.store.Append(recs, max(op.Commit, min(d.commit, recs[len(recs)-1].Zxid))); err == nil {
			w.checks.onDurable(n, recs)
		}
	case zab.SaveHardState:
		id = op.ID
		w.checks.begin(n, op)
		if err = n.store.SaveHardState(op.State); err == nil {
			w.checks.onHard(n, op.State)
			if n.clusterID != 0 {
				n.clusterID = op.State.ClusterID
			}
		}
	case zab.Truncate:
		id = op.ID
		w.checks.begin(n, op)
		if err = n.store.Truncate(op.To); err == nil {
			w.checks.onTruncated(n, op.To)
		}
	case zab.InstallSnapshot:
		id = op.ID
		w.checks.begin(n, op)
		err = d.install(op)
	case zab.Initialize:
		id = op.ID
		w.checks.begin(n, op)
		if err = n.store.Initialize(op.ClusterID); err == nil {
			n.clusterID = op.ClusterID
		}
	}
	w.trace(n.id, "disk", id, nil)
	if err == nil {
		w.checks.done(n)
		n.put(zab.DiskDone{ID: id})
	}
	return k, err
}

// install puts a received snapshot into the place of everything else.
func (d *writer) install(op zab.InstallSnapshot) error {
	n := d.n
	in := n.got[op.Conn]
	delete(n.got, op.Conn)
	if in == nil {
		return &peer.FatalError{Code: zab.ExitBrokenInvariant, Err: errors.New("install of a snapshot that was not received")}
	}
	if err := n.store.InstallReceived(in); err != nil {
		return err
	}
	n.w.checks.onInstalled(n, op.Begin.At)
	if _, err := n.store.Load(n.edge); err != nil {
		return err
	}
	n.w.checks.onLoaded(n, op.Begin.At)
	d.commit = op.Begin.At.Zxid
	return nil
}

// snapshotter has local snapshots written as its plan says, in pieces with time between them. Its counterpart is the snapshotter of package peer, which
// drives the very same plan.
type snapshotter struct {
	n    *node
	plan peer.SnapshotPlan
	rest func() // what is left before the disk goroutine has the snapshot; nil: nothing
}

func newSnapshotter(n *node) snapshotter {
	b := peer.SnapshotBounds{Txns: n.w.sc.Limits.SnapTxns, Limit: math.MaxInt64 / 2} // of transactions alone
	return snapshotter{n: n, plan: peer.NewSnapshotPlan(b, &n.rec, 0, n.rng.Float64())}
}

// demand has a snapshot written as soon as one can be.
func (s *snapshotter) demand() {
	if s.plan.Running() {
		s.n.w.count("snapshot-beside")
	}
	s.plan.Demand()
	s.n.wake()
}

// tempt has one snapshot in so many demanded, beside what begins now.
func (s *snapshotter) tempt() {
	n := s.n
	if chance(n.demandRng, n.w.sc.Limits.Demand) {
		n.soon(between(n.demandRng, 0, 60*time.Millisecond), s.demand)
	}
}

// settle starts a snapshot that is due: it clones the state now, unless the state is not ready; then the next turn comes back here. In a turn.
func (s *snapshotter) settle() {
	n := s.n
	if n.stopping || !s.plan.Due() || n.w.sc.Limits.Demand > 0 && chance(n.demandRng, 8) {
		return
	}
	clone, table := n.edge.Snapshot(), n.hist.Table.Clone()
	at := s.plan.Begin(0, n.rng.Float64())
	table.Cut(at)
	s.tempt()
	s.later(between(n.diskRng, 0, 5*time.Millisecond), func() {
		w, err := s.write(at, table, clone)
		if err != nil {
			s.over()
			return
		}
		s.later(between(n.diskRng, 0, 20*time.Millisecond), func() { s.finish(w) })
	})
}

// later does the next piece after d.
func (s *snapshotter) later(d time.Duration, piece func()) {
	done := false
	s.rest = func() {
		if !done {
			done, s.rest = true, nil
			piece()
		}
	}
	s.n.soon(d, s.rest)
}

// drain does all pieces at once: a graceful stop waits for them.
func (s *snapshotter) drain() {
	for s.rest != nil {
		s.rest()
	}
}

// over lets the next snapshot begin, at once if one is due.
func (s *snapshotter) over() {
	s.plan.Over()
	if s.plan.Due() {
		s.n.wake()
	}
}

func (s *snapshotter) write(at zab.Position, table zab.EpochTable, clone io.WriterTo) (*peer.SnapshotWriter, error) {
	w, err := s.n.store.BeginSnapshot(at, table, 0)
	if err != nil {
		return nil, err
	}
	if _, err := clone.WriteTo(w); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

func (s *snapshotter) finish(w *peer.SnapshotWriter) {
	n := s.n
	if err := w.Finish(); err != nil {
		w.Abort()
		s.over()
		return
	}
	n.writer.do(func() error {
		taken, err := n.store.FinishSnapshot(w)
		var st *peer.StorageError
		if errors.As(err, &st) {
			return err
		}
		s.sweep()
		if err != nil {
			return nil
		}
		n.put(taken)
		if chance(n.w.checks.rng, 10) {
			n.w.checks.deep(n)
		}
		return n.mend()
	})
}

// sweep deletes what was let go, one file after the other, beside the writer and with time between them. The snapshot is not over before that.
func (s *snapshotter) sweep() {
	n := s.n
	n.soon(between(n.sweepRng, 0, 10*time.Millisecond), func() {
		more, err := n.store.Sweep()
		switch {
		case err != nil:
			n.die(err)
		case more:
			s.sweep()
		default:
			s.over()
		}
	})
}

// scrub reads old files through, as peer's scrubber does now and then.
func (n *node) scrub() {
	if n.core == nil {
		return
	}
	found, err := n.store.Scrub(nil)
	if err != nil {
		n.die(err)
		return
	}
	n.rotFound(found)
}

func (n *node) rotFound(found []peer.Damage) {
	for _, d := range found {
		n.w.trace(n.id, "damaged", 0, d.String())
		n.w.count("scrubbed")
	}
	if len(found) > 0 {
		n.writer.do(n.mend)
	}
}

// mend sets aside what it may, and has a new snapshot written for the rest.
func (n *node) mend() error {
	taken, notes, left, err := n.store.SetDamagedAside()
	if len(notes) > 0 && err == nil {
		n.w.count("set-aside")
		n.put(taken)
	}
	if left {
		n.snaps.demand()
	}
	return err
}
