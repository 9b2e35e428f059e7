package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/zkd-project/zkd/bench/load"
)

// payloadBytes is the data of a znode, unless a row says otherwise.
const payloadBytes = 1024

// row is one line of the table: something that is run on every system.
type row struct {
	name   string
	work   string // for people
	nodes  int
	floor  bool // the echo servers run it too
	shared bool // runs on servers that other rows have used; otherwise it gets its own
	asked  bool // only when it is asked for
	short  bool // part of -short
	// run measures one system and reports what it finds.
	run    func(ctx context.Context, r *runner) error
	checks []check
}

// check is one thing that a row must reach. Bound means what kind says.
type check struct {
	metric string
	kind   kind
	bound  float64
}

type kind uint8

const (
	atMost       kind = iota // zkd's median <= bound
	atLeast                  // zkd's median >= bound
	worstAtMost              // zkd's largest value <= bound
	ratioAtMost              // zkd : zk38 <= bound
	ratioAtLeast             // zkd : zk38 >= bound
	floorAtMost              // zkd : echo <= bound
	twoSyncs                 // zkd's median <= two fsyncs + bound
)

// runner is one row on one system.
type runner struct {
	*bench
	row     *row
	sys     *system
	cluster *cluster // nil in rows that start their own
	round   int
}

// sample is one figure.
type sample struct {
	Row    string  `json:"row"`
	System string  `json:"system"`
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Round  int     `json:"round"`
	X      float64 `json:"x,omitempty"` // in rows about growth: what grows
	Value  float64 `json:"value"`
}

func (r *runner) report(metric, unit string, v float64) { r.reportAt(metric, unit, 0, v) }

func (r *runner) reportAt(metric, unit string, x, v float64) {
	r.put(sample{Row: r.row.name, System: r.sys.name, Metric: metric, Unit: unit, Round: r.round, X: x, Value: v})
}

// The names of metrics that checks ask for.
const (
	cpu     = "server CPU per op"
	rate    = "rate"
	p50     = "p50"
	p99     = "p99"
	rssFill = "resident, largest server"
)

// loadConfig is a workload of the row's usual length on the runner's cluster.
func (r *runner) loadConfig(workload string, conns, inFlight int) load.Config {
	return load.Config{Servers: r.cluster.addrs(), Pids: r.cluster.pids(), Workload: workload, Conns: conns, InFlight: inFlight,
		Size: payloadBytes, Duration: r.o.duration, Warmup: r.o.warmup, Keep: true}
}

// standard reports what most rows are about.
func (r *runner) standard(res *load.Result) error {
	r.report(cpu, "µs", res.ServerCPU)
	r.report(rate, "/s", res.Rate)
	r.report(p50, "µs", res.Latency.P50)
	r.report(p99, "µs", res.Latency.P99)
	r.report("max", "µs", res.Latency.Max)
	r.report("client CPU per op", "µs", res.ClientCPU)
	if len(res.Errors) > 0 {
		return fmt.Errorf("errors: %v", res.Errors)
	}
	return nil
}

// simple is a row of one workload.
func simple(workload string, conns, inFlight int) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		res, err := load.Run(ctx, r.loadConfig(workload, conns, inFlight))
		if err != nil {
			return err
		}
		return r.standard(res)
	}
}

