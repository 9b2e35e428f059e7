package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkd-project/zkd/pkg/client"
)

func Example() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181/app")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	path, err := c.Create(ctx, "/config", []byte("v1"), client.Persistent, client.WorldACL(client.PermAll))
	if err != nil && !errors.Is(err, client.ErrNodeExists) {
		log.Fatal(err)
	}
	fmt.Println("created", path)
}

// Follow a node: read, wait, read again. A change between the wait and the read is in what is read.
func ExampleClient_GetW() {
	follow := func(ctx context.Context, c *client.Client, path string, use func([]byte)) error {
		for {
			data, _, changed, err := c.GetW(ctx, path)
			if errors.Is(err, client.ErrConnectionLoss) {
				continue // a read, so asking again is safe
			}
			if err != nil {
				return err
			}
			use(data)
			if _, err := changed.Wait(ctx); err != nil {
				return err // the session ended, or ctx
			}
		}
	}
	_ = follow
}

func ExampleClient_Multi() {
	swap := func(ctx context.Context, c *client.Client) error {
		var m client.Multi
		m.Check("/leader", 7)
		entry := m.Create("/log/entry-", []byte("took over"), client.PersistentSequential, nil)
		state := m.Set("/state", []byte("ready"), client.AnyVersion)
		if err := c.Multi(ctx, &m); err != nil {
			var which *client.MultiError
			if errors.As(err, &which) {
				fmt.Println("nothing changed because of", which.Path)
			}
			return err
		}
		fmt.Println(entry.Path, state.Stat.Version)
		return nil
	}
	_ = swap
}

func ExampleOpError() {
	set := func(ctx context.Context, c *client.Client) error {
		_, err := c.Set(ctx, "/a", []byte("x"), 3)
		var oe *client.OpError
		switch {
		case errors.Is(err, client.ErrBadVersion):
			fmt.Println("somebody else was faster")
		case errors.As(err, &oe) && oe.MaybeApplied:
			fmt.Println("read it again to know")
		}
		return err
	}
	_ = set
}
