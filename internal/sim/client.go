package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// op is one request of a client and what became of it.
type op struct {
	client  int
	session txn.SessionID
	xid     int32
	kind    proto.Op
	path    string
	record  proto.Record // decoded request, for the model
	multi   []proto.MultiOp
	payload []byte
	watch   bool    // a read that leaves a watch
	rearms  []rearm // of a setWatches, with the zxid that the client has seen
	seen    txn.Zxid

	called time.Duration
	floor  txn.Zxid // largest zxid that anybody had been told when the request was made
	done   bool
	ended  time.Duration // when the answer came, and the answer, if porcupine is to see it
	got    outcome
	lost   bool // the connection broke: outcome unknown
	refuse bool // the client was told that it is not in the history
}

// client is one user: a session, one connection at a time, requests in a pipeline.
type client struct {
	w       *World
	n       int
	rng     *rand.Rand
	timeout int32
	rate    time.Duration // mean time between requests
	depth   int

	server   *node
	conn     uint64 // 0: none
	wire     uint64 // number of the last connection
	live     bool   // attached
	session  txn.SessionID
	password [16]byte
	xid      int32
	seen     txn.Zxid // largest zxid that the session was told
	synced   txn.Zxid // floor of reads since the last sync completed
	pending  []*op
	lastUp   time.Duration
	talked   time.Duration
	until    time.Duration // end of a burst's pause
	quiet    bool          // makes no new requests
	asleep   bool          // the process hangs: no pings, no reconnecting
	fixed    *node         // the only server that it uses, if not nil
	versions map[string]int32
	watchRng *rand.Rand
	armed    []armed // watches that have not fired
	// twice are the paths of which a deletion may be told twice: a client that takes along a watch of a znode and one of its children is told of
	// each, as by ZooKeeper. They hold until the reply to that.
	twice []string
}

func newClient(w *World, n int) *client {
	c := &client{w: w, n: n, rng: source(w.sc.Seed, "client", n), watchRng: source(w.sc.Seed, "watch", n), versions: map[string]int32{}}
	c.timeout = int32(between(c.rng, 2*time.Second, 8*time.Second) / time.Millisecond)
	c.rate = w.sc.Rate
	c.depth = 1 + c.rng.IntN(max(1, w.sc.Depth))
	return c
}

func (c *client) travel() time.Duration {
	return between(c.rng, 50*time.Microsecond, 600*time.Microsecond)
}

// start begins the client's life.
func (c *client) start() {
	c.w.after(between(c.rng, 0, 200*time.Millisecond), c.connect)
	c.work()
	c.ping()
}

// connect goes to some server.
func (c *client) connect() {
	if c.conn != 0 || c.asleep || c.w.ending && c.session == 0 && c.quiet {
		return
	}
	c.server = c.w.nodes[c.rng.IntN(len(c.w.nodes))]
	if c.fixed != nil {
		c.server = c.fixed
	}
	n := c.server
	c.wire++
	c.conn, c.live = c.wire, false
	wire := c.wire
	c.w.trace(0, "connect", uint64(c.n)<<8|uint64(n.id), nil)
	c.lastUp = 0
	id, password, timeout, seen := c.session, c.password, c.timeout, c.seen
	if !n.up || n.core == nil {
		c.w.after(c.travel(), func() { c.left(wire) })
		return
	}
	n.soon(c.travel(), func() { n.edge.accept(c, wire, id, password, timeout, seen) })
	c.w.after(3*time.Second, func() { // nobody answers
		if c.conn == wire && !c.live {
			c.left(wire)
		}
	})
}

// left: the connection is gone.
func (c *client) left(wire uint64) {
	if c.conn == wire {
		c.disconnected()
	}
}

// leave gives the connection up; the server may or may not see it.
func (c *client) leave() {
	if c.conn == 0 {
		return
	}
	if c.server.up && !chance(c.rng, 3) {
		c.arrive(c.server, c.conn, (*clientConn).shut)
	}
	c.disconnected()
}

