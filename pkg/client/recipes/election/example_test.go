package election_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/election"
)

func Example() {
	run := func(ctx context.Context, c *client.Client, lead func(ctx context.Context, token int64)) error {
		term, err := election.New(c, "/app/leader").Campaign(ctx, "host-7")
		if err != nil {
			return err
		}
		lead(term.Context(), term.Token()) // returns when the term ends
		return term.Resign(ctx)
	}
	_ = run
}

func ExampleElection_Observe() {
	observe := func(ctx context.Context, c *client.Client) error {
		for leader, err := range election.New(c, "/app/leader").Observe(ctx) {
			if err != nil {
				return err
			}
			fmt.Println("leader:", leader.Name)
		}
		return nil
	}
	_ = observe
}
