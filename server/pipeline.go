package server

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
)

const (
	requestHeaderBytes = 8
	replyHeaderBytes   = 16

	// quick in entry.at: the request was answered when it came.
	quick time.Duration = -1
)

// Unless it says otherwise, the caller of what follows holds Replica.mu, for reading or writing, and conn.mu.

// takeFrame takes in one request. A read is answered on the spot if nothing waits before it; everything else queues.
func (c *conn) takeFrame(frame []byte, now time.Duration) error {
	if len(frame) < requestHeaderBytes {
		return fmt.Errorf("%w: frame of %d bytes", proto.ErrMarshalling, len(frame))
	}
	xid := int32(binary.BigEndian.Uint32(frame))
	op := proto.Op(binary.BigEndian.Uint32(frame[4:]))
	body := frame[requestHeaderBytes:]
	switch op {
	case proto.OpAuth:
		return c.authenticate(xid, body)
	case proto.OpSASL: // no provider: the answer is a null token, and to a null token the end
		var q proto.GetSASLRequest
		if q.Decode(proto.NewReader(body)) != nil || q.Token == nil {
			return fmt.Errorf("%w: SASL without a token", proto.ErrMarshalling)
		}
		c.reply(xid, 0, proto.OK, func(dst []byte) []byte { return proto.AppendBuffer(dst, nil) })
		return nil
	}
	c.traffic.lastAt = now
	e := entry{xid: xid, op: op, ids: c.ids, at: now}
	c.over = op == proto.OpCloseSession || !op.Known()
	switch {
	case c.readOnly.Load():
		c.placeReadOnly(&e)
	case c.local.Load():
		c.placeLocal(&e, body)
	}
	if c.q.len() == 0 && !e.barrier() && !c.early(&e) {
		e.body, e.at = body, quick
		c.execute(&e)
		return nil
	}
	e.body = slices.Clone(body)
	c.q.push(e)
	return nil
}

// early reports whether e needs the order of the znodes, which is still being made. Then it waits in its queue, not here: who holds Replica.mu holds up
// everybody. Replica.awaitOrder brings it on.
func (c *conn) early(e *entry) bool { return e.lists() && !c.rep.machine.Ordered() }

// advance answers, executes and starts what can be, in order, until enough is made to be written, or turnTime is over: there is something
// to be written then, and whoever writes it comes back.
func (c *conn) advance() { c.advanceTo(flushAt, c.rep.cfg.Now()+turnTime) }

// advanceTo is advance with bounds on out in bytes and on the time.
func (c *conn) advanceTo(bound int, until time.Duration) {
	for c.state == live && len(c.out) < bound && c.q.moved <= until {
		e := c.q.front()
		if e == nil || e.progress == underway || e.progress == fresh && (e.barrier() || c.early(e)) {
			break
		}
		if e.progress == answered {
			c.settle(e)
		} else {
			c.execute(e)
		}
		if c.state == live { // otherwise the queue is gone
			c.q.pop()
		}
	}
	c.start()
}

// goOn is advance for a goroutine that holds neither lock.
func (c *conn) goOn() {
	c.rep.mu.RLock()
	c.mu.Lock()
	if c.state == live {
		c.advance()
	}
	c.mu.Unlock()
	c.rep.mu.RUnlock()
	c.kick()
}

// start submits writes and asks for syncs as early as they may be: a write goes out while earlier ones are under way, but nothing
// passes a sync, since reads between the two would see too much, nor reads that would take long or must wait; and only so many bytes go together.
func (c *conn) start() {
	if c.state != live {
		return
	}
	var reqs []txn.Request
	for ; c.q.started < len(c.q.entries) && !c.syncAhead; c.q.started++ {
		e := &c.q.entries[c.q.started]
		if e.barrier() && (c.resting() || c.q.ahead > maxAhead || c.q.pending > 0 && c.q.pending+len(e.body) > maxPending) {
			break
		}
		if c.early(e) {
			break
		}
		switch {
		case !e.barrier():
			c.q.ahead += e.weight()
		case e.progress != fresh:
		case e.op == proto.OpSync:
			reqs = c.submit(reqs)
			c.begin(e)
			c.syncAhead = true
			e.sync = c.srv.askSync(c)
		default:
			c.begin(e)
			if e.upgrade {
				reqs = append(reqs, c.upgradeRequest())
			}
			c.writes++
			e.seq = c.writes
			if reqs == nil {
				reqs = make([]txn.Request, 0, len(c.q.entries)-c.q.started)
			}
			reqs = append(reqs, txn.Request{Session: c.session, Cxid: e.xid, Op: e.op, Origin: c.rep.cfg.SelfID, Conn: c.id,
				Payload: e.body, Auth: e.ids, Seq: e.seq})
		}
	}
	c.submit(reqs)
}

func (c *conn) begin(e *entry) {
	c.weigh(len(e.body))
	e.progress = underway
	c.q.waiting++
	c.q.pending += len(e.body)
	c.rep.outstanding.Add(1)
	c.rep.outstandingBytes.Add(int64(len(e.body)))
}

func (c *conn) submit(reqs []txn.Request) []txn.Request {
	if len(reqs) > 0 {
		c.srv.replicator.Submit(reqs, c.acting)
		c.submitted = c.submitted || c.acting
	}
	return nil
}

