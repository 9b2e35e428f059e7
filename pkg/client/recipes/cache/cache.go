// Package cache keeps local copies: of one node, of a node's children, or of a whole subtree.
//
// Guarantee: once the servers are quiet and can be reached, the copy becomes equal to what they hold; a node's copy never
// goes back to an older version. Changes reports that the copy has changed since it was last looked at, never that it has
// not. Failure modes: the copy is as old as the way to the server and back, and as the lost connection while Fresh says
// false; it must not decide what only a versioned write can decide.
//
// Caches need servers with watches that stay (ZooKeeper 3.6); with older ones each New fails with recipes.ErrOldServer, and
// client.FollowNode and client.FollowChildren do for single nodes. A Tree asks for a node again after each of its events, and for
// everything after an EventMissed.
package cache

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes"
	"github.com/zkd-project/zkd/proto"
)

// Entry is the copy of one node.
type Entry struct {
	Data []byte // must not be changed
	Stat client.Stat
}

// Tree is the copy of a subtree. Its methods may be called from any goroutine.
type Tree struct {
	c      *client.Client
	root   string
	depth  int // levels below root that are kept, -1 for all
	stream *client.Stream
	stop   context.CancelFunc
	done   chan struct{}

	mu      sync.RWMutex
	entries map[string]Entry
	fresh   bool
	err     error
	changes chan struct{}
}

// NewNode keeps the copy of one node, which need not exist. ErrOldServer of package recipes, here and below.
func NewNode(ctx context.Context, c *client.Client, path string) (*Tree, error) {
	return open(ctx, c, path, 0)
}

// NewChildren keeps the copies of a node and of its children.
func NewChildren(ctx context.Context, c *client.Client, path string) (*Tree, error) {
	return open(ctx, c, path, 1)
}

// NewTree keeps the copy of a node and of everything below it.
func NewTree(ctx context.Context, c *client.Client, path string) (*Tree, error) {
	return open(ctx, c, path, -1)
}

// open returns when the copy is complete for the first time.
func open(ctx context.Context, c *client.Client, root string, depth int) (*Tree, error) {
	mode := client.WatchTree
	if depth == 0 {
		mode = client.WatchNode
	}
	stream, err := recipes.Watch(ctx, c, root, mode)
	if err != nil {
		return nil, err
	}
	t := &Tree{c: c, root: root, depth: depth, stream: stream, done: make(chan struct{}),
		entries: map[string]Entry{}, changes: make(chan struct{}, 1)}
	if err := t.load(ctx); err != nil {
		stream.Stop()
		return nil, err
	}
	var run context.Context
	run, t.stop = context.WithCancel(context.Background())
	go t.run(run)
	return t, nil
}

// Close forgets the watch; the copy stays as it is.
func (t *Tree) Close() {
	t.stop()
	<-t.done
	t.stream.Stop()
}

// Get returns the copy of a node.
func (t *Tree) Get(path string) (Entry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, ok := t.entries[path]
	return e, ok
}

// Children returns the names of the copied children of a node, sorted.
func (t *Tree) Children(path string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var names []string
	for p := range t.entries {
		if p != "/" && proto.Parent(p) == path {
			names = append(names, p[strings.LastIndexByte(p, '/')+1:])
		}
	}
	slices.Sort(names)
	return names
}

// All returns the whole copy by path.
func (t *Tree) All() map[string]Entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.entries)
}

// Fresh reports whether every change that this client was told of is in the copy, and it is connected.
func (t *Tree) Fresh() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.c.State()
	return t.fresh && (s == client.StateConnected || s == client.StateReadOnly)
}

// Err returns nil until the copy is not kept up to date any more: the session has ended, or a server refused a read.
func (t *Tree) Err() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.err
}

// Changes returns a channel, the same every time, that holds one value when the copy has changed, or has ended, since the
// value before was taken.
func (t *Tree) Changes() <-chan struct{} { return t.changes }