// sleep lets the client fall silent, often for longer than its session lasts. The server sees nothing of it.
func (c *client) sleep() {
	c.asleep = true
	c.disconnected()
	c.w.after(between(c.rng, millis(c.timeout)/4, 3*millis(c.timeout)), func() {
		c.asleep = false
		c.connect()
	})
}

func (c *client) disconnected() {
	c.conn, c.live = 0, false
	c.w.trace(0, "cut off", uint64(c.n), nil)
	for _, o := range c.pending {
		o.lost = true
	}
	c.pending = nil
	c.w.after(between(c.rng, time.Millisecond, 100*time.Millisecond), c.connect)
}

func (c *client) attached(id txn.SessionID, password [16]byte) {
	c.w.trace(0, "attached", uint64(id), nil)
	if c.session == 0 {
		c.xid, c.seen, c.synced = 0, 0, 0
		c.session, c.password, c.armed = id, password, nil
	}
	c.live = true
	c.talked = c.w.now
	c.w.history.attached(c, id)
	c.takeAlong()
}

func (c *client) expired() {
	c.w.trace(0, "expired", uint64(c.session), nil)
	c.w.history.expired(c, c.session)
	c.session = 0
	clear(c.versions)
}

// replied takes one answer.
func (c *client) replied(o *op, out outcome) {
	c.talked = c.w.now
	if len(c.pending) == 0 || c.pending[0] != o {
		c.w.violate("I-30", 0, out.zxid, "client %d got the reply to cxid %d out of turn", c.n, o.xid)
		return
	}
	c.pending = c.pending[1:]
	o.done = true
	if c.w.Porcupine {
		o.ended, o.got = c.w.now, out
	}
	c.w.trace(0, "reply", uint64(out.zxid), nil)
	c.w.history.returned(c, o, out)
	if o.kind == proto.OpCloseSession && out.err == proto.OK {
		c.session = 0
		clear(c.versions)
	}
}

// ping keeps the session alive, and gives up a server that says nothing.
func (c *client) ping() {
	c.w.after(millis(c.timeout)/3, func() {
		if c.live {
			if len(c.pending) > 0 && c.w.now-c.talked > millis(c.timeout)*2/3 {
				c.leave()
			} else if c.server.up {
				c.arrive(c.server, c.conn, func(cc *clientConn) {
					cc.heard()
					cc.down(func(cl *client) { cl.talked = cl.w.now })
				})
			} else if c.w.now-c.talked > millis(c.timeout)*2/3 {
				c.leave()
			}
		}
		c.ping()
	})
}

// work makes requests, in bursts.
func (c *client) work() {
	c.w.after(around(c.rng, c.rate)+time.Microsecond, func() {
		if chance(c.rng, 40) && !c.w.asked {
			c.until = c.w.now + around(c.rng, 20*c.rate)
		}
		if c.live && !c.quiet && c.w.now >= c.until && len(c.pending) < c.depth {
			if chance(c.rng, 150) {
				c.leave() // moves
			} else if chance(c.rng, 400) && !c.w.ending {
				c.sleep()
			} else {
				o := c.choose()
				c.watching(o)
				c.request(o)
			}
		}
		c.work()
	})
}

// request sends one operation.
func (c *client) request(o *op) {
	c.xid++
	o.client, o.session, o.xid, o.called = c.n, c.session, c.xid, c.w.now
	o.floor = c.w.history.told
	c.w.history.invoked(o)
	c.pending = append(c.pending, o)
	c.w.trace(0, o.kind.String(), uint64(c.n)<<32|uint64(uint32(o.xid)), o.path)
	if c.server.up {
		c.arrive(c.server, c.conn, func(cc *clientConn) { cc.take(o) })
	}
}

