package peer

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/zab"
)

// mendEvery is how often a repair is tried that has to wait: for a snapshot, or for records of a damaged segment to be applied.
const mendEvery = time.Minute

// scrubber reads what nobody reads any more, old segments and snapshots, now and then, so that rot is found while there is another copy to
// replace it from: the state in memory (docs/protocol.md §18.5). Any goroutine may read its counts.
type scrubber struct {
	p                     *Peer
	runs, bytes, findings atomic.Int64
	last                  atomic.Int64 // end of the last run, ms since 1970; 0: there was none
}

// run takes a tenth of the interval before the first run, since a server may not live longer than that, then an interval, ± 30 %. It ends with ctx.
func (s *scrubber) run(ctx context.Context) {
	cfg := &s.p.cfg
	jitter := func(d time.Duration) time.Duration { return time.Duration(float64(d) * (0.7 + 0.6*rand.Float64())) }
	next := cfg.Clock.Now() + jitter(cfg.ScrubInterval/10)
	timer := cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := next - cfg.Clock.Now()
		if len(s.p.store.Condemned()) > 0 {
			s.p.disk.do(s.mend)
			wait = min(wait, mendEvery)
		}
		timer.Reset(max(wait, 0))
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		if cfg.Clock.Now() >= next {
			s.once(ctx, timer)
			next = cfg.Clock.Now() + jitter(cfg.ScrubInterval)
		}
	}
}

// once is one run over everything.
func (s *scrubber) once(ctx context.Context, timer env.Timer) {
	p := s.p
	began := p.cfg.Clock.Now()
	before := s.bytes.Load()
	found, err := p.store.Scrub(func(n int) error {
		s.bytes.Add(int64(n))
		timer.Reset(time.Duration(int64(n) * int64(time.Second) / p.cfg.ScrubRate))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C():
			return nil
		}
	})
	s.report(found)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.log.Error("scrub ended early", zap.Error(err))
		return
	}
	s.runs.Add(1)
	s.last.Store(p.cfg.Clock.Wall().UnixMilli())
	p.log.Info("scrub done", zap.Int64("bytes", s.bytes.Load()-before), zap.Int("findings", len(found)), zap.Duration("took", p.cfg.Clock.Now()-began))
}

// report tells the operator. What has to be done is begun by mend.
func (s *scrubber) report(found []Damage) {
	s.findings.Add(int64(len(found)))
	for _, d := range found {
		s.p.log.Error(zab.NoteRot, zap.String("file", d.File), zap.Int64("offset", d.Offset), zap.Error(d.Err),
			zap.String("do", "nothing now: this server has the data in memory, writes a new snapshot and sets the file aside; look after this disk"))
	}
}

// mend sets aside what it may, on the disk goroutine, and has a new snapshot written for the rest.
func (s *scrubber) mend() error {
	p := s.p
	taken, notes, left, err := p.store.SetDamagedAside()
	for _, n := range notes {
		p.log.Warn("recovery", zap.String("note", n))
	}
	if err != nil {
		return err
	}
	if len(notes) > 0 {
		p.inbox.put(taken)
	}
	if left {
		p.snaps.demand()
	}
	return nil
}

// checkBeforeSending is for the snapshot sender.
func (s *scrubber) checkBeforeSending(x *Sending) error {
	found, err := x.Check(func(int) error {
		select {
		case <-s.p.stopped:
			return errStopping
		default:
			return nil
		}
	})
	s.report(found)
	if len(found) > 0 {
		s.p.disk.do(s.mend)
	}
	return err
}
