package live

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
	"github.com/zkd-project/zkd/pkg/client/recipes/barrier"
	"github.com/zkd-project/zkd/pkg/client/recipes/cache"
	"github.com/zkd-project/zkd/pkg/client/recipes/counter"
	"github.com/zkd-project/zkd/pkg/client/recipes/election"
	"github.com/zkd-project/zkd/pkg/client/recipes/lock"
	"github.com/zkd-project/zkd/pkg/client/recipes/presence"
	"github.com/zkd-project/zkd/pkg/client/recipes/queue"
	"github.com/zkd-project/zkd/pkg/client/recipes/settings"
)

func TestLockExcludesAndIsFair(t *testing.T) {
	ctx := guard(t)
	clients := []*client.Client{dial(ctx, t), dial(ctx, t)}
	var inside, entries atomic.Int32
	var last atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			l := lock.New(clients[i%2], "/locks/a", lock.WithData([]byte(strconv.Itoa(i))))
			for range 5 {
				h, err := l.Acquire(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 || h.Token() <= last.Swap(h.Token()) {
					t.Error("two holders, or a token that does not grow")
				}
				entries.Add(1)
				inside.Add(-1)
				if err := h.Release(ctx); err != nil {
					t.Error(err)
				}
				if h.Context().Err() == nil {
					t.Error("released and still held")
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 30, entries.Load())
	require.NoError(t, clients[0].Sync(ctx, "/"))
	names, _, err := clients[0].Children(ctx, "/locks/a")
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestTryAcquireAndCancelledAcquire(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	l := lock.New(c, "/l", lock.WithCurator(), lock.WithData([]byte("me")))
	h, err := l.TryAcquire(ctx)
	require.NoError(t, err)
	require.Regexp(t, "^/l/_c_[0-9a-f-]{36}-lock-[0-9]{10}$", h.Path())
	_, err = l.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = l.Acquire(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Eventually(t, func() bool {
		who, err := l.Contenders(ctx)
		return err == nil && len(who) == 1 && string(who[0]) == "me"
	}, patience, 10*time.Millisecond, "a place that was given up goes")
	// Somebody deletes the holder's node: the holder learns it.
	require.NoError(t, c.Delete(ctx, h.Path(), client.AnyVersion))
	<-h.Context().Done()
	require.ErrorIs(t, context.Cause(h.Context()), recipes.ErrLost)
	require.NoError(t, h.Release(ctx))
	require.NoError(t, l.Do(ctx, func(ctx context.Context, token int64) error {
		require.Greater(t, token, h.Token())
		return ctx.Err()
	}))
}

func TestReadersShareWritersDoNot(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	read, write := lock.NewReadWrite(c, "/rw")
	one, err := read.TryAcquire(ctx)
	require.NoError(t, err)
	two, err := read.TryAcquire(ctx)
	require.NoError(t, err)
	_, err = write.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld)
	got := make(chan *lock.Held, 1)
	go func() {
		h, err := write.Acquire(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	require.Eventually(t, func() bool { who, _ := write.Contenders(ctx); return len(who) == 3 }, patience, time.Millisecond)
	_, err = read.TryAcquire(ctx)
	require.ErrorIs(t, err, lock.ErrHeld, "a reader behind a waiting writer waits")
	require.NoError(t, one.Release(ctx))
	require.NoError(t, two.Release(ctx))
	h := <-got
	require.NoError(t, h.Release(ctx))
}

func TestSemaphore(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	sem := lock.NewSemaphore(c, "/sem", 2)
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			err := sem.Do(ctx, func(context.Context, int64) error {
				if n := inside.Add(1); n > 2 {
					most.Store(n)
				}
				inside.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Zero(t, most.Load())
}

// The holder is cut off until its session has expired; the next one gets the lock with a higher token, and the old holder
// learns of it when it is back.
func TestCutOffHolderIsSucceeded(t *testing.T) {
	ours(t)
	ctx := guard(t)
	var w wire
	cut := dial(ctx, t, client.WithDialer(w.dial), client.WithSessionTimeout(time.Second))
	other := dial(ctx, t)
	old, err := lock.New(cut, "/l").Acquire(ctx)
	require.NoError(t, err)
	w.set(true)
	h, err := lock.New(other, "/l").Acquire(ctx)
	require.NoError(t, err)
	require.Greater(t, h.Token(), old.Token())
	require.NoError(t, old.Context().Err(), "it cannot know yet: that is what the token is for")
	w.set(false)
	<-old.Context().Done()
	require.ErrorIs(t, context.Cause(old.Context()), recipes.ErrLost)
	require.ErrorIs(t, cut.Err(), client.ErrSessionExpired)
	require.NoError(t, old.Release(ctx))
	require.NoError(t, h.Release(ctx))
}

// Servers are killed while six clients pass a lock around. A register that refuses old tokens never sees one.
func TestLockThroughKilledServers(t *testing.T) {
	ours(t)
	ctx := guard(t)
	const rounds = 8
	var mu sync.Mutex
	var last int64
	entered := 0
	var all sync.WaitGroup
	work := func(c *client.Client) {
		l := lock.New(c, "/l")
		for done := 0; done < rounds; {
			h, err := l.Acquire(ctx)
			if errors.Is(err, client.ErrConnectionLoss) || errors.Is(err, client.ErrThrottledOp) {
				continue
			}
			if err != nil {
				t.Errorf("%T %v", err, err)
				return
			}
			mu.Lock()
			if h.Token() <= last {
				t.Errorf("token %d after %d", h.Token(), last)
			}
			last = h.Token()
			entered++
			mu.Unlock()
			if err := h.Release(ctx); err != nil && !errors.Is(err, client.ErrConnectionLoss) {
				t.Error(err)
			}
			done++
		}
	}
	clients := make([]*client.Client, 6)
	for i := range clients {
		clients[i] = dial(ctx, t, client.WithSessionTimeout(6*time.Second))
	}
	for _, c := range clients {
		all.Go(func() { work(c) })
	}
	for i := range 2 {
		ensemble.restart(t, ensemble.members[i].addr)
		require.Eventually(t, func() bool {
			_, _, err := clients[0].Exists(ctx, "/")
			return err == nil
		}, patience, 10*time.Millisecond)
	}
	all.Wait()
	require.Equal(t, 6*rounds, entered)
}

func TestElection(t *testing.T) {
	ctx := guard(t)
	a, b := dial(ctx, t), dial(ctx, t)
	first, err := election.New(a, "/e").Campaign(ctx, "a")
	require.NoError(t, err)
	require.NoError(t, b.Sync(ctx, "/"))
	l, err := election.New(b, "/e").Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, election.Leader{Name: "a", Token: first.Token()}, l)
	second := make(chan *election.Term, 1)
	go func() {
		term, err := election.New(b, "/e").Campaign(ctx, "b")
		if err != nil {
			t.Error(err)
		}
		second <- term
	}()
	require.Eventually(t, func() bool {
		names, err := election.New(a, "/e").Candidates(ctx)
		return err == nil && len(names) == 2
	}, patience, time.Millisecond)
	var seen []string
	for l, err := range election.New(a, "/e").Observe(ctx) {
		require.NoError(t, err)
		seen = append(seen, l.Name)
		switch l.Name {
		case "a":
			require.NoError(t, first.Resign(ctx))
		case "b":
			term := <-second
			require.Greater(t, term.Token(), first.Token())
			require.NoError(t, term.Resign(ctx))
		}
		if l.Token == 0 {
			break
		}
	}
	require.Equal(t, []string{"a", "b", ""}, seen)
}

func TestBarriers(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	b := barrier.New(c, "/b")
	require.NoError(t, b.Wait(ctx))
	require.NoError(t, b.Close(ctx))
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Wait(short), context.DeadlineExceeded)
	waiting := make(chan error, 1)
	go func() { waiting <- b.Wait(ctx) }()
	require.NoError(t, b.Open(ctx))
	require.NoError(t, b.Open(ctx))
	require.NoError(t, <-waiting)

	var inside, left atomic.Int32
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			d := barrier.NewDouble(c, "/double", 3)
			inside.Add(1)
			if err := d.Enter(ctx); err != nil || inside.Load() != 3 {
				t.Error("entered alone", err)
			}
			left.Add(1)
			if err := d.Leave(ctx); err != nil || left.Load() != 3 {
				t.Error("left alone", err)
			}
		})
	}
	all.Wait()
	lonely, cancel2 := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel2()
	require.ErrorIs(t, barrier.NewDouble(c, "/double", 2).Enter(lonely), context.DeadlineExceeded)
	names, _, err := c.Children(ctx, "/double")
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestQueue(t *testing.T) {
	ctx := guard(t)
	c, other := dial(ctx, t), dial(ctx, t)
	q := queue.New(c, "/q")
	for i, p := range []int{200, 100, 100, 5} {
		require.NoError(t, q.PutPriority(ctx, []byte(strconv.Itoa(i)), p))
	}
	require.ErrorIs(t, q.PutPriority(ctx, nil, 1000), client.ErrBadArguments)
	n, err := q.Len(ctx)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	for _, want := range []string{"3", "1", "2", "0"} {
		item, err := q.Take(ctx)
		require.NoError(t, err)
		require.Equal(t, want, string(item))
	}
	got := make(chan string, 1)
	go func() {
		item, err := queue.New(other, "/q").Take(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- string(item)
	}()
	require.NoError(t, q.Put(ctx, []byte("late")))
	require.Equal(t, "late", <-got)

	// An item whose work fails stays; two consumers never have one at the same time; all are done in the end.
	for i := range 10 {
		require.NoError(t, q.Put(ctx, []byte(strconv.Itoa(i))))
	}
	boom := errors.New("boom")
	require.ErrorIs(t, q.Process(ctx, func(context.Context, []byte, int64) error { return boom }), boom)
	var busy sync.Map
	var done atomic.Int32
	var all sync.WaitGroup
	for _, who := range []*client.Client{c, other} {
		all.Go(func() {
			for range 5 {
				err := queue.New(who, "/q").Process(ctx, func(_ context.Context, item []byte, _ int64) error {
					if _, taken := busy.LoadOrStore(string(item), true); taken {
						return fmt.Errorf("%s twice", item)
					}
					done.Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 10, done.Load())
	require.NoError(t, c.Sync(ctx, "/"))
	n, err = q.Len(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
}

// The item of a consumer that dies wakes the one that waits.
func TestItemOfADeadConsumerIsProcessedAgain(t *testing.T) {
	ctx := guard(t)
	c, dying := dial(ctx, t), dial(ctx, t)
	require.NoError(t, queue.New(c, "/q").Put(ctx, []byte("job")))
	claimed, done := make(chan struct{}), make(chan int64, 1)
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		queue.New(dying, "/q").Process(ctx, func(ctx context.Context, _ []byte, _ int64) error {
			close(claimed)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	<-claimed
	heir := make(chan error, 1)
	go func() {
		heir <- queue.New(c, "/q").Process(ctx, func(_ context.Context, _ []byte, token int64) error {
			done <- token
			return nil
		})
	}()
	require.NoError(t, dying.Close())
	require.NotZero(t, <-done)
	<-dead
	require.NoError(t, <-heir)
	n, err := queue.New(c, "/q").Len(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestCounter(t *testing.T) {
	ctx := guard(t)
	c := dial(ctx, t)
	n := counter.New(c, "/deep/counter")
	v, err := n.Value(ctx)
	require.NoError(t, err)
	require.Zero(t, v)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				if _, err := n.Add(ctx, 2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	v, err = n.Add(ctx, -1)
	require.NoError(t, err)
	require.EqualValues(t, 79, v)
	create(ctx, t, c, "/text", "x")
	_, err = counter.New(c, "/text").Add(ctx, 1)
	require.ErrorIs(t, err, strconv.ErrSyntax)
}

func TestPresenceSurvivesItsSession(t *testing.T) {
	ours(t)
	ctx := guard(t)
	c := dial(ctx, t)
	var w wire
	root := root(t)
	open := func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, servers()+root, client.WithDialer(w.dial), client.WithSessionTimeout(time.Second))
	}
	p := presence.Join(open, "/group", "me", []byte("v1"))
	defer p.Close()
	<-p.Up()
	require.NoError(t, c.Sync(ctx, "/"))
	members, err := presence.Members(ctx, c, "/group")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"me": []byte("v1")}, members)
	steps := 0
	for members, err := range presence.Watch(ctx, c, "/group") {
		require.NoError(t, err)
		switch steps++; {
		case steps == 1:
			require.Len(t, members, 1)
			w.set(true) // until the session has expired
		case len(members) == 0:
			w.set(false)
		}
		if steps > 1 && len(members) == 1 {
			break
		}
	}
	p.Set([]byte("v2"))
	require.Eventually(t, func() bool {
		data, _, err := c.Get(ctx, "/group/me")
		return err == nil && string(data) == "v2"
	}, patience, time.Millisecond)
	require.NoError(t, c.Delete(ctx, "/group/me", client.AnyVersion))
	require.Eventually(t, func() bool { _, found, _ := c.Exists(ctx, "/group/me"); return found }, patience, time.Millisecond)
	p.Close()
	require.NoError(t, c.Sync(ctx, "/"))
	_, found, err := c.Exists(ctx, "/group/me")
	require.NoError(t, err)
	require.False(t, found)
}

func TestSettings(t *testing.T) {
	needs(t, 6)
	ctx := guard(t)
	c := dial(ctx, t)
	create(ctx, t, c, "/s", "")
	s, err := settings.Load(ctx, c, "/s")
	require.NoError(t, err)
	require.Empty(t, s.Values)
	values := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	s.Values = values
	require.NoError(t, s.Save(ctx))
	require.ErrorIs(t, s.Save(ctx), settings.ErrChanged)
	seen := 0
	for s, err := range settings.Follow(ctx, c, "/s") {
		require.NoError(t, err)
		if string(s.Values["a"]) == "3" {
			require.Equal(t, map[string][]byte{"a": []byte("3"), "c": nil}, s.Values)
			break
		}
		require.Equal(t, values, s.Values)
		if seen++; seen == 1 {
			s.Values["a"], s.Values["c"] = []byte("3"), nil
			delete(s.Values, "b")
			require.NoError(t, s.Save(ctx))
		}
	}
}

// Recipes that need what an old server does not know say so at once, each of them, though that server cuts the connection.
func TestOldServersAreNamed(t *testing.T) {
	if minorVersion(t) >= 6 {
		t.Skip("these servers are new enough")
	}
	ctx := guard(t)
	c := dial(ctx, t)
	create(ctx, t, c, "/s", "")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, open := range []func(context.Context, *client.Client, string) (*cache.Tree, error){cache.NewNode, cache.NewChildren, cache.NewTree} {
				if _, err := open(ctx, c, "/s"); !errors.Is(err, recipes.ErrOldServer) || !errors.Is(err, client.ErrUnimplemented) {
					t.Error(err)
				}
			}
			for _, err := range settings.Follow(ctx, c, "/s") {
				if !errors.Is(err, recipes.ErrOldServer) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	_, err := settings.Load(ctx, c, "/s")
	for errors.Is(err, client.ErrConnectionLoss) { // the last refusal's
		_, err = settings.Load(ctx, c, "/s")
	}
	require.NoError(t, err)
}

func TestCaches(t *testing.T) {
	needs(t, 6)
	ctx := guard(t)
	var w wire
	c, other := dial(ctx, t, client.WithDialer(w.dial)), dial(ctx, t)
	create(ctx, t, other, "/top", "0")
	create(ctx, t, other, "/top/a", "1")
	create(ctx, t, other, "/top/a/x", "2")
	require.NoError(t, c.Sync(ctx, "/top")) // its server may be behind the other's
	node, err := cache.NewNode(ctx, c, "/top/n")
	require.NoError(t, err)
	defer node.Close()
	kids, err := cache.NewChildren(ctx, c, "/top")
	require.NoError(t, err)
	defer kids.Close()
	tree, err := cache.NewTree(ctx, c, "/top")
	require.NoError(t, err)
	defer tree.Close()
	require.True(t, tree.Fresh())
	require.Len(t, tree.All(), 3)
	require.Len(t, kids.All(), 2)
	require.Equal(t, []string{"a"}, tree.Children("/top"))
	settled := func(t2 *cache.Tree, path, want string) {
		t.Helper()
		require.Eventually(t, func() bool { e, ok := t2.Get(path); return ok && string(e.Data) == want }, patience, time.Millisecond)
	}
	create(ctx, t, other, "/top/n", "new")
	settled(node, "/top/n", "new")
	settled(kids, "/top/n", "new")
	settled(tree, "/top/n", "new")
	<-tree.Changes()
	w.set(true)
	_, err = other.Set(ctx, "/top/a/x", []byte("changed"), client.AnyVersion)
	require.NoError(t, err)
	require.NoError(t, other.Delete(ctx, "/top/n", client.AnyVersion))
	w.set(false)
	settled(tree, "/top/a/x", "changed")
	require.Eventually(t, func() bool { _, ok := node.Get("/top/n"); return !ok && node.Fresh() }, patience, time.Millisecond)
	_, ok := kids.Get("/top/a/x")
	require.False(t, ok)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return errors.Is(tree.Err(), client.ErrClosed) }, patience, time.Millisecond)
}