func allRows() []*row {
	read := []check{{cpu, atMost, 2}, {rate, ratioAtLeast, 10}}
	return append([]*row{
		{name: "get-16x64", work: "get, 16 × 64", nodes: 3, floor: true, shared: true, short: true, run: simple(load.Get, 16, 64), checks: read},
		{name: "exists-16x64", work: "exists, 16 × 64", nodes: 3, floor: true, shared: true, run: simple(load.Exists, 16, 64), checks: read},
		{name: "children-16x64", work: "children (ten), 16 × 64", nodes: 3, floor: true, shared: true, run: simple(load.Children, 16, 64),
			checks: read},
		{name: "get-16x1", work: "get, 16 × 1", nodes: 3, floor: true, shared: true, run: simple(load.Get, 16, 1),
			checks: []check{{cpu, floorAtMost, 1.5}}},
		{name: "get-1x1", work: "get, 1 × 1", nodes: 3, floor: true, shared: true, short: true, run: simple(load.Get, 1, 1),
			checks: []check{{p50, floorAtMost, 1.3}}},
		{name: "set-16x64", work: "set 1 KiB, 16 × 64", nodes: 3, floor: true, shared: true, short: true, run: simple(load.Set, 16, 64),
			checks: []check{{cpu, atMost, 15}, {rate, ratioAtLeast, 5}}},
		{name: "set-16x1", work: "set 1 KiB, 16 × 1", nodes: 3, floor: true, shared: true, run: simple(load.Set, 16, 1),
			checks: []check{{cpu, ratioAtMost, 0.25}, {p99, ratioAtMost, 0.25}}},
		{name: "set-1x1", work: "set 1 KiB, 1 × 1", nodes: 3, floor: true, shared: true, short: true, run: simple(load.Set, 1, 1),
			checks: []check{{p50, twoSyncs, 150}, {p50, ratioAtMost, 2.0 / 3}, {cpu, ratioAtMost, 1.0 / 3}}},
		{name: "set-16x64-one", work: "set 1 KiB, 16 × 64, one node", nodes: 1, floor: true, run: onFresh(simple(load.Set, 16, 64))},
		{name: "mixed-16x64", work: "10 % set, 90 % get, 16 × 64", nodes: 3, floor: true, shared: true, short: true,
			run: simple(load.Mixed, 16, 64), checks: []check{{rate, ratioAtLeast, 8}}},
		{name: "sessions", work: "sessions opened and closed, 32 side by side", nodes: 3, floor: true, shared: true, short: true,
			run: simple(load.Sessions, 32, 1), checks: []check{{rate, ratioAtLeast, 4}}},
		{name: "churn", work: "connect, ephemeral, close, 32 side by side", nodes: 3, floor: true, shared: true, short: true,
			run: simple(load.Churn, 32, 1), checks: []check{{rate, ratioAtLeast, 5}}},
		{name: "idle-sessions", work: "memory of an idle session", nodes: 3, run: idleSessions,
			checks: []check{{"resident per session", atMost, 12 << 10}}},
		{name: "watch-1000x1", work: "1 000 connections watch one znode", nodes: 3, shared: true, short: true, run: watch(1000, 1),
			checks: []check{{"last event", ratioAtMost, 1.0 / 3}}},
		{name: "watch-100x1000", work: "100 × 1 000 watches", nodes: 3, shared: true, run: watch(100, 1000),
			checks: []check{{rate, ratioAtLeast, 3}}},
		// The tree that these leave is as large as the system is fast, so they come last on servers that rows share.
		{name: "create-16x64", work: "create 1 KiB, 16 × 64", nodes: 3, floor: true, shared: true, run: simple(load.Create, 16, 64)},
		{name: "multi-16x8", work: "multi of ten sets, 16 × 8", nodes: 3, floor: true, shared: true, run: simple(load.Multi, 16, 8)},
		{name: "watch-memory", work: "memory of a watch, 100 × 10 000", nodes: 3, run: watchMemory,
			checks: []check{{"resident per watch", atMost, 100}}},
		{name: "fill", work: "fill, 100 B each, three nodes", nodes: 3, short: true, run: fill,
			checks: []check{{rate, ratioAtLeast, 5}, {rssFill, atMost, 600e6}, {"resident after a minute", atMost, 400e6}}},
		{name: "fill-one", work: "fill, 100 B each, one node", nodes: 1, run: fill},
		{name: "start", work: "start to first read with a filled tree, one node", nodes: 1, short: true, run: startFilled,
			checks: []check{{"after a clean stop", atMost, 500}}},
		{name: "ten-million", work: "10 M znodes of 100 B, one node", nodes: 1, asked: true, run: tenMillion,
			checks: []check{{p99Reads, atMost, 5000}, {"resident", atMost, 6e9}, {longestSilence, atMost, 10_000}, {longestSilence + " while filling", atMost, 10_000}}},
		{name: "snapshot", work: "writes while snapshots of a filled tree are taken, one node", nodes: 1, run: snapshots,
			checks: []check{{"rate kept", atLeast, 90}, {"p99 grows to", atMost, 200}}},
		{name: "failover", work: "kill -9 of the leader, empty", nodes: 3, short: true, run: failOver(0, kill9),
			checks: []check{{firstWrite, atMost, 50}, {firstWrite, worstAtMost, 150}, {sessionsLost, worstAtMost, 0}}},
		{name: "failover-filled", work: "kill -9 of the leader, filled", nodes: 3, run: failOver(1, kill9),
			checks: []check{{firstWrite, atMost, 50}, {firstWrite, worstAtMost, 150}, {sessionsLost, worstAtMost, 0}}},
		{name: "handover", work: "SIGTERM of the leader", nodes: 3, short: true, run: failOver(0, sigterm),
			checks: []check{{standStill, atMost, 20}, {sessionsLost, worstAtMost, 0}}},
		{name: "overload", work: "three times the capacity is due (set 1 KiB, open loop)", nodes: 3, run: overload},
		{name: "abuse", work: "eight others, 10 % set, beside one pest", nodes: 3, run: abuse, checks: abuseChecks()},
	}, growRows()...)
}

