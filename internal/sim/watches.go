package sim

import (
	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/statemachine"
)

// watch names a one-shot watch: of a znode, or of the list of its children.
type watch struct {
	path  string
	child bool
}

// hears reports whether an event of this type fires the watch.
func (wt watch) hears(typ proto.EventType) bool {
	switch typ {
	case proto.EventNodeDeleted:
		return true
	case proto.EventNodeChildrenChanged:
		return wt.child
	}
	return !wt.child
}

// watchTable is a server's: who is to be told, by number of the connection.
type watchTable map[watch]map[uint64]*clientConn

func (t watchTable) add(wt watch, c *clientConn) {
	if t[wt] == nil {
		t[wt] = map[uint64]*clientConn{}
	}
	t[wt][c.id] = c
}

// forget takes away what a connection watched.
func (t watchTable) forget(c *clientConn) {
	for wt, by := range t {
		if delete(by, c.id); len(by) == 0 {
			delete(t, wt)
		}
	}
}

// fire tells everybody who watches, once for each event, and uses the watches up.
func (t watchTable) fire(events []datatree.Event) {
	for _, ev := range events {
		told := map[uint64]*clientConn{}
		for _, child := range []bool{false, true} {
			wt := watch{ev.Path, child}
			if by := t[wt]; by != nil && wt.hears(ev.Type) {
				for id, c := range by {
					told[id] = c
				}
				delete(t, wt)
			}
		}
		for _, id := range sorted(told) {
			told[id].notify(ev.Type, ev.Path)
		}
	}
}

func (c *clientConn) notify(typ proto.EventType, path string) {
	c.down(func(cl *client) { cl.notified(typ, path) })
}

// register is done in one step with the read that asked for it.
func (c *clientConn) register(in statemachine.WatchIntent) {
	if in.Kind != statemachine.WatchNone {
		c.e.watches.add(watch{in.Path, in.Kind == statemachine.WatchChild}, c)
	}
}

// rearm takes over the watches that a client had on an earlier connection. What happened meanwhile is told at once.
func (c *clientConn) rearm(o *op) {
	for _, a := range o.rearms {
		stat, there := c.e.machine.Stat(a.path)
		switch {
		case a.absent && there:
			c.notify(proto.EventNodeCreated, a.path)
		case !a.absent && !there:
			c.notify(proto.EventNodeDeleted, a.path)
		case !a.absent && !a.child && stat.Mzxid > int64(o.seen):
			c.notify(proto.EventNodeDataChanged, a.path)
		case !a.absent && a.child && stat.Pzxid > int64(o.seen):
			c.notify(proto.EventNodeChildrenChanged, a.path)
		default:
			c.e.watches.add(a.watch, c)
		}
	}
}

// rearm is one watch in a client's setWatches.
type rearm struct {
	watch
	absent bool // the znode was not there
}

// watching draws whether a read leaves a watch.
func (c *client) watching(o *op) {
	switch o.kind {
	case proto.OpGetData, proto.OpExists, proto.OpGetChildren2:
		if chance(c.watchRng, c.w.sc.Watches) {
			o.watch = true
			o.payload = (&proto.PathWatchRequest{Path: o.path, Watch: true}).Append(nil)
		}
	}
}

// takeAlong tells a server of the watches that the session had elsewhere, before anything else is asked of it.
func (c *client) takeAlong() {
	if len(c.armed) == 0 {
		return
	}
	o := &op{kind: proto.OpSetWatches, seen: c.seen}
	c.twice = nil
	for _, a := range c.armed {
		o.rearms = append(o.rearms, rearm{a.watch, a.absent})
		if a.child && c.arm(watch{path: a.path}) != nil {
			c.twice = append(c.twice, a.path)
		}
	}
	c.request(o)
}
