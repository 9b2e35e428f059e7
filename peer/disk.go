package peer

import (
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// diskWriter carries out disk effects on its own goroutine, strictly in order, and reports each completion to the loop. It is the
// only caller of Storage's writing methods. A failure ends the process: no completion, and so no promise, follows it.
type diskWriter struct {
	p      *Peer
	meter  diskMeter
	commit atomic.Uint64 // largest applied zxid, the hint for batch headers

	mu     sync.Mutex
	ops    []zab.Effect
	jobs   []func() error // work of the snapshotter that needs this goroutine
	closed bool
	wake   chan struct{}

	fresh int64         // bytes appended since grown was last poked; the writer's own
	grown chan struct{} // for the space watcher
}

func newDiskWriter(p *Peer) *diskWriter {
	return &diskWriter{p: p, wake: make(chan struct{}, 1), grown: make(chan struct{}, 1)}
}

// queue adds an effect; kick wakes the writer once the turn's effects are all there.
func (d *diskWriter) queue(fx zab.Effect) {
	d.mu.Lock()
	d.ops = append(d.ops, fx)
	d.mu.Unlock()
}

func (d *diskWriter) kick() {
	d.mu.Lock()
	work := len(d.ops) > 0 || len(d.jobs) > 0
	d.mu.Unlock()
	if work {
		poke(d.wake)
	}
}

// do runs f on the disk goroutine, between operations.
func (d *diskWriter) do(f func() error) {
	d.mu.Lock()
	d.jobs = append(d.jobs, f)
	d.mu.Unlock()
	poke(d.wake)
}

// close lets the writer finish what is queued and end.
func (d *diskWriter) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	poke(d.wake)
}

func (d *diskWriter) run() {
	idle := d.p.cfg.Clock.NewTimer(d.p.cfg.IdleConfirm)
	defer idle.Stop()
	unconfirmed := false // an append has no batch behind it yet
	stopped := d.p.stopped
	for {
		d.mu.Lock()
		ops, jobs, closed := d.ops, d.jobs, d.closed
		d.ops, d.jobs = nil, nil
		d.mu.Unlock()
		if d.p.failed() != nil {
			return
		}
		for i := 0; i < len(ops); {
			began := d.p.cfg.Clock.Now()
			n, err := d.step(ops[i:])
			d.timed(ops[i], d.p.cfg.Clock.Now()-began)
			if err != nil {
				d.p.fail(fatal(err))
				return
			}
			_, unconfirmed = ops[i].(zab.Append)
			i += n
			d.report(i == len(ops))
		}
		for _, job := range jobs {
			if err := job(); err != nil {
				d.p.fail(fatal(err))
				return
			}
		}
		if len(ops)+len(jobs) > 0 {
			continue
		}
		if closed {
			return
		}
		if unconfirmed {
			idle.Reset(d.p.cfg.IdleConfirm)
			select {
			case <-d.wake:
				continue
			case <-stopped:
				stopped = nil // told once: a graceful stop goes on here until close, for as long as a snapshot takes
				continue
			case <-idle.C():
			}
			if err := d.p.store.Confirm(txn.Zxid(d.commit.Load())); err != nil {
				d.p.fail(fatal(err))
				return
			}
			unconfirmed = false
			continue
		}
		<-d.wake
	}
}

// report has what step has put into the inbox acted on: by this goroutine if the disk has nothing else to do, else by the loop.
func (d *diskWriter) report(last bool) {
	if last {
		d.mu.Lock()
		last = len(d.ops) == 0
		d.mu.Unlock()
	}
	if last {
		d.p.turnHere()
		return
	}
	poke(d.p.inbox.wake)
}

// step carries out the first operation, and with it the appends that follow directly and fit into one batch.
func (d *diskWriter) step(ops []zab.Effect) (n int, err error) {
	n = 1
	var id uint64
	switch op := ops[0].(type) {
	case zab.Append:
		var bytes int
		op, bytes, n = zab.MergeAppends(ops, d.p.cfg.Core.BatchBytes, d.p.cfg.Core.BatchCount)
		recs := op.Records
		id = op.ID
		d.meter.records.Add(int64(len(recs)))
		d.meter.bytes.Add(int64(bytes))
		if d.fresh += int64(bytes); d.fresh >= d.p.cfg.SegmentBytes/4 {
			d.fresh = 0
			poke(d.grown)
		}
		err = d.p.store.Append(recs, max(op.Commit, min(txn.Zxid(d.commit.Load()), recs[len(recs)-1].Zxid)))
	case zab.SaveHardState:
		id = op.ID
		if err = d.p.store.SaveHardState(op.State); err == nil && d.p.clusterID.Load() != 0 {
			d.p.clusterID.Store(op.State.ClusterID)
		}
	case zab.Truncate:
		id = op.ID
		err = d.p.store.Truncate(op.To)
	case zab.InstallSnapshot:
		id = op.ID
		err = d.install(op)
	case zab.Initialize:
		id = op.ID
		if err = d.p.store.Initialize(op.ClusterID); err == nil {
			d.p.clusterID.Store(op.ClusterID)
		}
	}
	if err == nil {
		d.p.inbox.addQuietly(0, zab.DiskDone{ID: id})
	}
	return n, err
}

func recordBytes(recs []txn.Record) int {
	n := 0
	for i := range recs {
		n += len(recs[i].Bytes)
	}
	return n
}