// onFresh gives a row its own cluster.
func onFresh(f func(context.Context, *runner) error, settings ...string) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) (err error) {
		c, err := r.start(ctx, r.sys, r.row.nodes, settings...)
		if err != nil {
			return err
		}
		own := *r
		own.cluster = c
		if err := f(ctx, &own); err != nil {
			_ = c.close() // the first fault is the one to tell
			return err
		}
		return c.close()
	}
}

// watch is the fan-out of conns connections on keys znodes.
func watch(conns, keys int) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		cfg := r.loadConfig(load.Watch, conns, 1)
		cfg.Keys, cfg.Size = keys, 16
		res, err := load.Run(ctx, cfg)
		if err != nil {
			return err
		}
		r.report(rate, "/s", res.Rate)
		r.report("last event", "µs", res.LastEvent.P50)
		r.report(cpu, "µs", res.ServerCPU)
		return nil
	}
}

// watchMemory looks at what a million watches add.
func watchMemory(ctx context.Context, r *runner) error {
	const conns, keys = 100, 10_000
	return onFresh(func(ctx context.Context, r *runner) error {
		cfg := r.loadConfig(load.Watch, conns, 1)
		cfg.Keys, cfg.Size, cfg.Count = keys, 16, 1
		res, err := load.Run(ctx, cfg)
		if err != nil {
			return err
		}
		r.report("resident per watch", "B", float64(res.RSSAfter-res.RSSBefore)/(conns*keys))
		return nil
	})(ctx, r)
}

func idleSessions(ctx context.Context, r *runner) error {
	const n = 6000
	return onFresh(func(ctx context.Context, r *runner) error {
		before, err := load.ProcessUsage(r.cluster.pids())
		if err != nil {
			return err
		}
		crowd, err := load.OpenCrowd(ctx, r.cluster.addrs(), n, 40*time.Second)
		if err != nil {
			return err
		}
		defer crowd.Close()
		rest(ctx, 5*time.Second)
		a, err := load.ProcessUsage(r.cluster.pids())
		if err != nil {
			return err
		}
		rest(ctx, 5*time.Second)
		z, err := load.ProcessUsage(r.cluster.pids())
		if err != nil {
			return err
		}
		r.report("resident per session", "B", float64(z.RSS-before.RSS)/n)
		r.report("CPU of all servers, idle", "ms/s", millis(z.CPU-a.CPU)/5)
		return nil
	})(ctx, r)
}

// rest waits.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// fillTree fills the runner's cluster.
func (r *runner) fillTree(ctx context.Context, znodes int) (*load.Result, error) {
	cfg := r.loadConfig(load.Fill, 16, 64)
	cfg.Size, cfg.Count, cfg.Root = 100, int64(znodes), "/fill"
	return load.Run(ctx, cfg)
}

func fill(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		res, err := r.fillTree(ctx, r.o.znodes)
		if err != nil {
			return err
		}
		if err := r.standard(res); err != nil {
			return err
		}
		r.report("time", "s", res.Seconds)
		if err := r.reportRSS(rssFill); err != nil {
			return err
		}
		if r.o.short {
			return nil
		}
		rest(ctx, time.Minute)
		return r.reportRSS("resident after a minute")
	})(ctx, r)
}

func (r *runner) reportRSS(metric string) error {
	rss, err := r.cluster.rss()
	if err == nil {
		r.report(metric, "B", float64(rss))
	}
	return err
}

// overload finds the capacity, then asks for three times as much.
func overload(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		sustained := r.loadConfig(load.Set, 64, 16) // not what a burst reaches before the disk is behind
		sustained.Duration = 20 * time.Second
		closed, err := load.Run(ctx, sustained)
		if err != nil {
			return err
		}
		before, err := r.cluster.rss()
		if err != nil {
			return err
		}
		cfg := r.loadConfig(load.Set, 64, 1)
		cfg.Rate, cfg.Duration = 3*closed.Rate, time.Minute
		res, err := load.Run(ctx, cfg)
		if err != nil {
			return err
		}
		r.report("capacity", "/s", closed.Rate)
		r.report("rate when overloaded", "/s", res.Rate)
		r.report("resident before", "B", float64(before))
		if err := r.reportRSS("resident after"); err != nil {
			return err
		}
		refused := int64(0)
		for _, n := range res.Errors {
			refused += n
		}
		r.report("refused", "", float64(refused))
		again, err := load.Run(ctx, r.loadConfig(load.Set, 1, 1))
		if err == nil {
			r.report("p50 of one client right afterwards", "µs", again.Latency.P50)
		}
		return err
	})(ctx, r)
}

// machine says where this ran.
func machine() string {
	return fmt.Sprintf("%d CPUs, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}
