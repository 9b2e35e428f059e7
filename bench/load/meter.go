package load

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// meter keeps the time of a run and looks at the counters and at the servers when the measurement begins and ends.
type meter struct {
	cfg      *Config
	clock    clock
	counters []*atomic.Int64
	silence  silence
}

// silence is the longest time in which no connection got a reply. For an open loop, which always has something due, it is how long the
// whole service stood still, where the longest latency may be that of one connection.
type silence struct{ last, longest atomic.Int64 }

// heard notes that replies came at now.
func (s *silence) heard(now time.Duration) {
	before := s.last.Swap(int64(now))
	if before == 0 { // the first: nothing was measured before
		return
	}
	for gap := int64(now) - before; ; {
		longest := s.longest.Load()
		if gap <= longest || s.longest.CompareAndSwap(longest, gap) {
			return
		}
	}
}

func newMeter(cfg *Config) *meter {
	m := &meter{cfg: cfg, clock: clock{base: time.Now(), begin: cfg.Warmup, end: cfg.Warmup + cfg.Duration}}
	if cfg.Count > 0 { // ends when all is done
		m.clock.begin, m.clock.end = 0, math.MaxInt64
	}
	return m
}

func (m *meter) ops() int64 {
	n := int64(0)
	for _, c := range m.counters {
		n += c.Load()
	}
	return n
}

// reading is what the meter sees at one moment.
type reading struct {
	at      time.Duration
	ops     int64
	own     time.Duration
	servers Usage
	err     error
}

func (m *meter) read() reading {
	r := reading{at: m.clock.now(), ops: m.ops(), own: ownCPU()}
	r.servers, r.err = ProcessUsage(m.cfg.Pids)
	return r
}

// run runs work, which ends by itself soon after the clock's end, and returns what happened in between.
func (m *meter) run(ctx context.Context, work func()) (*Result, error) {
	first := m.read()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	if m.clock.begin > 0 {
		m.wait(ctx, done, m.clock.begin, "warm-up")
		first = m.read()
	}
	m.wait(ctx, done, m.clock.end, "")
	last := m.read()
	<-done
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if first.err != nil || last.err != nil {
		return nil, fmt.Errorf("the servers' processes: %w", firstError(first.err, last.err))
	}
	return m.result(first, last), nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) result(first, last reading) *Result {
	cfg := m.cfg
	res := &Result{Workload: cfg.Workload, Conns: cfg.Conns, InFlight: cfg.InFlight, Size: cfg.Size, Keys: cfg.Keys, Target: cfg.Rate,
		Ops: last.ops - first.ops, Seconds: (last.at - first.at).Seconds(), RSSBefore: first.servers.RSS, RSSAfter: last.servers.RSS,
		Errors: map[string]int64{}, Hist: &Histogram{}}
	if res.Seconds > 0 {
		res.Rate = float64(res.Ops) / res.Seconds
	}
	if res.Ops > 0 {
		res.ClientCPU = micros(last.own-first.own) / float64(res.Ops)
		res.ServerCPU = micros(last.servers.CPU-first.servers.CPU) / float64(res.Ops)
	}
	return res
}

// wait waits for a moment or for the end of the work, and reports progress meanwhile.
func (m *meter) wait(ctx context.Context, done <-chan struct{}, until time.Duration, phase string) {
	tick := time.NewTicker(m.cfg.Every)
	defer tick.Stop()
	end := time.NewTimer(until - m.clock.now())
	defer end.Stop()
	before, at := m.ops(), m.clock.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-end.C:
			return
		case <-tick.C:
		}
		ops, now := m.ops(), m.clock.now()
		if m.cfg.Progress != nil {
			fmt.Fprintf(m.cfg.Progress, "%6.1f s  %9.0f ops/s  %d done %s\n", now.Seconds(), float64(ops-before)/(now-at).Seconds(), ops, phase)
		}
		before, at = ops, now
	}
}
