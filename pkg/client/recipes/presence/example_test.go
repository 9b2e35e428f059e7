package presence_test

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/presence"
)

// A service says where it is, for as long as it runs.
func ExampleJoin() {
	serve := func(work func()) {
		me := presence.Join(func(ctx context.Context) (*client.Client, error) {
			return client.Dial(ctx, "zk1,zk2,zk3")
		}, "/services/mail", "host-7", []byte("10.0.0.7:25"))
		defer me.Close()
		work()
	}
	_ = serve
}

func ExampleWatch() {
	discover := func(ctx context.Context, c *client.Client) error {
		for members, err := range presence.Watch(ctx, c, "/services/mail") {
			if err != nil {
				return err
			}
			fmt.Println(len(members), "servers")
		}
		return nil
	}
	_ = discover
}
