package lock_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/lock"
)

// The resource refuses tokens lower than the highest it has seen.
func ExampleLock_Do() {
	transfer := func(ctx context.Context, c *client.Client, write func(ctx context.Context, token int64) error) error {
		return lock.New(c, "/locks/ledger").Do(ctx, write)
	}
	_ = transfer
}

func ExampleLock_Acquire() {
	work := func(ctx context.Context, c *client.Client) error {
		held, err := lock.New(c, "/locks/ledger", lock.WithData([]byte("host-7"))).Acquire(ctx)
		if err != nil {
			return err
		}
		defer held.Release(ctx)
		fmt.Println("token", held.Token())
		select {
		case <-held.Context().Done(): // lost
			return context.Cause(held.Context())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_ = work
}

func ExampleNewReadWrite() {
	read := func(ctx context.Context, c *client.Client, use func(ctx context.Context, token int64) error) error {
		readers, _ := lock.NewReadWrite(c, "/locks/table")
		return readers.Do(ctx, use)
	}
	_ = read
}

func ExampleNewSemaphore() {
	limited := func(ctx context.Context, c *client.Client, use func(ctx context.Context, token int64) error) error {
		return lock.NewSemaphore(c, "/licences", 5).Do(ctx, use)
	}
	_ = limited
}
