package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/pkg/client"
)

// ErrOldServer says that a recipe needs watches that stay, which servers know since ZooKeeper 3.6. It comes at the
// recipe's start, together with client.ErrUnimplemented.
var ErrOldServer = errors.New("the server is older than ZooKeeper 3.6 and knows no watches that stay")

// Watch is AddWatch for recipes: it asks again when the connection breaks, until ctx ends. An old server answers and then
// cuts the connection, so that of two recipes that start together one would hear of nothing but a lost connection.
// ErrOldServer.
func Watch(ctx context.Context, c *client.Client, path string, mode client.WatchMode) (*client.Stream, error) {
	for {
		s, err := c.AddWatch(ctx, path, mode)
		switch {
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
		case errors.Is(err, client.ErrUnimplemented):
			return nil, fmt.Errorf("%w: %w", ErrOldServer, err)
		default:
			return s, err
		}
	}
}
