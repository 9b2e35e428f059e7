package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/bench/load"
)

// abuse measures what well-behaved clients of all servers notice of one pest on one server: their p99 alone, then beside it.
func abuse(ctx context.Context, r *runner) error {
	return onFresh(func(ctx context.Context, r *runner) error {
		others := func() (*load.Result, error) {
			cfg := r.loadConfig(load.Mixed, 8, 1)
			return load.Run(ctx, cfg)
		}
		for _, pest := range load.Pests {
			alone, err := others()
			if err != nil {
				return err
			}
			beside, err := r.beside(ctx, pest, others)
			if err != nil {
				return fmt.Errorf("%s: %w", pest, err)
			}
			r.report("p99 alone, then: "+string(pest), "µs", alone.Latency.P99)
			r.report("p99 beside: "+string(pest), "µs", beside.Latency.P99)
			r.report(worse(pest), "", beside.Latency.P99/alone.Latency.P99)
			if len(beside.Errors) > 0 {
				return fmt.Errorf("%s: errors: %v", pest, beside.Errors)
			}
		}
		return r.reportRSS("resident afterwards")
	})(ctx, r)
}

func worse(pest load.Pest) string { return "p99 beside : alone, " + string(pest) }

func abuseChecks() (checks []check) {
	for _, pest := range load.Pests {
		checks = append(checks, check{worse(pest), atMost, 2})
	}
	return checks
}

// beside runs f while a pest is at its worst.
func (r *runner) beside(ctx context.Context, pest load.Pest, f func() (*load.Result, error)) (*load.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	settled, ended := make(chan struct{}), make(chan error, 1)
	servers := slices.Clone(r.cluster.addrs())
	go func() {
		ended <- load.Pester(ctx, servers[0], pest, "", func() { close(settled) })
	}()
	var res *load.Result
	var err error
	select {
	case <-settled:
		res, err = f()
		cancel()
		err = errors.Join(err, <-ended)
	case err = <-ended:
	}
	cancel()
	return res, err
}
