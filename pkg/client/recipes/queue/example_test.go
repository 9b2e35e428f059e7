package queue_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/queue"
)

func Example() {
	producer := func(ctx context.Context, c *client.Client) error {
		return queue.New(c, "/jobs").PutPriority(ctx, []byte("urgent"), 10)
	}
	consumer := func(ctx context.Context, c *client.Client) error {
		for {
			err := queue.New(c, "/jobs").Process(ctx, func(ctx context.Context, item []byte, token int64) error {
				fmt.Printf("%s, claim %d\n", item, token)
				return nil // done: the item goes
			})
			if err != nil {
				return err
			}
		}
	}
	_, _ = producer, consumer
}
