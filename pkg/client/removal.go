package client

import (
	"context"

	"github.com/zkd-project/zkd/proto"
)

// WatchType says which watches RemoveWatches means.
type WatchType = proto.WatcherType

// The types. Streams count as AnyWatches.
const (
	ChildWatches = proto.WatcherChildren
	DataWatches  = proto.WatcherData
	AnyWatches   = proto.WatcherAny
)

// The events that end a Watch or a Stream which RemoveWatches took away.
const (
	EventDataWatchRemoved       = proto.EventDataWatchRemoved
	EventChildWatchRemoved      = proto.EventChildWatchRemoved
	EventPersistentWatchRemoved = proto.EventPersistentWatchRemoved
)

// RemoveWatches takes away all watches of this client on path, whoever set them; each gets an event that says so and ends.
// ErrNoWatcher if there is none. To give up one watch of one's own, stop it. If the error is another one, or local is
// true, which asks no server, the server may go on reporting to nobody.
func (c *Client) RemoveWatches(ctx context.Context, path string, typ WatchType, local bool) error {
	if typ != ChildWatches && typ != DataWatches && typ != AnyWatches {
		return &OpError{Op: proto.OpRemoveWatches, Path: path, Err: ErrBadArguments}
	}
	whole := c.addChroot(path)
	k, err := c.pathCall(proto.OpRemoveWatches, path, &proto.RemoveWatchesRequest{Path: whole, Type: typ})
	if err != nil {
		return err
	}
	if !c.hasWatches(whole, typ) {
		return k.fault(ErrNoWatcher)
	}
	if !local {
		if _, err := c.do(ctx, k); err != nil && codeOf(err) != ErrNoWatcher {
			return err
		}
	}
	c.dropWatches(whole, typ)
	return nil
}

func (c *Client) hasWatches(path string, typ WatchType) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind := range watchKinds {
		if kind.is(typ) && len(c.watches[kind][path]) > 0 {
			return true
		}
	}
	return typ == AnyWatches && len(c.streams[WatchNode][path])+len(c.streams[WatchTree][path]) > 0
}

func (k watchKind) is(typ WatchType) bool {
	return typ == AnyWatches || (k == childWatch) == (typ == ChildWatches)
}

func (c *Client) dropWatches(path string, typ WatchType) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := Event{State: c.state, Path: c.stripChroot(path)}
	for kind := range watchKinds {
		if kind.is(typ) {
			e.Type = EventDataWatchRemoved
			if kind == childWatch {
				e.Type = EventChildWatchRemoved
			}
			c.watches.fireKind(kind, path, e)
		}
	}
	if typ != AnyWatches {
		return
	}
	e.Type = EventPersistentWatchRemoved
	for mode := range c.streams {
		for _, s := range c.streams[mode][path] {
			s.sendLocked(e)
			s.endLocked()
		}
		delete(c.streams[mode], path)
	}
}

// Watched lists the paths that this client watches, by what it would be told of: data, children, or everything.
type Watched struct {
	Data, Children, Node, Tree []string // not sorted; of Watches the first two, of Streams the others
}

// Watched returns what is watched at this moment.
func (c *Client) Watched() Watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	var w Watched
	for kind := range watchKinds {
		list := &w.Data
		if kind == childWatch {
			list = &w.Children
		}
		for path := range c.watches[kind] {
			*list = append(*list, c.stripChroot(path))
		}
	}
	for path := range c.streams[WatchNode] {
		w.Node = append(w.Node, c.stripChroot(path))
	}
	for path := range c.streams[WatchTree] {
		w.Tree = append(w.Tree, c.stripChroot(path))
	}
	return w
}
