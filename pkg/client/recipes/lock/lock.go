package lock

import (
	"context"
	"errors"
	"strings"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
)

// ErrHeld says that TryAcquire would have had to wait.
var ErrHeld = errors.New("lock is held")

// Lock is one lock as seen by one client. Any number of goroutines may use it, each Acquire is a contender of its own: the
// lock is not reentrant.
type Lock struct {
	c      *client.Client
	dir    string
	naming recipes.Naming
	data   []byte
	acl    []client.ACL
	turn   func(ahead []recipes.Contender) recipes.Turn
}

// Option changes a lock.
type Option func(*settings)

type settings struct {
	curator bool
	data    []byte
	acl     []client.ACL
}

// WithCurator uses the names of Java's Curator and of go-zookeeper instead of kazoo's.
func WithCurator() Option { return func(s *settings) { s.curator = true } }

// WithData puts data into the nodes, to tell who waits. kazoo calls it the identifier.
func WithData(data []byte) Option { return func(s *settings) { s.data = data } }

// WithACL gives the nodes an access control list; by default everyone may do everything.
func WithACL(acl []client.ACL) Option { return func(s *settings) { s.acl = acl } }

func apply(opts []Option) settings {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	return s
}

func (s *settings) lock(c *client.Client, dir, kazoo, curator string, turn func([]recipes.Contender) recipes.Turn) *Lock {
	naming := recipes.Kazoo(kazoo)
	if s.curator {
		naming = recipes.Curator(curator)
	}
	return &Lock{c: c, dir: dir, naming: naming, data: s.data, acl: s.acl, turn: turn}
}

// New returns the lock whose contenders are the children of dir.
func New(c *client.Client, dir string, opts ...Option) *Lock {
	s := apply(opts)
	return s.lock(c, dir, "__lock__", "lock-", behindLast)
}

// behindLast waits for the one directly ahead.
func behindLast(ahead []recipes.Contender) recipes.Turn {
	if len(ahead) == 0 {
		return recipes.Turn{}
	}
	return recipes.Turn{Behind: ahead[len(ahead)-1].Name}
}

// NewReadWrite returns both sides of a read-write lock: readers share it, a writer has it alone. Whoever comes behind a
// waiting writer waits too, so writers do not starve.
func NewReadWrite(c *client.Client, dir string, opts ...Option) (read, write *Lock) {
	s := apply(opts)
	return s.lock(c, dir, "__rlock__", "__READ__", behindWriter), s.lock(c, dir, "__lock__", "__WRIT__", behindLast)
}

// behindWriter waits for the last writer ahead.
func behindWriter(ahead []recipes.Contender) recipes.Turn {
	for i := len(ahead) - 1; i >= 0; i-- {
		p := ahead[i].Prefix
		if !strings.HasSuffix(p, "__rlock__") && !strings.HasSuffix(p, "__READ__") {
			return recipes.Turn{Behind: ahead[i].Name}
		}
	}
	return recipes.Turn{}
}

// NewSemaphore returns a lock that n may hold at once.
func NewSemaphore(c *client.Client, dir string, n int, opts ...Option) *Lock {
	s := apply(opts)
	return &Lock{c: c, dir: dir, naming: recipes.Kazoo("-lease-"), data: s.data, acl: s.acl,
		turn: func(ahead []recipes.Contender) recipes.Turn { return recipes.Turn{Any: len(ahead) >= n} }}
}

// Held is a lock that was acquired.
type Held struct {
	place *recipes.Place
	ctx   context.Context
	stop  func()
}

// Acquire waits for the lock. The error is ctx's, the end of the session, or a refusal by the servers.
func (l *Lock) Acquire(ctx context.Context) (*Held, error) {
	p, err := recipes.Join(ctx, l.c, l.dir, l.naming, l.data, l.acl)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx, l.turn); err != nil {
		p.Leave(ctx)
		return nil, err
	}
	return hold(p), nil
}

// TryAcquire is Acquire, but fails with ErrHeld instead of waiting.
func (l *Lock) TryAcquire(ctx context.Context) (*Held, error) {
	p, err := recipes.Join(ctx, l.c, l.dir, l.naming, l.data, l.acl)
	if err != nil {
		return nil, err
	}
	ready, err := p.Ready(ctx, l.turn)
	if err == nil && ready {
		return hold(p), nil
	}
	if left := p.Leave(ctx); err == nil {
		err = errors.Join(ErrHeld, left)
	}
	return nil, err
}

// Do acquires the lock, calls f with a context that ends when the lock is lost, and releases it. The error is f's, or the
// lock's.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	h, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(ctx)
	undo := context.AfterFunc(h.Context(), func() { cancel(context.Cause(h.Context())) })
	err = f(work, h.Token())
	undo()
	cancel(nil)
	return errors.Join(err, h.Release(ctx))
}

// Contenders returns what the holders and those who wait gave WithData, in order.
func (l *Lock) Contenders(ctx context.Context) ([][]byte, error) {
	line, err := recipes.Contenders(ctx, l.c, l.dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, k := range line {
		data, _, err := l.c.Get(ctx, l.dir+"/"+k.Name)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func hold(p *recipes.Place) *Held {
	h := &Held{place: p}
	h.ctx, h.stop = p.Watch(context.Background())
	return h
}

// Token returns the fencing token: greater than that of every earlier holder.
func (h *Held) Token() int64 { return h.place.Token() }

// Context ends when the lock is released, or, with cause recipes.ErrLost, as soon as this client knows that it is lost. The
// servers may have given it to another one some time before.
func (h *Held) Context() context.Context { return h.ctx }

// Path returns the path of the holder's node.
func (h *Held) Path() string { return h.place.Path() }

// Release gives the lock back; see recipes.Place.Leave.
func (h *Held) Release(ctx context.Context) error {
	h.stop()
	return h.place.Leave(ctx)
}
