package cache_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/cache"
)

func ExampleNewTree() {
	follow := func(ctx context.Context, c *client.Client) error {
		tree, err := cache.NewTree(ctx, c, "/config")
		if err != nil {
			return err
		}
		defer tree.Close()
		for {
			entry, ok := tree.Get("/config/limits") // no round trip
			fmt.Println(ok, string(entry.Data), tree.Fresh())
			select {
			case <-tree.Changes():
			case <-ctx.Done():
				return tree.Err()
			}
		}
	}
	_ = follow
}
