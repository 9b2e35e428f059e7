package difftest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/proto"
)

// slots is how many clients there are.
const slots = 5

// client is one of the clients, which has a connection to each server or to none.
type client struct {
	conns [2]*conn // both nil while not connected
	keys  [2]sessionKey
	alive bool // the session was opened and not closed through it
}

func (c *client) connected() bool { return c.conns[0] != nil }

// drop closes the client's connections.
func (c *client) drop() {
	for i, cn := range c.conns {
		if cn != nil {
			cn.close()
		}
		c.conns[i] = nil
	}
}

// runner takes steps against two servers.
type runner struct {
	addrs   [2]string
	known   *known
	clients [slots]client
	history []exchange
	keep    int // how many exchanges of the history are kept
	sent    int // requests, handshakes and words so far
	meant   map[string]int
}

// exchange is a step with both answers.
type exchange struct {
	step    step
	answers [2]answer
}

func (e exchange) String() string {
	if e.answers[0].String() == e.answers[1].String() {
		return fmt.Sprintf("%s\n    both\n%s", e.step, e.answers[0])
	}
	return fmt.Sprintf("%s\n    A\n%s    B\n%s", e.step, e.answers[0], e.answers[1])
}

func newRunner(a, b string, ensemble bool) *runner {
	return &runner{addrs: [2]string{a, b}, known: newKnown(ensemble), keep: 12, meant: map[string]int{}}
}

// close drops every connection.
func (r *runner) close() {
	for i := range r.clients {
		r.clients[i].drop()
	}
}

// record keeps the exchange and returns the difference of its answers, nil if there is none or it is meant.
func (r *runner) record(s step, answers [2]answer) *difference {
	r.history = append(r.history, exchange{s, answers})
	if len(r.history) > 2*r.keep {
		r.history = slices.Clone(r.history[len(r.history)-r.keep:])
	}
	d := r.known.compare(answers[0], answers[1])
	if d == nil {
		return nil
	}
	if c := meant(s, d); c != nil {
		r.meant[c.name]++
		return nil
	}
	return d
}

// take does one step on both servers. An error means that a server cannot be reached at all.
func (r *runner) take(s step) (*difference, error) {
	switch s.act {
	case doOpen, doAttach:
		return r.connect(s)
	case doCut:
		r.clients[s.slot].drop()
		return nil, nil
	case doBurst, doRaw:
		return r.burst(s)
	case doGreet:
		return r.greet(s)
	case doWord:
		r.sent++
		return r.record(s, r.askBoth(s.word)), nil
	case doExpire:
		return r.expire(s)
	case doSweep:
		return r.sweep(s)
	case doFlush:
		return r.flush()
	}
	return nil, fmt.Errorf("unknown action %d", s.act)
}

// flush pings every connected client, so that events that wait are seen.
func (r *runner) flush() (*difference, error) {
	for i := range r.clients {
		if !r.clients[i].connected() {
			continue
		}
		ping := step{act: doBurst, slot: i, requests: []request{{xid: proto.XidPing, op: proto.OpPing}}}
		if d, err := r.burst(ping); d != nil || err != nil {
			return d, err
		}
	}
	return nil, nil
}

// dialBoth connects a client to both servers.
func (r *runner) dialBoth(c *client) error {
	c.drop()
	for i, addr := range r.addrs {
		cn, err := dial(addr)
		if err != nil {
			c.drop()
			return err
		}
		c.conns[i] = cn
	}
	return nil
}

