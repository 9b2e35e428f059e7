package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/bench/load"
)

const (
	kill9   = syscall.SIGKILL
	sigterm = syscall.SIGTERM

	firstWrite   = "first write"
	standStill   = "writes stand still"
	sessionsLost = "sessions lost"

	// settleFor is how long an ensemble is left alone before the next fault.
	settleFor = 2 * time.Second
	// faultLimit bounds one fail-over.
	faultLimit = time.Minute
)

// failOver ends the leader again and again, while a probe writes to each server. filled trees have the usual number of znodes.
func failOver(filled int, sig syscall.Signal) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		return onFresh(func(ctx context.Context, r *runner) error {
			if filled > 0 {
				if _, err := r.fillTree(ctx, r.o.znodes); err != nil {
					return err
				}
			}
			for k := range r.o.kills {
				one := *r
				one.round = r.round*r.o.kills + k // each fail-over is a sample
				if err := one.failOnce(ctx, sig); err != nil {
					return fmt.Errorf("fail-over %d: %w", k+1, err)
				}
			}
			return nil
		})(ctx, r)
	}
}

func (r *runner) failOnce(ctx context.Context, sig syscall.Signal) error {
	victim := r.cluster.leader()
	if victim == nil {
		return errors.New("no server says that it leads")
	}
	var probes []*load.Probe
	defer func() {
		for _, p := range probes {
			p.Stop()
		}
	}()
	for _, m := range r.cluster.members {
		if m == victim {
			continue
		}
		p, err := load.StartProbe(ctx, m.addr, fmt.Sprintf("/probe%d", m.id), 30*time.Second)
		if err != nil {
			return err
		}
		probes = append(probes, p)
	}
	rest(ctx, settleFor)
	at := time.Now()
	if err := victim.signal(sig); err != nil {
		return err
	}
	first, last, gap, lost, err := awaitWrites(ctx, probes, at, time.Now())
	if err != nil {
		return err
	}
	r.report(firstWrite, "ms", millis(first))
	r.report("first write, last server", "ms", millis(last))
	r.report(standStill, "ms", millis(gap))
	r.report(sessionsLost, "", float64(lost))
	if err := r.cluster.launch(victim); err != nil {
		return err
	}
	return r.cluster.await(ctx)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// watchFor is how long the writes are looked at after the fault, at least.
const watchFor = time.Second

// awaitWrites waits until every probe has had a write acknowledged that it sent after the fault, and one that it sent after the process had
// ended. first and last are when the first and the last probe had the former; gap is the longest time without any acknowledgement from just
// before the fault until all had the latter: what a busy disk does to writes later on is not the fault's.
func awaitWrites(ctx context.Context, probes []*load.Probe, fault, ended time.Time) (first, last, gap time.Duration, lost int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, faultLimit, errors.New("writes do not come back"))
	defer cancel()
	for {
		var got []time.Time // when each probe had its first
		var all []time.Time
		through, over := 0, ended
		lost = 0
		for _, p := range probes {
			acks, gone := p.Since(fault.Add(-100 * time.Millisecond))
			if gone {
				lost++
			}
			i := slices.IndexFunc(acks, func(a load.Ack) bool { return a.Sent.After(fault) })
			if i >= 0 {
				got = append(got, acks[i].Got)
			}
			if i := slices.IndexFunc(acks, func(a load.Ack) bool { return a.Sent.After(ended) }); i >= 0 {
				through++
				if acks[i].Got.After(over) {
					over = acks[i].Got
				}
			}
			for _, a := range acks {
				all = append(all, a.Got)
			}
		}
		if min(len(got), through)+lost >= len(probes) && time.Since(fault) > watchFor {
			all = slices.DeleteFunc(all, func(t time.Time) bool { return t.After(over) })
			slices.SortFunc(got, time.Time.Compare)
			slices.SortFunc(all, time.Time.Compare)
			if len(got) == 0 {
				return 0, 0, 0, lost, errors.New("every session was lost")
			}
			return got[0].Sub(fault), got[len(got)-1].Sub(fault), longestGap(all), lost, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, 0, lost, context.Cause(ctx)
		case <-time.After(10 * pollEvery):
		}
	}
}

func longestGap(sorted []time.Time) time.Duration {
	gap := time.Duration(0)
	for i := 1; i < len(sorted); i++ {
		gap = max(gap, sorted[i].Sub(sorted[i-1]))
	}
	return gap
}

// startFilled measures the start of a server with a filled tree, after a clean stop and after kill -9.
func startFilled(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		if _, err := r.fillTree(ctx, r.o.znodes); err != nil {
			return err
		}
		m := r.cluster.members[0]
		for _, how := range []struct {
			sig  syscall.Signal
			name string
		}{{sigterm, "after a clean stop"}, {sigterm, "after a second clean stop"}, {kill9, "after kill -9"}} {
			if err := m.signal(how.sig); err != nil {
				return err
			}
			began := time.Now()
			if err := r.cluster.launch(m); err != nil {
				return err
			}
			if err := load.FirstRead(ctx, m.addr); err != nil {
				return err
			}
			r.report(how.name, "ms", millis(time.Since(began)))
		}
		return nil
	})(ctx, r)
}

