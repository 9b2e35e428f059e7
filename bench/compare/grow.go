package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/bench/load"
)

// growRows show how costs grow with one quantity; the samples carry it as X.
func growRows() []*row {
	return []*row{
		{name: "grow-payload", work: "cost by payload, 16 × 8, three nodes", nodes: 3, run: growPayload},
		{name: "grow-znodes", work: "cost by znodes, 16 × 64, one node", nodes: 1, run: growZnodes},
		{name: "grow-sessions", work: "cost by idle sessions, 16 × 64, three nodes", nodes: 3, run: growSessions},
		{name: "grow-watches", work: "cost of an event by watches on the znode, three nodes", nodes: 3, run: growWatches},
		{name: "grow-voters", work: "cost by voters, 16 × 64", nodes: 1, run: growVoters},
	}
}

// getAndSet reports what a get and a set cost at x.
func (r *runner) getAndSet(ctx context.Context, x float64, change func(*load.Config)) error {
	for _, w := range []string{load.Get, load.Set} {
		cfg := r.loadConfig(w, 16, 64)
		change(&cfg)
		res, err := load.Run(ctx, cfg)
		if err != nil {
			return fmt.Errorf("%s at %v: %w", w, x, err)
		}
		r.reportAt(w+", CPU per op", "µs", x, res.ServerCPU)
		r.reportAt(w+", rate", "/s", x, res.Rate)
	}
	return nil
}

func growPayload(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		for _, size := range []int{16, 128, 1 << 10, 8 << 10, 64 << 10, 512 << 10} {
			err := r.getAndSet(ctx, float64(size), func(c *load.Config) { c.Size, c.InFlight, c.Keys = size, 8, 100 })
			if err != nil {
				return err
			}
		}
		return nil
	})(ctx, r)
}

func growZnodes(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		for n := min(1000, r.o.znodes); n <= r.o.znodes; n *= 10 {
			cfg := r.loadConfig(load.Fill, 16, 64)
			cfg.Size, cfg.Count, cfg.Root = 100, int64(n), fmt.Sprintf("/grow%d", n)
			if _, err := load.Run(ctx, cfg); err != nil {
				return err
			}
			rss, err := r.cluster.rss()
			if err != nil {
				return err
			}
			r.reportAt("resident", "B", float64(n), float64(rss))
			err = r.getAndSet(ctx, float64(n), func(c *load.Config) { c.Size, c.Keys = 100, 1000 })
			if err != nil {
				return err
			}
		}
		return nil
	})(ctx, r)
}

func growSessions(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		for _, n := range []int{10, 100, 1000, 6000} {
			crowd, err := load.OpenCrowd(ctx, r.cluster.addrs(), n, 40*time.Second)
			if err != nil {
				return err
			}
			err = r.getAndSet(ctx, float64(n), func(*load.Config) {})
			crowd.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})(ctx, r)
}

func growWatches(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		for _, n := range []int{1, 10, 100, 1000, 3000} {
			cfg := r.loadConfig(load.Watch, n, 1)
			cfg.Keys, cfg.Size = 1, 16
			res, err := load.Run(ctx, cfg)
			if err != nil {
				return err
			}
			r.reportAt("CPU per event", "µs", float64(n), res.ServerCPU)
			r.reportAt("last event", "µs", float64(n), res.LastEvent.P50)
		}
		return nil
	})(ctx, r)
}

func growVoters(ctx context.Context, r *runner) error {
	for _, n := range []int{1, 3, 5, 7} {
		voters := *r.row
		voters.nodes = n
		own := *r
		own.row = &voters
		err := onFresh(func(ctx context.Context, r *runner) error {
			return r.getAndSet(ctx, float64(n), func(*load.Config) {})
		})(ctx, &own)
		if err != nil {
			return err
		}
	}
	return nil
}