// choose draws an operation.
func (c *client) choose() *op {
	r := c.rng
	key := fmt.Sprintf("/k%d", r.IntN(6))
	data := fmt.Appendf(nil, "c%d.%d", c.n, c.xid+1)
	if chance(r, 8) {
		data = make([]byte, r.IntN(2000))
	}
	switch x := r.IntN(100); {
	case x < 14:
		return createOp(key, data, proto.FlagPersistent)
	case x < 20:
		return createOp(fmt.Sprintf("%s/c%d", key, r.IntN(4)), data, proto.FlagPersistent)
	case x < 26:
		return createOp(fmt.Sprintf("/e%d", r.IntN(5)), data, proto.FlagEphemeral)
	case x < 32:
		return createOp(key+"/s", data, proto.FlagPersistentSequential)
	case x < 36:
		return createOp("/q-", data, proto.FlagEphemeralSequential)
	case x < 52:
		return setOp(key, data, c.version(key))
	case x < 58:
		return deleteOp(key, c.version(key))
	case x < 61:
		return deleteOp(fmt.Sprintf("%s/c%d", key, r.IntN(4)), -1)
	case x < 63:
		return deleteOp(fmt.Sprintf("/e%d", r.IntN(5)), -1)
	case x < 70:
		return multiOp(c.multi(key, data))
	case x < 84:
		return readOp(proto.OpGetData, key)
	case x < 88:
		return readOp(proto.OpExists, fmt.Sprintf("/e%d", r.IntN(5)))
	case x < 93:
		return readOp(proto.OpGetChildren2, []string{key, "/"}[r.IntN(2)])
	case x < 99:
		return &op{kind: proto.OpSync, path: key, payload: (&proto.SyncRequest{Path: key}).Append(nil)}
	default:
		if chance(r, 5) {
			return &op{kind: proto.OpCloseSession}
		}
		return readOp(proto.OpGetData, key)
	}
}

// version is the last one that this client saw, or any.
func (c *client) version(path string) int32 {
	if v, ok := c.versions[path]; ok && !chance(c.rng, 3) {
		return v
	}
	return -1
}

func (c *client) multi(key string, data []byte) []proto.MultiOp {
	ops := []proto.MultiOp{{Op: proto.OpSetData, Request: &proto.SetDataRequest{Path: key, Data: data, Version: -1}}}
	if chance(c.rng, 2) {
		ops = append(ops, proto.MultiOp{Op: proto.OpCheck, Request: &proto.CheckVersionRequest{Path: key, Version: c.version(key) + 1}})
	}
	ops = append(ops, proto.MultiOp{Op: proto.OpCreate, Request: &proto.CreateRequest{Path: key + "/m", Data: data, ACL: proto.OpenACL(),
		Flags: proto.FlagPersistentSequential}})
	if chance(c.rng, 3) {
		ops = append(ops, proto.MultiOp{Op: proto.OpDelete, Request: &proto.DeleteRequest{Path: fmt.Sprintf("%s/c%d", key, c.rng.IntN(4)), Version: -1}})
	}
	return ops
}

func createOp(path string, data []byte, flags proto.CreateFlags) *op {
	q := &proto.CreateRequest{Path: path, Data: data, ACL: proto.OpenACL(), Flags: flags}
	return &op{kind: proto.OpCreate2, path: path, record: q, payload: q.Append(nil)}
}

func setOp(path string, data []byte, version int32) *op {
	q := &proto.SetDataRequest{Path: path, Data: data, Version: version}
	return &op{kind: proto.OpSetData, path: path, record: q, payload: q.Append(nil)}
}

func deleteOp(path string, version int32) *op {
	q := &proto.DeleteRequest{Path: path, Version: version}
	return &op{kind: proto.OpDelete, path: path, record: q, payload: q.Append(nil)}
}

func multiOp(ops []proto.MultiOp) *op {
	return &op{kind: proto.OpMulti, multi: ops, payload: proto.AppendMulti(nil, ops)}
}

func readOp(kind proto.Op, path string) *op {
	return &op{kind: kind, path: path, payload: (&proto.PathWatchRequest{Path: path}).Append(nil)}
}
