// Package presence tells others that somebody is there: an ephemeral node that outlives its session, and groups of them.
//
// Guarantee: while a Presence runs and servers can be reached, its node exists, is ephemeral and holds the latest data, up
// to the time that it takes to notice and repair: after the session's end a new session is opened, after a deletion by
// somebody the node is made again. After Close it is gone.
//
// Failure modes: between the end of a session and its repair the node is missing; while no server can be reached the old
// one disappears after the session timeout. If the path exists and belongs to another session, Presence waits until that one
// goes: after a restart this is usually the old process's. Members tells what one server knew a moment ago.
package presence

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// retryPause is how long to wait after a failure that no watch will report the end of.
const retryPause = time.Second

// Presence keeps one ephemeral node alive.
type Presence struct {
	dial func(context.Context) (*client.Client, error)
	path string
	acl  []client.ACL
	stop context.CancelFunc
	done chan struct{}
	up   chan struct{} // closed when the node is there for the first time

	mu   sync.Mutex
	data []byte
	news chan struct{} // closed and replaced when data changes
	err  error         // of the latest failure, nil while the node is there
}

// Keep starts to keep an ephemeral node at path, whose parents it makes. dial opens a session, now and whenever the last one
// has ended; the Presence closes it. Close must be called.
func Keep(dial func(context.Context) (*client.Client, error), path string, data []byte, acl []client.ACL) *Presence {
	ctx, stop := context.WithCancel(context.Background())
	p := &Presence{dial: dial, path: path, acl: acl, data: append([]byte{}, data...), stop: stop,
		done: make(chan struct{}), up: make(chan struct{}), news: make(chan struct{})}
	go p.run(ctx)
	return p
}

// Up is closed when the node is there for the first time.
func (p *Presence) Up() <-chan struct{} { return p.up }

// Err returns nil while the node is there as far as is known, otherwise what is in the way.
func (p *Presence) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Set changes the node's data; it does not wait.
func (p *Presence) Set(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = append([]byte{}, data...)
	close(p.news)
	p.news = make(chan struct{})
}

// Close removes the node with its session.
func (p *Presence) Close() {
	p.stop()
	<-p.done
}

func (p *Presence) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if err == nil {
		select {
		case <-p.up:
		default:
			close(p.up)
		}
	}
}

func (p *Presence) current() ([]byte, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.data, p.news
}

func (p *Presence) run(ctx context.Context) {
	defer close(p.done)
	for ctx.Err() == nil {
		c, err := p.dial(ctx)
		if err != nil {
			p.note(err)
			pause(ctx)
			continue
		}
		for ctx.Err() == nil && c.Err() == nil {
			if err := p.round(ctx, c); err != nil && ctx.Err() == nil && c.Err() == nil {
				p.note(err)
				pause(ctx)
			}
		}
		p.note(c.Err())
		c.Close()
	}
}

func pause(ctx context.Context) {
	t := time.NewTimer(retryPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// round makes the node right and waits until something may be wrong with it.
func (p *Presence) round(ctx context.Context, c *client.Client) error {
	want, news := p.current()
	stat, found, changed, err := c.ExistsW(ctx, p.path)
	if err != nil {
		return err
	}
	defer changed.Stop()
	switch {
	case !found:
		if err := c.CreateAll(ctx, proto.Parent(p.path), p.acl); err != nil {
			return err
		}
		if _, err := c.Create(ctx, p.path, want, client.Ephemeral, p.acl); err != nil && !errors.Is(err, client.ErrNodeExists) {
			return err
		}
		return nil // look at what is there now
	case stat.EphemeralOwner != c.SessionID():
		p.note(client.ErrNodeExists)
	default:
		data, _, err := c.Get(ctx, p.path)
		if err != nil {
			return err
		}
		if string(data) != string(want) {
			_, err := c.Set(ctx, p.path, want, stat.Version)
			return err
		}
		p.note(nil)
	}
	select {
	case <-changed.C():
	case <-news:
	case <-ctx.Done():
	}
	return nil
}

// Join keeps a member of the group dir; see Keep.
func Join(dial func(context.Context) (*client.Client, error), dir, name string, data []byte) *Presence {
	return Keep(dial, dir+"/"+name, data, nil)
}

// Members returns the members of the group dir with their data.
func Members(ctx context.Context, c *client.Client, dir string) (map[string][]byte, error) {
	names, _, err := c.Children(ctx, dir)
	if errors.Is(err, client.ErrNoNode) {
		return map[string][]byte{}, nil
	}
	if err != nil {
		return nil, err
	}
	members := make(map[string][]byte, len(names))
	b := c.Batch(ctx)
	got := make([]*client.Got, len(names))
	for i, name := range names {
		got[i] = b.Get(dir + "/" + name)
	}
	if err := b.Wait(); err != nil {
		return nil, err
	}
	for i, g := range got {
		switch {
		case errors.Is(g.Err, client.ErrNoNode): // it left meanwhile
		case g.Err != nil:
			return nil, g.Err
		default:
			members[names[i]] = g.Data
		}
	}
	return members, nil
}

// Watch is a loop over the members of the group dir, which it makes if it is missing: the present ones first, then the
// latest ones after every arrival and departure. A change of a member's data alone is not reported. The last pair has an
// error, unless the loop is left before.
func Watch(ctx context.Context, c *client.Client, dir string) iter.Seq2[map[string][]byte, error] {
	return func(yield func(map[string][]byte, error) bool) {
		if err := c.CreateAll(ctx, dir, nil); err != nil {
			yield(nil, err)
			return
		}
		for _, err := range c.FollowChildren(ctx, dir) {
			var members map[string][]byte
			if err == nil {
				members, err = Members(ctx, c, dir)
			}
			if !yield(members, err) || err != nil {
				return
			}
		}
	}
}
