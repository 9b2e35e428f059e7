package peer

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/zab"
)

// diskMeter counts what the disk writer does. Any goroutine may read it.
type diskMeter struct {
	batches, records, bytes atomic.Int64 // of the log
	nanos, slowest          atomic.Int64 // of all operations
	snapshots               atomic.Int64 // written here
}

// Figure is one number for operators.
type Figure struct {
	Name  string
	Value int64
}

// Figures are counts since the start: log batches (one fsync each), the records and bytes in them, the time the disk took, snapshots, what reading old files found.
func (p *Peer) Figures() []Figure {
	m := &p.disk.meter
	mean := int64(0)
	if n := m.batches.Load(); n > 0 {
		mean = m.nanos.Load() / n / int64(time.Microsecond)
	}
	return []Figure{
		{"log_batches", m.batches.Load()}, {"log_records", m.records.Load()}, {"log_bytes", m.bytes.Load()},
		{"log_avg_sync_us", mean}, {"log_max_sync_us", m.slowest.Load() / int64(time.Microsecond)},
		{"snapshots_written", m.snapshots.Load()}, {"retained_log_bytes", p.store.log.Bytes()},
		{"scrub_runs", p.scrub.runs.Load()}, {"scrub_bytes", p.scrub.bytes.Load()}, {"scrub_findings", p.scrub.findings.Load()},
		{"scrub_last_ms", p.scrub.last.Load()}, {"damaged_files", int64(len(p.store.Condemned()))},
	}
}

// timed notes how long an operation took, and says so when it was long: the reason why everybody waits should be in the log.
func (d *diskWriter) timed(op zab.Effect, took time.Duration) {
	m := &d.meter
	m.slowest.Store(max(m.slowest.Load(), int64(took)))
	what := "promise"
	switch op.(type) {
	case zab.Append:
		what = "append"
		m.batches.Add(1)
		m.nanos.Add(int64(took))
	case zab.Truncate:
		what = "truncate"
	case zab.InstallSnapshot:
		return // it says so itself
	}
	if took >= d.p.cfg.Core.DiskWarn {
		d.p.log.Warn(zab.NoteDiskStall, zap.String("operation", what), zap.Duration("took", took))
	}
}