// finish marks an entry that was under way as answered.
func (c *conn) finish(e *entry, code proto.ErrCode) {
	e.progress, e.err = answered, code
	c.q.waiting--
	c.q.pending -= len(e.body)
	c.rep.outstanding.Add(-1)
	c.rep.outstandingBytes.Add(-int64(len(e.body)))
	if e.op == proto.OpSync {
		c.syncAhead = false
	}
	c.settleDown()
}

// settle makes the reply of an answered entry that was no transaction of its own: a sync or a refusal.
func (c *conn) settle(e *entry) {
	var q proto.SyncRequest
	var body func([]byte) []byte
	if e.op == proto.OpSync && e.err == proto.OK {
		body = q.Append
		if q.Decode(proto.NewReader(e.body)) != nil {
			e.err = proto.ErrMarshalling
		}
	}
	c.reply(e.xid, c.rep.machine.LastZxid(), e.err, body)
	c.took(e)
}

// complete makes the reply of a write that was applied; it must be the oldest that waits.
func (c *conn) complete(res *statemachine.Result) {
	if c.state != live {
		return // closed meanwhile
	}
	e := c.q.front()
	if e == nil || e.progress != underway || e.xid != res.Txn.Cxid || e.op != res.Txn.Op {
		c.shut("replies pile up before the one to " + res.Txn.Op.String())
		return
	}
	c.finish(e, res.HeaderErr())
	c.reply(e.xid, res.Zxid, res.HeaderErr(), res.AppendReply)
	c.took(e)
	if c.state == live { // otherwise the queue is gone
		c.q.pop()
	}
	if res.Txn.Op == proto.OpCloseSession {
		c.shut("session closed")
	}
}

// took notes that a request was answered, and how long it took; takeFrames does the latter for those that did not wait.
func (c *conn) took(e *entry) {
	c.traffic.answered(e)
	if e.at == quick {
		c.quick++
		return
	}
	c.q.moved = c.rep.cfg.Now()
	ms := (c.q.moved - e.at).Milliseconds()
	c.traffic.latency(ms)
	c.rep.stats.latency(ms)
}

// reply adds a frame to out; body appends what follows the header if err is OK.
func (c *conn) reply(xid int32, zxid txn.Zxid, err proto.ErrCode, body func([]byte) []byte) {
	out, mark := proto.BeginFrame(c.output())
	h := proto.ReplyHeader{Xid: xid, Zxid: int64(zxid), Err: err}
	out = h.Append(out)
	if err == proto.OK && body != nil {
		out = body(out)
	}
	c.out = proto.EndFrame(out, mark)
	c.framesOut++
	if zxid != 0 { // an answer to an auth packet is none to a request
		c.traffic.lastZxid = zxid
	}
	c.pushed()
}

// execute answers a request that needs only this server. e.body may alias the input.
func (c *conn) execute(e *entry) {
	if e.here {
		c.executeLocal(e)
		c.took(e)
		return
	}
	switch e.op {
	case proto.OpPing:
		c.reply(proto.XidPing, c.rep.machine.LastZxid(), proto.OK, nil)
	case proto.OpSetWatches, proto.OpSetWatches2:
		c.reply(e.xid, c.rep.machine.LastZxid(), c.setWatches(e), nil)
	case proto.OpAddWatch:
		code := c.addWatch(e.body)
		c.reply(e.xid, c.rep.machine.LastZxid(), code, func(dst []byte) []byte { return proto.AppendInt32(dst, 0) })
	case proto.OpRemoveWatches, proto.OpCheckWatches:
		c.reply(e.xid, c.rep.machine.LastZxid(), c.editWatches(e), nil)
	default:
		if !e.op.Known() {
			c.reply(e.xid, ^txn.Zxid(0), proto.ErrUnimplemented, nil)
			c.shut("unknown op " + e.op.String())
			return
		}
		c.read(e)
	}
	c.took(e)
}

// read answers a read of the tree and registers its watch.
func (c *conn) read(e *entry) {
	m := c.rep.machine
	out, mark := proto.BeginFrame(c.output())
	header := len(out)
	out = append(out, make([]byte, replyHeaderBytes)...)
	var w statemachine.WatchIntent
	var code proto.ErrCode
	if e.op == proto.OpGetEphemerals {
		out, code = m.ReadEphemerals(c.session, e.body, out)
	} else {
		out, w, code = m.Read(e.op, e.body, e.ids, out, &c.pivot)
	}
	zxid := m.LastZxid()
	h := proto.ReplyHeader{Xid: e.xid, Zxid: int64(zxid), Err: code}
	h.Append(out[header:header])
	c.out = proto.EndFrame(out, mark)
	if n := len(c.out) - header; n > c.srv.cfg.MaxFrame {
		c.noteLarge(e, n)
	}
	c.framesOut++
	c.traffic.lastZxid = zxid
	switch w.Kind {
	case statemachine.WatchNone:
	case statemachine.WatchChild:
		c.rep.watches.add(c, w.Path, watchChild)
	default:
		c.rep.watches.add(c, w.Path, watchData)
	}
	c.pushed()
}
