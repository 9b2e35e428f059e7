package sim

import (
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// outcome is a reply as it goes over the wire.
type outcome struct {
	zxid txn.Zxid
	err  proto.ErrCode
	body []byte
	lie  bool // from a state that is not the ensemble's, before anybody could know
}

// accept takes a client's first message: a new session, or one that it has.
func (e *edge) accept(c *client, wire uint64, id txn.SessionID, password [16]byte, timeout int32, seen txn.Zxid) {
	e.last++
	cc := &clientConn{e: e, id: uint64(e.n.boots)<<32 | e.last, c: c, wire: wire, timeout: timeout}
	e.conns[cc.id] = cc
	switch {
	case !e.serving || seen > e.machine.LastZxid() || id != 0 && e.machine.Secret() == nil: // cannot know the session yet
		cc.shut()
	case id == 0:
		cc.session, cc.waits = e.ids.Next(), true
		c.w.history.opening(cc.session, c)
		e.n.put(zab.Submit{Requests: []txn.Request{{Session: cc.session, Op: proto.OpCreateSession, Origin: e.n.id, Conn: cc.id,
			Payload: txn.AppendTimeout(nil, timeout)}}})
	default:
		cc.session, cc.waits = id, true
		if !session.CheckPassword(e.machine.Secret(), id, password[:]) {
			cc.expire()
			cc.shut()
			return
		}
		cc.askSession()
	}
}

func (c *clientConn) askSession() {
	e := c.e
	e.asked++
	id := uint64(e.n.boots)<<32 | e.asked
	e.asks[id] = c
	e.n.put(zab.RevalidateAsked{Revalidate: zab.Revalidate{ID: id, Session: c.session, TimeoutMillis: c.timeout,
		Held: c.state == claiming}})
}

func (c *clientConn) attach() {
	if old := c.e.bySes[c.session]; old != nil && old != c {
		old.shut()
	}
	c.e.bySes[c.session] = c
	c.state, c.waits = live, false
}

func (c *clientConn) welcome() {
	password := session.Password(c.e.machine.Secret(), c.session)
	s, from, epoch := c.session, c.e.n.id, c.e.epoch
	c.down(func(cl *client) {
		cl.w.history.moved(s, from, epoch)
		cl.attached(s, [16]byte(password))
	})
}

func (c *clientConn) expire() { c.down((*client).expired) }

// down sends something to the client, behind what was sent before; it is lost if the client has left meanwhile.
func (c *clientConn) down(do func(*client)) {
	w, cl, wire := c.e.n.w, c.c, c.wire
	at := max(w.now+cl.travel(), c.lastDown)
	c.lastDown = at
	w.at(at, func() {
		if cl.wire == wire && cl.conn != 0 {
			do(cl)
		}
	})
}

// shut closes the connection after what was sent.
func (c *clientConn) shut() { c.drop(true) }

func (c *clientConn) drop(tell bool) {
	if c.state == closed {
		return
	}
	c.state = closed
	c.queue = nil
	delete(c.e.conns, c.id)
	c.e.watches.forget(c)
	if c.e.bySes[c.session] == c {
		delete(c.e.bySes, c.session)
	}
	if tell {
		c.down((*client).disconnected)
	}
}

// heard: something came from the client.
func (c *clientConn) heard() {
	if !c.touched && c.state == live {
		c.touched = true
		c.e.touched = append(c.e.touched, c)
	}
}

// take is one request of the client.
func (c *clientConn) take(o *op) {
	if c.state == closed {
		return
	}
	c.heard()
	c.queue = append(c.queue, &request{o: o})
	c.advance()
}

func (c *clientConn) front() *request {
	if len(c.queue) == 0 {
		return nil
	}
	return c.queue[0]
}

// advance answers, executes and starts what can be, in order.
func (c *clientConn) advance() {
	for c.state == live {
		r := c.front()
		if r == nil || r.progress == 1 || r.progress == 0 && r.barrier() {
			break
		}
		c.queue = c.queue[1:]
		zxid := c.e.machine.LastZxid()
		if r.progress == 2 {
			c.reply(r.o, outcome{zxid: zxid, err: r.err})
			continue
		}
		if r.o.kind == proto.OpSetWatches {
			c.rearm(r.o)
			c.reply(r.o, outcome{zxid: zxid})
			continue
		}
		body, watch, code := c.e.machine.Read(r.o.kind, r.o.payload, nil, nil, nil)
		c.register(watch)
		c.reply(r.o, outcome{zxid: zxid, err: code, body: body, lie: c.e.n.w.checks.book(c.e.n).lied})
	}
	c.begin()
}

// begin submits writes and asks for syncs as early as they may be; nothing passes a sync.
func (c *clientConn) begin() {
	if c.state != live {
		return
	}
	e := c.e
	var reqs []txn.Request
	for _, r := range c.queue {
		if r.o.kind == proto.OpSync {
			if r.progress == 0 {
				r.progress = 1
				e.asked++
				r.sync = uint64(e.n.boots)<<32 | e.asked
				e.asks[r.sync] = c
				if len(reqs) > 0 {
					e.n.put(zab.Submit{Requests: reqs})
					reqs = nil
				}
				e.n.put(zab.SyncAsked{ID: r.sync})
			}
			if r.progress == 1 {
				break
			}
			continue
		}
		if r.progress == 0 && r.barrier() {
			r.progress = 1
			reqs = append(reqs, txn.Request{Session: c.session, Cxid: r.o.xid, Op: r.o.kind, Origin: e.n.id, Conn: c.id, Payload: r.o.payload})
		}
	}
	if len(reqs) > 0 {
		e.n.put(zab.Submit{Requests: reqs})
	}
}

func (c *clientConn) reply(o *op, out outcome) {
	c.e.n.w.checks.onSaid(c.e.n, o)
	c.down(func(cl *client) { cl.replied(o, out) })
}

// arrive hands do to the server behind what the client sent before, if the connection still stands there.
func (cl *client) arrive(n *node, wire uint64, do func(*clientConn)) {
	w := cl.w
	at := max(w.now+cl.travel(), cl.lastUp+time.Nanosecond)
	cl.lastUp = at
	life := n.life
	n.at(at-w.now, life, func() {
		for _, id := range sorted(n.edge.conns) {
			if c := n.edge.conns[id]; c.c == cl && c.wire == wire {
				do(c)
				return
			}
		}
	})
}
