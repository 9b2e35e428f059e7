package barrier_test

import (
	"context"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/barrier"
)

// Work begins when the migration is over.
func ExampleBarrier() {
	start := func(ctx context.Context, c *client.Client, work func()) error {
		if err := barrier.New(c, "/app/migrating").Wait(ctx); err != nil {
			return err
		}
		work()
		return nil
	}
	_ = start
}

// Three workers compute together.
func ExampleDouble() {
	compute := func(ctx context.Context, c *client.Client, work func()) error {
		round := barrier.NewDouble(c, "/app/round", 3)
		if err := round.Enter(ctx); err != nil {
			return err
		}
		work()
		return round.Leave(ctx)
	}
	_ = compute
}
