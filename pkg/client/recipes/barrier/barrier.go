// Package barrier holds clients back until something is there or until all are there.
//
// Barrier. Guarantee: Wait returns after the barrier's node was gone at some moment since Wait was called. Failure mode: the
// node is persistent, so a client that dies leaves the barrier closed; somebody has to open it.
//
// Double. Guarantee: Enter returns after n members were inside together, or after the ready node of such a moment was seen;
// Leave returns after all members have left or died. Failure modes: a member that dies while it waits is no longer counted,
// so the others wait for a replacement; one that is inside and dies counts as having left. A barrier can be used again once
// everybody has left.
//
// The layouts are those of Python's kazoo and Java's Curator (DistributedBarrier, DistributedDoubleBarrier).
package barrier

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
)

// Barrier is closed while its node exists.
type Barrier struct {
	c    *client.Client
	path string
}

// New returns the barrier whose node is path.
func New(c *client.Client, path string) *Barrier { return &Barrier{c, path} }

// Close closes the barrier; it is no error if it is closed already.
func (b *Barrier) Close(ctx context.Context) error { return b.c.CreateAll(ctx, b.path, nil) }

// Open lets everybody pass; it is no error if it is open already.
func (b *Barrier) Open(ctx context.Context) error {
	err := b.c.Delete(ctx, b.path, client.AnyVersion)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// Wait waits until the barrier is open.
func (b *Barrier) Wait(ctx context.Context) error {
	for {
		_, closed, changed, err := b.c.ExistsW(ctx, b.path)
		switch {
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case err != nil:
			return err
		case !closed:
			changed.Stop()
			return nil
		}
		if _, err := changed.Wait(ctx); err != nil {
			changed.Stop()
			return err
		}
	}
}

// Double lets n members in together and out together. Each Double is one member.
type Double struct {
	c    *client.Client
	dir  string
	n    int
	name string
}

// NewDouble returns a member of the barrier of n below dir.
func NewDouble(c *client.Client, dir string, n int) *Double {
	return &Double{c: c, dir: dir, n: n, name: recipes.NewID()}
}

func (d *Double) ready() string { return d.dir + "/ready" }
func (d *Double) mine() string  { return d.dir + "/" + d.name }

// Enter waits until n members are there. On an error this one is not counted any more, unless the session is about to end.
func (d *Double) Enter(ctx context.Context) error {
	if err := d.c.CreateAll(ctx, d.dir, nil); err != nil {
		return err
	}
	err := d.appear(ctx)
	if err == nil {
		err = d.gather(ctx)
	}
	if err != nil { // even if appear failed: its request may be on its way
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.c.SessionTimeout())
		defer cancel()
		return errors.Join(err, d.vanish(late))
	}
	return nil
}

func (d *Double) appear(ctx context.Context) error {
	for {
		_, err := d.c.Create(ctx, d.mine(), nil, client.Ephemeral, nil)
		switch {
		case errors.Is(err, client.ErrNodeExists):
			return nil
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue // the name is ours alone
		}
		return err
	}
}

func (d *Double) vanish(ctx context.Context) error {
	for {
		err := d.c.Delete(ctx, d.mine(), client.AnyVersion)
		switch {
		case errors.Is(err, client.ErrNoNode):
			return nil
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		}
		return err
	}
}

func (d *Double) gather(ctx context.Context) error {
	for {
		// The watch comes first: whoever completes the number afterwards makes the node that it reports.
		_, found, changed, err := d.c.ExistsW(ctx, d.ready())
		if errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		if found {
			changed.Stop()
			return nil
		}
		members, err := d.members(ctx)
		if err == nil && len(members) >= d.n {
			changed.Stop()
			err = d.c.CreateAll(ctx, d.ready(), nil)
			if err == nil {
				return nil
			}
		}
		if err == nil {
			_, err = changed.Wait(ctx)
		}
		changed.Stop()
		if err != nil && (!errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil) {
			return err
		}
	}
}

// members lists who is inside.
func (d *Double) members(ctx context.Context) ([]string, error) {
	names, _, err := d.c.Children(ctx, d.dir)
	return without(names, "ready"), err
}

func without(names []string, name string) []string {
	var out []string
	for _, n := range names {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}

// Leave waits until all members have left.
func (d *Double) Leave(ctx context.Context) error {
	if err := d.vanish(ctx); err != nil {
		return err
	}
	if err := d.c.Delete(ctx, d.ready(), client.AnyVersion); err != nil &&
		!errors.Is(err, client.ErrNoNode) && !errors.Is(err, client.ErrConnectionLoss) {
		return err
	}
	for names, err := range d.c.FollowChildren(ctx, d.dir) {
		switch {
		case errors.Is(err, client.ErrNoNode):
			return nil
		case err != nil:
			return err
		case len(without(names, "ready")) == 0:
			return nil
		}
	}
	return nil
}
