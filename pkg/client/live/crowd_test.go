package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// Fifty goroutines count up a node each through one client, under contexts that end at any moment, while the client's
// servers are killed; fifty more follow these nodes through another. An error that says that nothing was written tells the
// truth, and each follower sees the last count.
func TestCrowdThroughKilledServers(t *testing.T) {
	ours(t)
	ctx := guard(t)
	writer := dial(ctx, t, client.WithSessionTimeout(20*time.Second))
	reader := dial(ctx, t, client.WithSessionTimeout(20*time.Second))
	const crowd, last = 50, 100
	var all sync.WaitGroup
	faults := make(chan error, 2*crowd)
	for i := range crowd {
		path := fmt.Sprintf("/n%d", i)
		create(ctx, t, writer, path, "0")
		all.Go(func() { faults <- countUp(ctx, writer, path, last) })
		all.Go(func() { faults <- followUp(ctx, reader, path, last) })
	}
	for _, c := range []*client.Client{writer, reader, writer, reader} {
		if addr := c.Server(); addr != "" {
			ensemble.restart(t, addr)
		}
		require.NoError(t, again(ctx, func() error { return c.Sync(ctx, "/") }))
	}
	all.Wait()
	close(faults)
	for err := range faults {
		require.NoError(t, err)
	}
	require.Positive(t, writer.Stats().Losses)
	require.Zero(t, reader.Watched())
}

// again repeats what a lost connection has cut off.
func again(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil {
			return err
		}
	}
}

// countUp sets the versions 1 to last, each by the version before.
func countUp(ctx context.Context, c *client.Client, path string, last int) error {
	open := false // a write that may have been carried out may still be, until the version moves
	for version := 0; version < last; {
		limited, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(40))*time.Millisecond)
		_, err := c.Set(limited, path, []byte(strconv.Itoa(version+1)), int32(version))
		cancel()
		var oe *client.OpError
		switch {
		case err == nil:
			version, open = version+1, false
			continue
		case !errors.As(err, &oe):
			return fmt.Errorf("%s: %w", path, err)
		case open && errors.Is(err, client.ErrBadVersion):
		case !errors.Is(err, client.ErrConnectionLoss) && !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		open = open || oe.MaybeApplied
		var now client.Stat
		if err := again(ctx, func() error {
			if err := c.Sync(ctx, path); err != nil {
				return err
			}
			var found bool
			var err error
			if now, found, err = c.Exists(ctx, path); err == nil && !found {
				return fmt.Errorf("%s is gone", path)
			}
			return err
		}); err != nil {
			return err
		}
		switch {
		case int(now.Version) == version:
		case int(now.Version) == version+1 && open:
			version, open = version+1, false
		default:
			return fmt.Errorf("%s: version %d after %d and %w (maybe applied: %v)", path, now.Version, version, err, oe.MaybeApplied)
		}
	}
	return nil
}

// followUp reads with a watch until it has seen the last version.
func followUp(ctx context.Context, c *client.Client, path string, last int) error {
	if err := again(ctx, func() error { return c.Sync(ctx, path) }); err != nil {
		return err
	}
	for seen := -1; seen < last; {
		var st client.Stat
		var w *client.Watch
		if err := again(ctx, func() (err error) { _, st, w, err = c.GetW(ctx, path); return err }); err != nil {
			return err
		}
		if int(st.Version) < seen {
			return fmt.Errorf("%s: version %d after %d", path, st.Version, seen)
		}
		if seen = int(st.Version); seen == last {
			w.Stop()
			return nil
		}
		if _, err := w.Wait(ctx); err != nil {
			return fmt.Errorf("%s: no event after version %d of %d: %w", path, seen, last, err)
		}
	}
	return nil
}
