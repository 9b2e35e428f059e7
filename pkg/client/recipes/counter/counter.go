// Package counter is a number that many clients change.
//
// Guarantee: changes happen one after the other, none is lost, and Add returns the value right behind its own. Failure mode: a
// change whose answer is lost is not repeated; the error says that it may have happened (OpError.MaybeApplied). Under
// contention each change takes as many tries as others are faster; a counter is no place for thousands of writes a
// second.
//
// The layout is that of Python's kazoo (Counter with integers): the decimal number as text.
package counter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/zkd-project/zkd/pkg/client"
)

// Counter is one counter as seen by one client.
type Counter struct {
	c    *client.Client
	path string
}

// New returns the counter in the node path; a missing node counts as 0.
func New(c *client.Client, path string) *Counter { return &Counter{c, path} }

// Value returns the number as the client's server knows it; call Client.Sync before if it must be the latest.
func (n *Counter) Value(ctx context.Context) (int64, error) {
	v, _, err := n.get(ctx)
	if errors.Is(err, client.ErrNoNode) {
		return 0, nil
	}
	return v, err
}

func (n *Counter) get(ctx context.Context) (int64, client.Stat, error) {
	data, stat, err := n.c.Get(ctx, n.path)
	if err != nil || len(data) == 0 {
		return 0, stat, err
	}
	v, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0, stat, fmt.Errorf("%s is no counter: %w", n.path, err)
	}
	return v, stat, nil
}

// Add adds delta, which may be negative, and returns the sum. It wraps like an int64.
func (n *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	return n.Update(ctx, func(v int64) int64 { return v + delta })
}

// Update replaces the number v by f(v) and returns that. f may be called several times.
func (n *Counter) Update(ctx context.Context, f func(v int64) int64) (int64, error) {
	for {
		v, stat, err := n.get(ctx)
		switch {
		case errors.Is(err, client.ErrNoNode):
			if err := n.c.CreateAll(ctx, n.path, nil); err != nil {
				return 0, err
			}
			continue
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case err != nil:
			return 0, err
		}
		next := f(v)
		_, err = n.c.Set(ctx, n.path, strconv.AppendInt(nil, next, 10), stat.Version)
		if errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode) {
			continue
		}
		return next, err
	}
}
