package sim

import (
	"slices"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// armed is a watch that a client has and that has not fired. since is the zxid up to which the client knows that nothing happened.
type armed struct {
	watch
	since  txn.Zxid
	absent bool // it waits for the znode to be made
}

// watched takes the reply to a read that left a watch.
func (h *history) watched(c *client, o *op, out outcome) {
	wt := watch{o.path, o.kind == proto.OpGetChildren2}
	if o.watch && c.arm(wt) == nil && (out.err == proto.OK || o.kind == proto.OpExists) {
		c.armed = append(c.armed, armed{wt, out.zxid, out.err != proto.OK})
	}
}

// missed holds what a client watches against a reply: who is shown a zxid has been told of everything up to there (I-38).
func (h *history) missed(c *client, o *op, z txn.Zxid) {
	if o.kind == proto.OpSetWatches {
		h.rearmed(c, o, z)
		return
	}
	for _, a := range c.armed {
		if typ := h.model.changed(a.watch, a.since, z); typ != 0 {
			h.w.violate("I-38", 0, z, "client %d watches %s (children: %v) since %v and was shown %v before %v", c.n, a.path, a.child, a.since, z, typ)
			return
		}
	}
}

// rearmed: the watches that a client took along to another server either fired or begin anew. What came and went meanwhile is not told.
func (h *history) rearmed(c *client, o *op, z txn.Zxid) {
	c.twice = nil
	for _, r := range o.rearms {
		a := c.arm(r.watch)
		if a == nil {
			continue // it fired
		}
		s := h.model.nodes[r.path].at(z)
		changed := txn.Zxid(s.stat.Mzxid)
		if r.child {
			changed = txn.Zxid(s.stat.Pzxid)
		}
		if r.absent == s.exists || !r.absent && changed > o.seen {
			h.w.violate("I-38", 0, z, "client %d watches %s (children: %v) since %v, and was not told of what happened while it moved", c.n, r.path, r.child, o.seen)
			return
		}
		a.since, a.absent = z, !s.exists
	}
}

// notified is an event at the client: something that it watches must have happened, and it is told once.
func (c *client) notified(typ proto.EventType, path string) {
	c.talked = c.w.now
	c.w.count("event")
	m, had := c.w.history.model, len(c.armed)
	c.armed = slices.DeleteFunc(c.armed, func(a armed) bool {
		return a.path == path && a.hears(typ) && m.changed(a.watch, a.since, m.zxid) != 0
	})
	if i := slices.Index(c.twice, path); len(c.armed) == had && i >= 0 && typ == proto.EventNodeDeleted {
		c.twice = slices.Delete(c.twice, i, i+1)
		return
	}
	if len(c.armed) == had {
		c.w.violate("I-38", 0, 0, "client %d is told %v of %s, which it does not watch, or nothing happened", c.n, typ, path)
	}
}

// arm finds a watch that has not fired.
func (c *client) arm(wt watch) *armed {
	for i := range c.armed {
		if c.armed[i].watch == wt {
			return &c.armed[i]
		}
	}
	return nil
}

// changed is the first event that fires a watch in (after, to], 0 if there was none.
func (m *model) changed(wt watch, after, to txn.Zxid) proto.EventType {
	n := m.nodes[wt.path]
	if n == nil {
		return 0
	}
	was := n.at(after)
	for _, s := range n.since(after) {
		switch {
		case s.from > to:
			return 0
		case was.exists && !s.exists:
			return proto.EventNodeDeleted
		case wt.child && was.exists && s.stat.Pzxid != was.stat.Pzxid:
			return proto.EventNodeChildrenChanged
		case wt.child:
		case !was.exists && s.exists:
			return proto.EventNodeCreated
		case s.stat.Mzxid != was.stat.Mzxid:
			return proto.EventNodeDataChanged
		}
		was = s
	}
	return 0
}