// handshake builds the first frame for one server.
func (r *runner) handshake(s step, side int) []byte {
	req := proto.ConnectRequest{TimeOut: s.timeout, Passwd: make([]byte, proto.PasswordBytes), ReadOnly: s.readOnly, HasReadOnly: s.hasReadOnly}
	if s.act == doAttach {
		key := r.clients[s.of].keys[side]
		req.SessionID, req.Passwd = key.id, key.password
	}
	switch s.pass {
	case rightPassword:
	case wrongPassword:
		req.Passwd = bytes.Repeat([]byte{7}, proto.PasswordBytes)
	case shortPassword:
		req.Passwd = []byte{}
	case nullPassword:
		req.Passwd = nil
	}
	switch s.seen {
	case seenNothing:
	case seenLatest:
		req.LastZxidSeen = r.latest(0, side)
	case seenFuture:
		req.LastZxidSeen = r.latest(0, side) + 1000
	case seenNegative:
		req.LastZxidSeen = -1
	}
	return proto.AppendFrame(nil, &req)
}

func (r *runner) latest(back, side int) int64 {
	p := r.known.zxids.recent(back)
	if side == 0 {
		return p.a
	}
	return p.b
}

// connect opens a session or takes one up. The client's old connection is cut before.
func (r *runner) connect(s step) (*difference, error) {
	c := &r.clients[s.slot]
	var of sessionKey
	if s.act == doAttach {
		of = r.clients[s.of].keys[0]
		if of.id == 0 || s.pass != rightPassword && r.holder(of.id, s.slot) != nil {
			return nil, nil
		}
	}
	first := [2][]byte{r.handshake(s, 0), r.handshake(s, 1)}
	if err := r.dialBoth(c); err != nil {
		return nil, err
	}
	r.sent++
	var answers [2]answer
	var keys [2]sessionKey
	for i, cn := range c.conns {
		cn.send(first[i])
	}
	for i, cn := range c.conns {
		answers[i], keys[i] = cn.shake()
	}
	if d := r.record(s, answers); d != nil {
		return d, nil
	}
	if keys[0].id == 0 {
		c.drop()
		return nil, nil
	}
	c.keys, c.alive = keys, true
	return r.robbed(s)
}

// holder returns another client than slot's with a live connection of the session.
func (r *runner) holder(id int64, slot int) *client {
	for i := range r.clients {
		if c := &r.clients[i]; i != slot && c.connected() && c.keys[0].id == id {
			return c
		}
	}
	return nil
}

// robbed watches the connection that loses its session to another one come to its end.
func (r *runner) robbed(s step) (*difference, error) {
	old := r.holder(r.clients[s.slot].keys[0].id, s.slot)
	if old == nil {
		return nil, nil
	}
	var answers [2]answer
	for i, cn := range old.conns {
		cn.drain(&answers[i])
	}
	old.drop()
	return r.record(s, answers), nil
}

// burst sends requests, or bytes that are none. A client without a connection gets a new session first.
func (r *runner) burst(s step) (*difference, error) {
	c := &r.clients[s.slot]
	if !c.connected() {
		d, err := r.connect(step{act: doOpen, slot: s.slot, timeout: 30000, hasReadOnly: true})
		if d != nil || err != nil || !c.connected() {
			return d, err
		}
	}
	for i, cn := range c.conns {
		cn.send(r.bytes(s, i))
	}
	var answers [2]answer
	r.sent += len(s.requests)
	for i, cn := range c.conns {
		if s.act == doRaw {
			cn.drain(&answers[i])
		} else {
			answers[i] = cn.replies(s.requests)
		}
		r.known.noteClosing(i, answers[i].frames, s.requests)
	}
	if answers[0].closed || answers[1].closed {
		c.drop()
	}
	return r.record(s, answers), nil
}

func (r *runner) bytes(s step, side int) []byte {
	if s.act == doRaw {
		return s.bytes
	}
	var b []byte
	for _, q := range s.requests {
		b = q.frame(b, r.latest(max(q.back-1, 0), side))
	}
	return b
}

// greet sends bytes instead of a handshake.
func (r *runner) greet(s step) (*difference, error) {
	var c client
	if err := r.dialBoth(&c); err != nil {
		return nil, err
	}
	defer c.drop()
	r.sent++
	var answers [2]answer
	for i, cn := range c.conns {
		cn.send(s.bytes)
		cn.drain(&answers[i])
	}
	return r.record(s, answers), nil
}