func (t *Tree) tell() {
	select {
	case t.changes <- struct{}{}:
	default:
	}
}

func (t *Tree) run(ctx context.Context) {
	defer close(t.done)
	for {
		e, err := t.stream.Next(ctx)
		if err == nil {
			err = t.apply(ctx, e)
		}
		if err != nil {
			if ctx.Err() == nil {
				t.mu.Lock()
				t.err = err
				t.mu.Unlock()
				t.tell()
			}
			return
		}
	}
}

func (t *Tree) apply(ctx context.Context, e client.Event) error {
	t.setFresh(false)
	var err error
	switch {
	case e.Type == client.EventMissed:
		err = t.load(ctx)
	case !t.keeps(e.Path):
	case e.Type == client.EventNodeDeleted:
		t.drop(e.Path)
	default:
		err = t.read(ctx, e.Path)
	}
	if errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil {
		return nil // an EventMissed will follow
	}
	if err == nil && len(t.stream.C()) == 0 {
		t.setFresh(true)
	}
	return err
}

func (t *Tree) setFresh(fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = fresh
}

func (t *Tree) keeps(path string) bool {
	if t.depth < 0 {
		return true
	}
	below := strings.TrimPrefix(strings.TrimPrefix(path, strings.TrimSuffix(t.root, "/")), "/")
	return below == "" || strings.Count(below, "/") < t.depth
}

func (t *Tree) drop(path string) {
	t.mu.Lock()
	_, had := t.entries[path]
	delete(t.entries, path)
	t.mu.Unlock()
	if had {
		t.tell()
	}
}

// read copies one node again.
func (t *Tree) read(ctx context.Context, path string) error {
	data, stat, err := t.c.Get(ctx, path)
	switch {
	case errors.Is(err, client.ErrNoNode):
		t.drop(path)
		return nil
	case errors.Is(err, client.ErrNoAuth):
		t.drop(path) // what may not be read is not in the copy
		return nil
	case err != nil:
		return err
	}
	t.mu.Lock()
	old, had := t.entries[path]
	t.entries[path] = Entry{data, stat}
	t.mu.Unlock()
	if !had || old.Stat != stat {
		t.tell()
	}
	return nil
}

// load copies everything again.
func (t *Tree) load(ctx context.Context) error {
	found := map[string]Entry{}
	level := []string{t.root}
	for depth := 0; len(level) > 0 && (t.depth < 0 || depth <= t.depth); depth++ {
		next, err := t.loadLevel(ctx, level, found)
		if err != nil {
			return err
		}
		level = next
	}
	t.mu.Lock()
	changed := !maps.EqualFunc(t.entries, found, func(a, b Entry) bool { return a.Stat == b.Stat })
	t.entries, t.fresh = found, true
	t.mu.Unlock()
	if changed {
		t.tell()
	}
	return nil
}

// loadLevel copies nodes and lists the nodes below them.
func (t *Tree) loadLevel(ctx context.Context, paths []string, found map[string]Entry) (below []string, err error) {
	b := t.c.Batch(ctx)
	got := make([]*client.Got, len(paths))
	for i, p := range paths {
		got[i] = b.Get(p)
	}
	if err := b.Wait(); err != nil {
		return nil, err
	}
	for i, g := range got {
		switch {
		case errors.Is(g.Err, client.ErrNoNode), errors.Is(g.Err, client.ErrNoAuth):
			continue
		case g.Err != nil:
			return nil, g.Err
		}
		found[paths[i]] = Entry{g.Data, g.Stat}
		if g.Stat.NumChildren == 0 {
			continue
		}
		names, _, err := t.c.Children(ctx, paths[i])
		if err != nil && !errors.Is(err, client.ErrNoNode) {
			return nil, err
		}
		for _, name := range names {
			below = append(below, strings.TrimSuffix(paths[i], "/")+"/"+name)
		}
	}
	slices.SortFunc(below, cmp.Compare[string])
	return below, nil
}
