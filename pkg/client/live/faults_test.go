package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
	"github.com/zkd-project/zkd/pkg/client/recipes/counter"
	"github.com/zkd-project/zkd/pkg/client/recipes/election"
	"github.com/zkd-project/zkd/pkg/client/recipes/lock"
	"github.com/zkd-project/zkd/pkg/client/recipes/queue"
)

// worker goes through sessions, each on a wire that the test cuts.
type worker struct {
	id   int
	root string
	wire wire

	mu sync.Mutex // one at a time dials
	c  *client.Client
}

// session returns the present session, or a new one if that has ended.
func (w *worker) session(ctx context.Context) (*client.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c != nil && w.c.Err() == nil {
		return w.c, nil
	}
	c, err := client.Dial(ctx, servers()+w.root, client.WithDialer(w.wire.dial), client.WithSessionTimeout(time.Second))
	if err != nil {
		return nil, err
	}
	w.c = c
	return c, nil
}

// do repeats f while it fails for a reason that a fault explains.
func (w *worker) do(ctx context.Context, f func(c *client.Client) error) error {
	for {
		c, err := w.session(ctx)
		if err == nil {
			err = f(c)
		}
		explained := false
		for _, reason := range []error{client.ErrConnectionLoss, client.ErrSessionExpired, client.ErrThrottledOp, recipes.ErrLost} {
			explained = explained || errors.Is(err, reason)
		}
		if err == nil || !explained || ctx.Err() != nil {
			return err
		}
	}
}

// register is a resource behind a fencing token.
type register struct {
	mu    sync.Mutex
	last  int64
	taken int
}

// put accepts a token that is higher than all before. A holder whose token is refused has been succeeded: it must learn
// that it holds nothing.
func (r *register) put(ctx context.Context, token int64, held context.Context) error {
	r.mu.Lock()
	accepted := token > r.last
	if accepted {
		r.last = token
		r.taken++
	}
	r.mu.Unlock()
	if accepted {
		return nil
	}
	select {
	case <-held.Done():
		return recipes.ErrLost
	case <-ctx.Done():
		return fmt.Errorf("token %d was refused, and its holder never heard of it", token)
	}
}

