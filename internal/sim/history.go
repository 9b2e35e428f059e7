package sim

import (
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// history holds what clients were told against the committed history and the model.
type history struct {
	w     *World
	model *model
	ops   map[call]*op
	ran   map[call]txn.Zxid
	want  map[call]expected
	told  txn.Zxid // largest zxid of a reply that some client has
	opens map[txn.SessionID]*client
	ended map[txn.SessionID]txn.Zxid

	kept     []*op // all, in the order in which they were asked, for porcupine
	suffixes map[family][]suffix
	homes    map[txn.SessionID]home
	done     int // operations that were answered
	asked    int
}

// call names a request: xids are not used twice within a session.
type call struct {
	session txn.SessionID
	xid     int32
}

func newHistory(w *World) *history {
	return &history{w: w, model: newModel(), ops: map[call]*op{}, ran: map[call]txn.Zxid{}, want: map[call]expected{},
		opens: map[txn.SessionID]*client{}, ended: map[txn.SessionID]txn.Zxid{}, suffixes: map[family][]suffix{}, homes: map[txn.SessionID]home{}}
}

// opening: a server made up a session id.
func (h *history) opening(id txn.SessionID, c *client) { h.opens[id] = c }

func (h *history) invoked(o *op) {
	h.asked++
	h.ops[call{o.session, o.xid}] = o
	if h.w.Porcupine {
		h.kept = append(h.kept, o)
	}
}

// committed is the next record of the one history.
func (h *history) committed(r *txn.Record, t *txn.Txn) {
	w := h.w
	k := call{t.Session, t.Cxid}
	var ask *op
	if t.Conn != 0 && t.Op != proto.OpCreateSession {
		ask = h.ops[k]
		if ask == nil {
			w.violate("I-1", 0, r.Zxid, "a request was committed that no client made: %v cxid %d %v", t.Session, t.Cxid, t.Op)
			return
		}
		if before, twice := h.ran[k]; twice {
			w.violate("I-35", 0, r.Zxid, "cxid %d of session %v was carried out at %v and again", t.Cxid, t.Session, before)
			return
		}
		h.ran[k] = r.Zxid
		if at := h.homes[t.Session]; at.server == t.Origin {
			at.wrote = true
			h.homes[t.Session] = at
		}
		if ask.refuse {
			w.violate("I-34", 0, r.Zxid, "cxid %d of session %v was refused and carried out", t.Cxid, t.Session)
			return
		}
		if r.Zxid <= ask.floor {
			w.violate("I-29", 0, r.Zxid, "the write was asked for when somebody had been told %v", ask.floor)
			return
		}
	}
	if t.Op == proto.OpCreateSession && h.model.ever[t.Session] {
		w.violate("I-41", 0, r.Zxid, "session id %v is used again", t.Session)
		return
	}
	if t.Op == proto.OpCloseSession && h.model.sessions[t.Session] {
		h.ended[t.Session] = r.Zxid
		if t.Conn == 0 {
			w.count("expired")
		}
	}
	e := h.model.step(r.Zxid, t, ask)
	if ask != nil {
		h.want[k] = e
	}
}

func (h *history) attached(c *client, id txn.SessionID) {
	if !h.model.ever[id] {
		h.w.violate("I-36", 0, 0, "client %d was given session %v, which was never opened", c.n, id)
	}
}

// moved: a client has its session through this server from now on.
func (h *history) moved(id txn.SessionID, to zab.ServerID, epoch txn.Epoch) {
	if was := h.homes[id]; was.server != to {
		h.homes[id] = home{server: to, epoch: epoch}
	}
}

// home is through whom a client has its session, since which epoch, and whether it has written there.
type home struct {
	server zab.ServerID
	epoch  txn.Epoch
	wrote  bool
}

// abroad: a write comes through a server that its session has left. The leader under whom it moved refuses it, and so does every later one
// when it has written since (I-42).
func (h *history) abroad(t *txn.Txn, epoch txn.Epoch) bool {
	home, ok := h.homes[t.Session]
	return ok && (home.epoch == epoch || home.wrote) && t.Conn != 0 && t.Origin != home.server && t.Op != proto.OpCloseSession && t.Op != proto.OpCreateSession
}

// expired: a client was told that its session is gone for ever.
func (h *history) expired(c *client, id txn.SessionID) {
	if h.model.sessions[id] {
		h.w.violate("I-36", 0, h.model.zxid, "client %d was told that session %v has ended, and it has not", c.n, id)
	}
}

// returned is a reply.
func (h *history) returned(c *client, o *op, out outcome) {
	w, k := h.w, call{o.session, o.xid}
	h.done++
	if out.zxid < c.seen {
		w.violate("I-31", 0, out.zxid, "client %d of session %v saw %v before", c.n, o.session, c.seen)
		return
	}
	if out.zxid > h.model.zxid {
		w.violate("I-33", 0, out.zxid, "client %d was told of a zxid that nobody has applied", c.n)
		return
	}
	bad := ""
	switch {
	case out.err == proto.ErrThrottledOp:
		o.refuse = true
		if z, ran := h.ran[k]; ran {
			w.violate("I-34", 0, z, "cxid %d of session %v was carried out and refused", o.xid, o.session)
		}
		return
	case o.kind == proto.OpSetWatches:
	case o.kind == proto.OpSync:
		c.synced = max(c.synced, o.floor)
		if out.zxid < o.floor {
			w.violate("I-32", 0, out.zxid, "a sync was answered at %v when %v was known", out.zxid, o.floor)
			return
		}
	case o.kind.IsWrite():
		z, ran := h.ran[k]
		if !ran || z != out.zxid {
			w.violate("I-33", 0, out.zxid, "the answer to cxid %d of session %v says %v, it was carried out at %v (%v)", o.xid, o.session, out.zxid, z, ran)
			return
		}
		e := h.want[k]
		bad = e.written(o, out)
		if bad != "" && o.kind == proto.OpMulti {
			w.violate("I-40", 0, out.zxid, "multi of client %d: %s", c.n, bad)
			return
		}
	default:
		if out.zxid < c.synced {
			w.violate("I-32", 0, out.zxid, "a read at %v after a sync that had to see %v", out.zxid, c.synced)
			return
		}
		if bad = h.model.read(o, out); out.lie {
			bad = ""
		}
		if o.kind != proto.OpGetChildren2 && out.err == proto.OK {
			c.versions[o.path] = h.model.nodes[o.path].at(out.zxid).stat.Version
		}
	}
	if bad != "" {
		w.violate("I-33", 0, out.zxid, "%v %s of client %d: %s", o.kind, o.path, c.n, bad)
		return
	}
	if h.missed(c, o, out.zxid); w.fail != nil {
		return
	}
	h.watched(c, o, out)
	h.numbers(o, out)
	c.seen = max(c.seen, out.zxid)
	h.told = max(h.told, out.zxid)
	delete(h.want, k)
}

// refused: a server says that a request is certainly not in the history.
func (h *history) refused(f zab.Refusal) {
	if f.Conn == 0 {
		return
	}
	k := call{f.Session, f.Cxid}
	if z, ran := h.ran[k]; ran && h.ops[k] != nil {
		h.w.violate("I-34", 0, z, "cxid %d of session %v was carried out and refused (%v)", f.Cxid, f.Session, f.Code)
		return
	}
	if o := h.ops[k]; o != nil {
		o.refuse = true
	}
}

// compare holds a whole tree against the model at its zxid.
func (h *history) compare(n *node) {
	m, w := n.edge.machine, h.w
	if m.LastZxid() != h.model.zxid {
		return
	}
	count := 4 // the root and the system's
	for _, path := range sorted(h.model.nodes) {
		s := h.model.nodes[path].now()
		if path == "/zookeeper" {
			continue
		}
		got, there := m.Stat(path)
		if there != s.exists || there && got != s.stat {
			w.violate("I-17", n.id, m.LastZxid(), "%s is %+v (%v), the model says %+v (%v)", path, got, there, s.stat, s.exists)
			return
		}
		if there && path != "/" {
			count++
		}
	}
	if m.NodeCount() != count {
		w.violate("I-17", n.id, m.LastZxid(), "%d znodes, the model has %d", m.NodeCount(), count)
		return
	}
	open := 0
	m.Sessions(func(id txn.SessionID, _ int32) bool {
		open++
		if !h.model.sessions[id] {
			w.violate("I-37", n.id, m.LastZxid(), "session %v is open, the model says that it is not", id)
		}
		return true
	})
	if open != len(h.model.sessions) {
		w.violate("I-37", n.id, m.LastZxid(), "%d sessions are open, the model has %d", open, len(h.model.sessions))
	}
}

// settle is how long the end of a budgeted run may take.
const settle = 40 * time.Second
