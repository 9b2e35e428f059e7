package client

import (
	"context"
	"errors"
	"iter"
)

// Node is one state of a node, as FollowNode reports it.
type Node struct {
	Exists bool
	Data   []byte
	Stat   Stat
}

// FollowNode is a loop over the states of a node: the present one at once, then the latest one after every change. Changes
// that come faster than the loop are seen as one. It goes on through lost connections; the last pair has an error,
// unless the loop is left before.
func (c *Client) FollowNode(ctx context.Context, path string) iter.Seq2[Node, error] {
	return follow(ctx, func() (Node, *Watch, error) {
		data, stat, w, err := c.GetW(ctx, path)
		if err == nil {
			return Node{Exists: true, Data: data, Stat: stat}, w, nil
		}
		if codeOf(err) != ErrNoNode {
			return Node{}, nil, err
		}
		_, found, w, err := c.ExistsW(ctx, path)
		if err == nil && found { // it came between the two
			w.Stop()
			return Node{}, nil, errAgain
		}
		return Node{}, w, err
	})
}

// FollowChildren is a loop over the sets of a node's children, like FollowNode. A missing node ends it with ErrNoNode.
func (c *Client) FollowChildren(ctx context.Context, path string) iter.Seq2[[]string, error] {
	return follow(ctx, func() ([]string, *Watch, error) {
		names, _, w, err := c.ChildrenW(ctx, path)
		return names, w, err
	})
}

// errAgain says that a read has to be repeated at once.
var errAgain = errors.New("read again")

func follow[T any](ctx context.Context, read func() (T, *Watch, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			value, w, err := read()
			switch {
			case err == errAgain, errors.Is(err, ErrConnectionLoss) && ctx.Err() == nil:
				continue // the next read waits for a connection
			case err != nil:
				yield(value, err)
				return
			}
			if !yield(value, nil) {
				w.Stop()
				return
			}
			if _, err := w.Wait(ctx); err != nil {
				w.Stop()
				var none T
				yield(none, err)
				return
			}
		}
	}
}
