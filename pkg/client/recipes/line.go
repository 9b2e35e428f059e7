package recipes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
)

// ErrLost is the cause of everything that ends because a place in the line is gone: its session ended, or somebody deleted
// its node.
var ErrLost = errors.New("place in the line lost")

// leaveLimit bounds the removal of a place that was given up.
const leaveLimit = 5 * time.Second

// Naming makes the name of a node, up to its number, from an id that is unique.
type Naming func(id string) string

// Kazoo gives the names of Python's kazoo: an id, then word, such as "__lock__".
func Kazoo(word string) Naming { return func(id string) string { return id + word } }

// Curator gives the names of Java's Curator, which are also those of go-zookeeper: "_c_", an id, "-", then word, such as
// "lock-".
func Curator(word string) Naming {
	return func(id string) string {
		return "_c_" + id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:] + "-" + word
	}
}

// Contender is one place in a line.
type Contender struct {
	Name   string // of the node
	Prefix string // of the name, without the number
	Seq    int32
}

// Contenders returns the places in a line, in order. Children without a number are none. ErrNoNode if there is no line.
func Contenders(ctx context.Context, c *client.Client, dir string) ([]Contender, error) {
	names, _, err := c.Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	return order(names), nil
}

func order(names []string) []Contender {
	var line []Contender
	for _, name := range names {
		if prefix, seq, ok := CutSequence(name); ok {
			line = append(line, Contender{name, prefix, seq})
		}
	}
	slices.SortFunc(line, func(a, b Contender) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Name, b.Name))
	})
	return line
}

// CutSequence cuts the number off the name of a sequential node.
func CutSequence(name string) (prefix string, seq int32, ok bool) {
	const digits = 10
	if len(name) < digits {
		return "", 0, false
	}
	prefix, number := name[:len(name)-digits], name[len(name)-digits:]
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return "", 0, false
	}
	return prefix, int32(n), true
}

// NewID returns 32 random hexadecimal digits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Place is one's own place in a line.
type Place struct {
	c     *client.Client
	dir   string
	name  string
	token int64
}

// Join takes a place at the end of the line dir, which it makes if it is missing. The place is an ephemeral node that holds
// data. If the answer to its creation was lost, Join finds out what became of it. On an error no place is left behind,
// unless the session is about to end.
func Join(ctx context.Context, c *client.Client, dir string, naming Naming, data []byte, acl []client.ACL) (*Place, error) {
	prefix := naming(NewID())
	for {
		path, stat, err := c.CreateStat(ctx, dir+"/"+prefix, data, client.EphemeralSequential, acl)
		var oe *client.OpError
		switch {
		case err == nil:
			return &Place{c, dir, path[len(dir)+1:], stat.Czxid}, nil
		case errors.Is(err, client.ErrNoNode):
			if err := c.CreateAll(ctx, dir, acl); err != nil {
				return nil, err
			}
		case errors.As(err, &oe) && oe.MaybeApplied && ctx.Err() == nil:
			if p, err := find(ctx, c, dir, prefix); p != nil || err != nil {
				return p, err
			}
		default:
			if errors.As(err, &oe) && oe.MaybeApplied {
				go forget(c, dir, prefix)
			}
			return nil, err
		}
	}
}

// find looks for the place that a create without an answer may have taken.
func find(ctx context.Context, c *client.Client, dir, prefix string) (*Place, error) {
	for {
		err := c.Sync(ctx, dir) // this server may not know of the create yet
		var line []Contender
		if err == nil {
			line, err = Contenders(ctx, c, dir)
		}
		for _, k := range line {
			if k.Prefix != prefix {
				continue
			}
			stat, found, err := c.Exists(ctx, dir+"/"+k.Name)
			if err == nil && found {
				return &Place{c, dir, k.Name, stat.Czxid}, nil
			}
			if err != nil && !errors.Is(err, client.ErrConnectionLoss) {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case errors.Is(err, client.ErrNoNode):
			return nil, nil
		}
		return nil, err
	}
}

// forget gives a place back that its taker does not wait for any more. It ends with the client or after a while.
func forget(c *client.Client, dir, prefix string) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if p, err := find(ctx, c, dir, prefix); p != nil && err == nil {
		p.leave(ctx)
	}
}

// Claim takes the one place dir/name if nobody has it; the result is nil if somebody does. dir has to exist. On an error no
// place is left behind, unless the session is about to end.
func Claim(ctx context.Context, c *client.Client, dir, name string) (*Place, error) {
	id := []byte(NewID())
	p, err := claim(ctx, c, dir, name, id)
	if err != nil && ctx.Err() != nil {
		go unclaim(c, dir, name, id)
	}
	return p, err
}

// unclaim gives a place back that its taker did not wait for. It ends with the client or after a while.
func unclaim(c *client.Client, dir, name string, id []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if data, stat, err := c.Get(ctx, dir+"/"+name); err == nil && bytes.Equal(data, id) {
		(&Place{c, dir, name, stat.Czxid}).leave(ctx)
	}
}

