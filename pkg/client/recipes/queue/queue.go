// Package queue passes items from any number of producers to any number of consumers.
//
// Guarantee: an item that Put reported as stored is handed to at most one Take. Items are taken in the order of their
// priorities, lower ones first, and within one priority in the order in which the servers stored them; two consumers may of
// course finish out of order.
//
// Failure modes:
//
//   - Take removes the item before it is worked on: a consumer that dies then loses it. Process keeps the item until the
//     work is done and hands it to another consumer if the session ends before; such an item may be worked on twice, and
//     the fencing token tells the later one.
//   - If the connection breaks while Take removes an item, the client asks again; the item is then returned if the node is
//     gone, which another consumer may have done in that moment. Only then can two consumers have the same item.
//   - A Put whose answer is lost says so (OpError.MaybeApplied): the item may be there.
//   - An item is a node of the tree: at most 1 MiB, and a queue of a hundred thousand is slow to list.
//
// The layout is that of Python's kazoo (Queue): entry-PPP-NNNNNNNNNN.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
)

// DefaultPriority is that of Put. Priorities go from 0, which comes first, to 999.
const DefaultPriority = 100

// Queue is one queue as seen by one client.
type Queue struct {
	c      *client.Client
	dir    string
	claims string // where Process marks what is worked on
}

// New returns the queue whose items are the children of dir.
func New(c *client.Client, dir string) *Queue { return &Queue{c, dir, dir + "-claims"} }

// Put adds an item.
func (q *Queue) Put(ctx context.Context, item []byte) error {
	return q.PutPriority(ctx, item, DefaultPriority)
}

// PutPriority adds an item with a priority.
func (q *Queue) PutPriority(ctx context.Context, item []byte, priority int) error {
	if priority < 0 || priority > 999 {
		return fmt.Errorf("priority %d: %w", priority, client.ErrBadArguments)
	}
	if item == nil {
		item = []byte{}
	}
	path := fmt.Sprintf("%s/entry-%03d-", q.dir, priority)
	_, err := q.c.Create(ctx, path, item, client.PersistentSequential, nil)
	if !errors.Is(err, client.ErrNoNode) {
		return err
	}
	if err := q.c.CreateAll(ctx, q.dir, nil); err != nil {
		return err
	}
	_, err = q.c.Create(ctx, path, item, client.PersistentSequential, nil)
	return err
}

// Len returns how many items wait, or are worked on.
func (q *Queue) Len(ctx context.Context) (int, error) {
	names, _, err := q.c.Children(ctx, q.dir)
	if errors.Is(err, client.ErrNoNode) {
		return 0, nil
	}
	return len(entries(names)), err
}

func entries(names []string) []string {
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "entry-") })
	slices.Sort(names)
	return names
}

// Take removes the first item and returns it. It waits for one.
func (q *Queue) Take(ctx context.Context) ([]byte, error) {
	return each(ctx, q, q.take)
}

// each tries the items in order until use says that it took one, and waits for others.
func each[T any](ctx context.Context, q *Queue, use func(context.Context, string) (T, bool, error)) (T, error) {
	var none T
	if err := q.c.CreateAll(ctx, q.dir, nil); err != nil {
		return none, err
	}
	for names, err := range q.c.FollowChildren(ctx, q.dir) {
		if err != nil {
			return none, err
		}
		for _, name := range entries(names) {
			got, taken, err := use(ctx, name)
			if err != nil || taken {
				return got, err
			}
		}
	}
	return none, ctx.Err()
}

func (q *Queue) take(ctx context.Context, name string) ([]byte, bool, error) {
	path, sent := q.dir+"/"+name, false
	var data []byte
	for {
		got, stat, err := q.c.Get(ctx, path)
		switch {
		case errors.Is(err, client.ErrNoNode):
			return data, sent, nil // our own removal, if one is on its way
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case err != nil:
			return nil, false, err
		}
		data = got
		err = q.c.Delete(ctx, path, stat.Version)
		var oe *client.OpError
		switch {
		case err == nil:
			return data, true, nil
		case errors.Is(err, client.ErrNoNode):
			return data, sent, nil
		case errors.Is(err, client.ErrBadVersion):
		case errors.As(err, &oe) && errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			sent = sent || oe.MaybeApplied
		default:
			return nil, false, err
		}
	}
}

// Process waits for an item that nobody works on, calls f with it, and removes it if f returns nil. The context of f ends
// when the claim on the item is lost; token grows with every claim of the item. Otherwise the item stays for another try.
func (q *Queue) Process(ctx context.Context, f func(ctx context.Context, item []byte, token int64) error) error {
	for {
		done, err := q.processOne(ctx, f)
		if done || err != nil {
			return err
		}
	}
}

func (q *Queue) processOne(ctx context.Context, f func(context.Context, []byte, int64) error) (bool, error) {
	for _, dir := range []string{q.dir, q.claims} {
		if err := q.c.CreateAll(ctx, dir, nil); err != nil {
			return false, err
		}
	}
	// Both watches come before the look: a claim that ends, or an item that comes, afterwards ends the wait below.
	claimed, _, claims, err := q.c.ChildrenW(ctx, q.claims)
	if err != nil {
		return false, err
	}
	defer claims.Stop()
	names, _, items, err := q.c.ChildrenW(ctx, q.dir)
	if err != nil {
		return false, err
	}
	defer items.Stop()
	for _, name := range entries(names) {
		if slices.Contains(claimed, name) {
			continue
		}
		claim, err := recipes.Claim(ctx, q.c, q.claims, name)
		if err != nil {
			return false, err
		}
		if claim != nil {
			return q.workOn(ctx, claim, name, f)
		}
	}
	select {
	case <-items.C():
	case <-claims.C():
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, q.c.Err()
}

// workOn calls f for a claimed item, and gives the claim back. It returns false without an error if the item was gone.
func (q *Queue) workOn(ctx context.Context, claim *recipes.Place, name string, f func(context.Context, []byte, int64) error) (bool, error) {
	path := q.dir + "/" + name
	item, _, err := q.c.Get(ctx, path)
	if err == nil {
		work, stop := claim.Watch(ctx)
		err = f(work, item, claim.Token())
		stop()
		if err == nil {
			err = q.c.Delete(ctx, path, client.AnyVersion)
		}
	}
	left := claim.Leave(ctx)
	if errors.Is(err, client.ErrNoNode) {
		return false, left
	}
	return err == nil, errors.Join(err, left)
}