// snapshots compares writes without snapshots with writes while one is taken after the other.
func snapshots(ctx context.Context, r *runner) error {
	measure := func(setting ...string) (res *load.Result, err error) {
		err = onFresh(func(ctx context.Context, r *runner) error {
			if _, err := r.fillTree(ctx, r.o.znodes); err != nil {
				return err
			}
			cfg := r.loadConfig(load.Set, 16, 64)
			cfg.Duration = max(4*r.o.duration, 10*time.Second)
			res, err = load.Run(ctx, cfg)
			return err
		}, setting...)(ctx, r)
		return res, err
	}
	without, err := measure("snapCount=2000000000")
	if err != nil {
		return err
	}
	often := []string{"snapCount=1000"}
	if r.sys.name == "zkd" {
		often = append(often, "zkd.snapBytes=1")
	}
	with, err := measure(often...)
	if err != nil {
		return err
	}
	r.report("rate without", "/s", without.Rate)
	r.report("rate with", "/s", with.Rate)
	r.report("rate kept", "%", 100*with.Rate/without.Rate)
	r.report("p99 without", "µs", without.Latency.P99)
	r.report("p99 with", "µs", with.Latency.P99)
	r.report("p99 grows to", "%", 100*with.Latency.P99/without.Latency.P99)
	r.report("longest write without", "µs", without.Latency.Max)
	r.report("longest write with", "µs", with.Latency.Max)
	return nil
}

// tenMillion is a large tree on one node: memory, and how long the service stands still: while the znodes are made, which takes in
// collections, snapshots and log rolls, and then beside a few writes. The same on an empty server says what of it is the machine's.
func tenMillion(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		if err := r.silences(ctx, ", empty"); err != nil {
			return err
		}
		if err := r.readsBesideFill(ctx, 10*r.o.znodes); err != nil {
			return err
		}
		if err := r.reportRSS("resident"); err != nil {
			return err
		}
		return r.silences(ctx, "")
	})(ctx, r)
}

// readsBesideFill reports the longest silence of any stretch of reads while n znodes are made, and the worst of their 99th percentiles.
func (r *runner) readsBesideFill(ctx context.Context, n int) error {
	var fill *load.Result
	var failed error
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		fill, failed = r.fillTree(ctx, n)
	}()
	var silence, p99 float64
	for over := false; !over; {
		reads, err := r.openLoop(ctx, load.Get, 16, 4500)
		select {
		case <-filled:
			over = true
		default:
		}
		if err != nil {
			<-filled
			return errors.Join(err, failed)
		}
		silence, p99 = max(silence, reads.Silence), max(p99, reads.Latency.P99)
	}
	if failed != nil {
		return failed
	}
	r.report("time to fill", "s", fill.Seconds)
	r.report(longestSilence+" while filling", "µs", silence)
	r.report(p99Reads+" while filling", "µs", p99)
	return nil
}

// silences reports reads beside writes.
func (r *runner) silences(ctx context.Context, when string) error {
	reads, writes, err := r.readsBesideWrites(ctx)
	if err != nil {
		return err
	}
	r.report(p99Reads+when, "µs", reads.Latency.P99)
	r.report("p99.9 of reads"+when, "µs", reads.Latency.P999)
	r.report("longest read"+when, "µs", reads.Latency.Max)
	r.report(longestSilence+when, "µs", reads.Silence)
	r.report("p99 of writes"+when, "µs", writes.Latency.P99)
	r.report("longest write"+when, "µs", writes.Latency.Max)
	return nil
}

const (
	p99Reads       = "p99 of reads"
	longestSilence = "longest silence"
)

// readsBesideWrites has 4500 reads and 500 writes due in each second, on connections of their own, so that no read waits for a write that
// its own connection sent before.
func (r *runner) readsBesideWrites(ctx context.Context) (reads, writes *load.Result, err error) {
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { writes, failed = r.openLoop(ctx, load.Set, 4, 500) })
	reads, err = r.openLoop(ctx, load.Get, 16, 4500)
	wg.Wait()
	return reads, writes, errors.Join(err, failed)
}

// openLoop has rate requests due in each second for ten seconds or more.
func (r *runner) openLoop(ctx context.Context, workload string, conns int, rate float64) (*load.Result, error) {
	cfg := r.loadConfig(workload, conns, 1)
	cfg.Duration, cfg.Rate, cfg.Root = max(6*r.o.duration, 10*time.Second), rate, "/beside-"+workload
	cfg.Keep = false // another loop comes
	return load.Run(ctx, cfg)
}
