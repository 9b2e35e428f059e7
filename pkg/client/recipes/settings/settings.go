// Package settings reads and writes a set of values as one: the children of a node, their data being the values.
//
// Guarantee: Load returns the values as they were together at one moment of the server's history; Save stores all or
// nothing, and only if nothing has changed since the Set was loaded. Failure modes: Load tries again while the values
// change under it, so under constant change it may not end before its context; a Save whose answer is lost says so
// (OpError.MaybeApplied).
package settings

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
)

// ErrChanged says that somebody else has changed the values since they were loaded.
var ErrChanged = errors.New("settings have changed since they were loaded")

// Set is what Load found. Its user may change Values, not the bytes in it, and Save it.
type Set struct {
	Values map[string][]byte

	c        *client.Client
	dir      string
	loaded   map[string][]byte
	versions map[string]int32
	cversion int32
	zxids    map[string]int64
}

// Load reads the children of dir. ErrNoNode.
func Load(ctx context.Context, c *client.Client, dir string) (*Set, error) {
	last, err := collect(ctx, c, dir)
	for err == nil {
		var again *Set
		if again, err = collect(ctx, c, dir); err == nil && again.same(last) {
			return again, nil // nothing changed between the first and the second reading, so it was all there in between
		}
		last = again
	}
	return nil, err
}

func collect(ctx context.Context, c *client.Client, dir string) (*Set, error) {
	for {
		names, stat, err := c.Children(ctx, dir)
		if err != nil {
			return nil, err
		}
		s := &Set{c: c, dir: dir, loaded: map[string][]byte{}, versions: map[string]int32{}, zxids: map[string]int64{}, cversion: stat.Cversion}
		got := make([]*client.Got, len(names))
		b := c.Batch(ctx)
		for i, name := range names {
			got[i] = b.Get(dir + "/" + name)
		}
		if err := b.Wait(); err != nil {
			return nil, err
		}
		gone := false
		for i, g := range got {
			if errors.Is(g.Err, client.ErrNoNode) {
				gone = true
				continue
			}
			if g.Err != nil {
				return nil, g.Err
			}
			s.loaded[names[i]], s.versions[names[i]], s.zxids[names[i]] = g.Data, g.Stat.Version, g.Stat.Mzxid
		}
		if !gone {
			s.Values = maps.Clone(s.loaded)
			return s, nil
		}
	}
}

func (s *Set) same(t *Set) bool { return s.cversion == t.cversion && maps.Equal(s.zxids, t.zxids) }

// Save makes the children equal to s.Values in one transaction. ErrChanged if they are not what was loaded, for instance
// because s was saved before: load it again.
func (s *Set) Save(ctx context.Context) error {
	var m client.Multi
	for _, name := range slices.Sorted(maps.Keys(s.loaded)) {
		path := s.dir + "/" + name
		switch value, keep := s.Values[name]; {
		case !keep:
			m.Delete(path, s.versions[name])
		case string(value) == string(s.loaded[name]) && (value == nil) == (s.loaded[name] == nil):
			m.Check(path, s.versions[name])
		default:
			m.Set(path, value, s.versions[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if _, old := s.loaded[name]; !old {
			m.Create(s.dir+"/"+name, s.Values[name], client.Persistent, nil)
		}
	}
	if m.Len() == 0 {
		return nil
	}
	err := s.c.Multi(ctx, &m)
	for _, reason := range []error{client.ErrBadVersion, client.ErrNoNode, client.ErrNodeExists} {
		if errors.Is(err, reason) {
			return errors.Join(ErrChanged, err)
		}
	}
	return err
}

// Follow is a loop over the sets of values: the present one first, then the latest one after every change below dir. It
// needs servers with watches that stay (ZooKeeper 3.6), otherwise its one pair has recipes.ErrOldServer; Load and Save work
// with older ones too. The last pair has an error, unless the loop is left before.
func Follow(ctx context.Context, c *client.Client, dir string) iter.Seq2[*Set, error] {
	return func(yield func(*Set, error) bool) {
		changes, err := recipes.Watch(ctx, c, dir, client.WatchTree)
		if err != nil {
			yield(nil, err)
			return
		}
		defer changes.Stop()
		for {
			s, err := Load(ctx, c, dir)
			switch {
			case errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil:
				continue
			case err != nil:
				yield(nil, err)
				return
			}
			if !yield(s, nil) {
				return
			}
			if _, err := changes.Next(ctx); err != nil {
				yield(nil, err)
				return
			}
			for len(changes.C()) > 0 { // what is there already is in the next reading
				if _, err := changes.Next(ctx); err != nil {
					yield(nil, err)
					return
				}
			}
		}
	}
}