// Four workers with sessions of a second use five recipes while servers are killed and wires are cut, some until the
// session has expired. No token is used out of order by one who holds, every wait ends, no item is lost, no increment
// is counted twice.
func TestRecipesThroughFaults(t *testing.T) {
	ours(t)
	ctx := guard(t)
	c := dial(ctx, t, client.WithSessionTimeout(20*time.Second))
	const items, crew = 20, 4
	rounds := 3
	if long {
		rounds = 30
	}
	for i := range items {
		require.NoError(t, queue.New(c, "/queue").Put(ctx, fmt.Appendf(nil, "%d", i)))
	}
	var locked, written, led register
	var mu sync.Mutex
	done := map[string]int{}
	sums := map[string]int64{} // least and most that the counter may hold

	works := []func(ctx context.Context, w *worker, c *client.Client) error{
		func(ctx context.Context, w *worker, c *client.Client) error {
			h, err := lock.New(c, "/lock").Acquire(ctx)
			if err != nil {
				return err
			}
			return errors.Join(locked.put(ctx, h.Token(), h.Context()), h.Release(ctx))
		},
		func(ctx context.Context, w *worker, c *client.Client) error {
			_, write := lock.NewReadWrite(c, "/rw", lock.WithCurator())
			h, err := write.Acquire(ctx)
			if err != nil {
				return err
			}
			return errors.Join(written.put(ctx, h.Token(), h.Context()), h.Release(ctx))
		},
		func(ctx context.Context, w *worker, c *client.Client) error {
			term, err := election.New(c, "/election").Campaign(ctx, fmt.Sprint(w.id))
			if err != nil {
				return err
			}
			return errors.Join(led.put(ctx, term.Token(), term.Context()), term.Resign(ctx))
		},
		func(ctx context.Context, w *worker, c *client.Client) error {
			_, err := counter.New(c, "/counter").Add(ctx, 1)
			var oe *client.OpError
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				sums["least"]++
			}
			if err == nil || errors.As(err, &oe) && oe.MaybeApplied {
				sums["most"]++
			}
			return err
		},
	}
	working, finished := context.WithCancel(ctx)
	defer finished()
	var all, consumers sync.WaitGroup
	var steps atomic.Int64
	workers := make([]*worker, crew)
	for i := range workers {
		w := &worker{id: i, root: root(t)}
		workers[i] = w
		all.Go(func() {
			for round := range rounds * len(works) {
				if err := w.do(ctx, func(c *client.Client) error { return works[round%len(works)](ctx, w, c) }); err != nil {
					t.Errorf("worker %d, round %d: %v", i, round, err)
					return
				}
				steps.Add(1)
			}
		})
		consumers.Go(func() {
			for working.Err() == nil {
				err := w.do(working, func(c *client.Client) error {
					return queue.New(c, "/queue").Process(working, func(_ context.Context, item []byte, _ int64) error {
						mu.Lock()
						defer mu.Unlock()
						done[string(item)]++
						return nil
					})
				})
				if err != nil && working.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	faults := breakThings(ctx, t, c, workers, &steps, over)
	left := func() int {
		n, err := queue.New(c, "/queue").Len(ctx)
		if err != nil {
			return -1
		}
		return n
	}
	require.Eventually(t, func() bool { return left() == 0 }, patience, 10*time.Millisecond, "items nobody works on")
	finished()
	consumers.Wait()
	for _, w := range workers {
		w.c.Close()
	}
	require.Len(t, done, items)
	for _, r := range []*register{&locked, &written, &led} {
		require.GreaterOrEqual(t, r.taken, crew*rounds)
	}
	require.NoError(t, again(ctx, func() error { return c.Sync(ctx, "/") }))
	var sum int64
	require.NoError(t, again(ctx, func() (err error) { sum, err = counter.New(c, "/counter").Value(ctx); return err }))
	require.GreaterOrEqual(t, sum, sums["least"])
	require.LessOrEqual(t, sum, sums["most"])
	t.Log(faults, "faults; counter", sum, "of", sums)
}

// breakThings injects a fault whenever the workers have come a little further, until over, and two of each kind at least;
// it heals all at the end.
func breakThings(ctx context.Context, t *testing.T, witness *client.Client, workers []*worker, steps *atomic.Int64, over <-chan struct{}) int {
	t.Helper()
	const kinds = 4
	for n := 0; ; n++ {
		select {
		case <-over:
			if n >= 2*kinds {
				return n
			}
		default:
		}
		at := steps.Load()
		require.Eventually(t, func() bool {
			select {
			case <-over:
				return true
			default:
				return steps.Load() >= at+2
			}
		}, patience, time.Millisecond, "somebody waits for ever")
		w := workers[n%len(workers)]
		switch n % kinds {
		case 0:
			ensemble.restart(t, ensemble.members[rand.IntN(len(ensemble.members))].addr)
		case 1: // a moment without network
			w.wire.set(true)
			w.wire.set(false)
		case 2: // too long for the session
			marker := fmt.Sprintf("/marker%d", n)
			require.NoError(t, w.do(ctx, func(c *client.Client) error {
				_, err := c.Create(ctx, marker, nil, client.Ephemeral, nil)
				if errors.Is(err, client.ErrNodeExists) {
					return nil // from a try whose answer was lost
				}
				return err
			}))
			w.wire.set(true)
			for node, err := range witness.FollowNode(ctx, marker) {
				require.NoError(t, err)
				if !node.Exists {
					break
				}
			}
			w.wire.set(false)
		case 3: // somebody else ends the session
			c, err := w.session(ctx)
			require.NoError(t, err)
			w.wire.set(true) // or it would take its session back
			err = again(ctx, func() error {
				killer, err := client.Dial(ctx, servers(), client.WithSession(c.SessionID(), c.SessionPassword()))
				if err != nil {
					return err
				}
				return killer.Close()
			})
			if !errors.Is(err, client.ErrSessionExpired) { // by itself
				require.NoError(t, err)
			}
			w.wire.set(false)
			<-c.Done()
			require.ErrorIs(t, c.Err(), client.ErrSessionExpired)
		}
		require.NoError(t, again(ctx, func() error {
			c, err := client.Dial(ctx, servers())
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Sync(ctx, "/")
		}))
	}
}