func claim(ctx context.Context, c *client.Client, dir, name string, id []byte) (*Place, error) {
	path := dir + "/" + name
	for {
		_, stat, err := c.CreateStat(ctx, path, id, client.Ephemeral, nil)
		switch {
		case err == nil:
			return &Place{c, dir, name, stat.Czxid}, nil
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case !errors.Is(err, client.ErrNodeExists):
			return nil, err
		}
		data, stat, err := c.Get(ctx, path) // it may be ours, if the answer to an earlier try was lost
		switch {
		case err == nil && bytes.Equal(data, id):
			return &Place{c, dir, name, stat.Czxid}, nil
		case err == nil, errors.Is(err, client.ErrNoNode):
			return nil, nil
		case !errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil:
			return nil, err
		}
	}
}

// Path returns the path of the place's node.
func (p *Place) Path() string { return p.dir + "/" + p.name }

// Token returns the fencing token: greater than that of every place that was taken before, in any line.
func (p *Place) Token() int64 { return p.token }

// Turn says what a place waits for: one contender ahead of it, any change in the line, or nothing.
type Turn struct {
	Behind string // name of the contender to wait for, "" for none
	Any    bool   // wait for any change
}

// Wait waits until turn, given those ahead in order, returns the zero Turn. ErrLost if the place is gone. The place is kept
// whatever happens.
func (p *Place) Wait(ctx context.Context, turn func(ahead []Contender) Turn) error {
	for {
		names, _, changed, err := p.c.ChildrenW(ctx, p.dir)
		if errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		line := order(names)
		at := slices.IndexFunc(line, func(k Contender) bool { return k.Name == p.name })
		if at < 0 {
			changed.Stop()
			return ErrLost
		}
		t := turn(line[:at])
		if t.Any {
			if _, err := changed.Wait(ctx); err != nil {
				changed.Stop()
				return err
			}
			continue
		}
		changed.Stop()
		if t.Behind == "" {
			return nil
		}
		if err := p.waitFor(ctx, t.Behind); err != nil {
			return err
		}
	}
}

// waitFor waits until a node has changed or is gone.
func (p *Place) waitFor(ctx context.Context, name string) error {
	_, _, gone, err := p.c.GetW(ctx, p.dir+"/"+name)
	switch {
	case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
		return nil
	case err != nil:
		return err
	}
	if _, err = gone.Wait(ctx); err != nil {
		gone.Stop()
	}
	return err
}

// Ready asks once whether turn returns the zero Turn.
func (p *Place) Ready(ctx context.Context, turn func(ahead []Contender) Turn) (bool, error) {
	line, err := Contenders(ctx, p.c, p.dir)
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(line, func(k Contender) bool { return k.Name == p.name })
	if at < 0 {
		return false, ErrLost
	}
	return turn(line[:at]) == Turn{}, nil
}

// Watch returns a context that ends, with cause ErrLost, when the place is gone, and with ctx. Call stop to end it; it then
// waits until nothing of it runs.
func (p *Place) Watch(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.untilGone(held) {
			cancel(ErrLost)
		}
	}()
	return held, func() {
		cancel(context.Canceled)
		<-done
	}
}

// untilGone returns true when the place is gone, false when ctx ends before.
func (p *Place) untilGone(ctx context.Context) bool {
	for {
		_, _, changed, err := p.c.GetW(ctx, p.Path())
		switch {
		case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case ctx.Err() != nil:
			return false
		case err != nil:
			return true
		}
		if _, err := changed.Wait(ctx); err != nil {
			changed.Stop()
			return ctx.Err() == nil
		}
	}
}

// Leave gives the place back. It is given back even if ctx ends first, then after Leave has returned. It is no error if the
// place is gone already.
func (p *Place) Leave(ctx context.Context) error {
	err := p.leave(ctx)
	if err != nil && ctx.Err() != nil {
		go func() {
			late, cancel := context.WithTimeout(context.Background(), leaveLimit)
			defer cancel()
			p.leave(late)
		}()
	}
	return err
}

func (p *Place) leave(ctx context.Context) error {
	for {
		err := p.c.Delete(ctx, p.Path(), client.AnyVersion)
		switch {
		case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrSessionExpired), errors.Is(err, client.ErrClosed):
			return nil // the session's end took it
		case !errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil:
			return err
		}
		// It may have been deleted, and a claim's path may be somebody else's by now.
		if stat, found, err := p.c.Exists(ctx, p.Path()); err == nil && (!found || stat.Czxid != p.token) {
			return nil
		}
	}
}

// First returns the contender that is first among the children of a line.
func First(names []string) (Contender, bool) {
	line := order(names)
	if len(line) == 0 {
		return Contender{}, false
	}
	return line[0], true
}
