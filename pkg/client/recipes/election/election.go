// Package election chooses one of many clients as the leader.
//
// Guarantee: at any moment of the servers' history at most one candidate is the leader; candidates lead in the order in
// which they came. A leader that dies is succeeded when its session expires.
//
// Failure modes: a leader that was stopped or cut off learns too late that it has been succeeded. Its work should run under
// Term.Context, and whatever it changes should refuse a Term.Token lower than the highest it has seen. What Leader and
// Observe tell was true at some server a moment ago.
//
// The layout is that of Python's kazoo (Election): the nodes are those of a lock and hold the candidates' names.
package election

import (
	"context"
	"errors"
	"iter"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
	"github.com/zkd-project/zkd/pkg/client/recipes/lock"
)

// Election is one election as seen by one client.
type Election struct {
	c   *client.Client
	dir string
}

// New returns the election whose candidates are the children of dir.
func New(c *client.Client, dir string) *Election { return &Election{c, dir} }

// Term is the time in which one candidate leads.
type Term struct{ held *lock.Held }

// Campaign waits until this candidate leads. name is what the others learn of it.
func (e *Election) Campaign(ctx context.Context, name string) (*Term, error) {
	h, err := lock.New(e.c, e.dir, lock.WithData([]byte(name))).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &Term{h}, nil
}

// Token returns the fencing token: greater than that of every earlier leader.
func (t *Term) Token() int64 { return t.held.Token() }

// Context ends with the term: by Resign, or, with cause recipes.ErrLost, as soon as this client knows that it is over.
func (t *Term) Context() context.Context { return t.held.Context() }

// Resign ends the term.
func (t *Term) Resign(ctx context.Context) error { return t.held.Release(ctx) }

// Leader tells who leads.
type Leader struct {
	Name  string
	Token int64 // of its term; 0 if nobody leads
}

// Leader returns the present leader; its Token is 0 if there is none.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	l, w, err := e.look(ctx)
	if w != nil {
		w.Stop()
	}
	return l, err
}

// Candidates returns the names of the leader and of those who wait, in order.
func (e *Election) Candidates(ctx context.Context) ([]string, error) {
	data, err := lock.New(e.c, e.dir).Contenders(ctx)
	var names []string
	for _, d := range data {
		names = append(names, string(d))
	}
	return names, err
}

// Observe is a loop over the leaders, the present one first; a Token of 0 says that nobody leads. Terms that are shorter
// than a look at them may be left out. The last pair has an error, unless the loop is left before.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		last := Leader{Token: -1}
		for {
			l, changed, err := e.look(ctx)
			switch {
			case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
				continue
			case err != nil:
				yield(Leader{}, err)
				return
			}
			if l != last && !yield(l, nil) {
				changed.Stop()
				return
			}
			last = l
			if _, err := changed.Wait(ctx); err != nil {
				changed.Stop()
				yield(Leader{}, err)
				return
			}
		}
	}
}

// look returns the leader and a watch that reports when there may be another.
func (e *Election) look(ctx context.Context) (Leader, *client.Watch, error) {
	for {
		names, _, changed, err := e.c.ChildrenW(ctx, e.dir)
		if errors.Is(err, client.ErrNoNode) {
			_, found, w, err := e.c.ExistsW(ctx, e.dir)
			if err != nil || !found {
				return Leader{}, w, err
			}
			w.Stop()
			continue
		}
		if err != nil {
			return Leader{}, nil, err
		}
		first, ok := recipes.First(names)
		if !ok {
			return Leader{}, changed, nil
		}
		data, stat, err := e.c.Get(ctx, e.dir+"/"+first.Name)
		if err == nil {
			return Leader{Name: string(data), Token: stat.Czxid}, changed, nil
		}
		changed.Stop()
		if !errors.Is(err, client.ErrNoNode) {
			return Leader{}, nil, err
		}
	}
}
