package sim

import (
	"hash/crc32"
	"io"
	"math/rand/v2"
	"time"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

const (
	dialLimit  = 250 * time.Millisecond // as in peer
	helloLimit = 2 * time.Second
)

// link is the way from one node to another.
type link struct {
	blocked bool                  // what is sent waits (and arrives when the way is open again, if the connection still stands)
	refused bool                  // new connections this way are refused
	deaf    [zab.ForData + 1]bool // blocked for connections of one purpose only
	slow    time.Duration
	garble  bool // the next frame comes with a byte changed
	rate    int  // bytes a second; 0: plenty
}

func (l *link) stops(p zab.Purpose) bool { return l.blocked || l.deaf[p] }

// network carries frames between nodes over connections. A connection is FIFO both ways and loses nothing but a suffix.
type network struct {
	w     *World
	rng   *rand.Rand
	delay time.Duration // typical, one way
	links map[[2]zab.ServerID]*link
	conns []*conn // that have an open end
}

type conn struct {
	id      uint64
	purpose zab.Purpose
	settled bool    // both sides knew their cluster when it was made
	ends    [2]*end // the dialler's, the acceptor's
}

// end is one process's side of a connection.
type end struct {
	c    *conn
	n    *node
	life int
	peer *node
	open bool // this process holds the socket
	out  pipe

	onFrame func(pk zab.Packet, epoch txn.Epoch)
	onDown  func(active bool)
	onRoom  func() // something left the pipe
	hold    bool   // this process does not read at the moment
}

// pipe is what one end sent and the other has not read.
type pipe struct {
	frames []parcel
	bytes  int
	moving bool
	last   time.Duration
}

type parcel struct {
	at    time.Duration // when it arrives if nothing holds it up
	frame []byte
	fin   bool // the sender closed; nothing follows
}

func newNetwork(w *World) *network {
	n := &network{w: w, rng: source(w.sc.Seed, "network", 0), delay: 300 * time.Microsecond, links: map[[2]zab.ServerID]*link{}}
	if w.sc.Net > 0 {
		n.delay = w.sc.Net
	}
	return n
}

func (nw *network) link(from, to zab.ServerID) *link {
	l := nw.links[[2]zab.ServerID{from, to}]
	if l == nil {
		l = &link{}
		nw.links[[2]zab.ServerID{from, to}] = l
	}
	return l
}

// travel draws how long one packet takes.
func (nw *network) travel(from, to zab.ServerID) time.Duration {
	d := nw.delay/2 + time.Duration(nw.rng.ExpFloat64()*float64(nw.delay)/2)
	if chance(nw.rng, 200) {
		d += time.Duration(nw.rng.Int64N(int64(20*nw.delay) + 1))
	}
	return d + nw.link(from, to).slow
}

// dial connects from one process to another; done gets the dialler's end or nil and how it failed.
func (nw *network) dial(from, to *node, purpose zab.Purpose, accept func(*end), done func(e *end, active bool)) {
	w, life := nw.w, from.life
	there, back := nw.travel(from.id, to.id), nw.travel(to.id, from.id)
	started := w.now
	timeout := func() { from.at(started+dialLimit-w.now, life, func() { done(nil, false) }) }
	w.after(there, func() {
		if from.life != life {
			return
		}
		if nw.link(from.id, to.id).stops(purpose) || nw.link(to.id, from.id).stops(purpose) || to.off || there+back > dialLimit {
			timeout()
			return
		}
		if !to.up || nw.link(from.id, to.id).refused {
			from.at(back, life, func() { done(nil, true) })
			return
		}
		w.connSeq++
		c := &conn{id: w.connSeq, purpose: purpose, settled: from.clusterID != 0 && to.clusterID != 0}
		c.ends[0] = &end{c: c, n: from, life: from.life, peer: to, open: true}
		c.ends[1] = &end{c: c, n: to, life: to.life, peer: from, open: true}
		nw.conns = append(nw.conns, c)
		accept(c.ends[1])
		from.at(back, life, func() {
			if c.ends[0].open {
				done(c.ends[0], false)
			} else {
				done(nil, true) // reset before it was of any use
			}
		})
	})
}

func (e *end) other() *end {
	if e.c.ends[0] == e {
		return e.c.ends[1]
	}
	return e.c.ends[0]
}

// send puts one packet on its way.
func (e *end) send(epoch txn.Epoch, pk zab.Packet) {
	if !e.open {
		return
	}
	w := e.n.w
	if w.caughtBy(pk, e.n.id, e.peer.id) {
		w.net.link(e.n.id, e.peer.id).blocked = true
	}
	w.checks.onFrame(e, epoch, pk)
	frame := zab.AppendFrame(nil, epoch, pk)
	w.trace(e.n.id, "send", e.c.id<<32|uint64(crc32.ChecksumIEEE(frame)), pk)
	e.put(parcel{frame: frame})
}

func (e *end) put(p parcel) {
	w := e.n.w
	d := w.net.travel(e.n.id, e.peer.id) + time.Duration(len(p.frame))*8*time.Nanosecond // about 1 Gbit/s
	p.at = max(w.now+d, e.out.last)
	if rate := w.net.link(e.n.id, e.peer.id).rate; rate > 0 {
		p.at += time.Duration(len(p.frame)) * time.Second / time.Duration(rate)
	}
	e.out.last = p.at
	e.out.frames = append(e.out.frames, p)
	e.out.bytes += len(p.frame)
	e.pump()
}

// pump moves what this end sent.
func (e *end) pump() {
	p := &e.out
	if p.moving || len(p.frames) == 0 || e.held() {
		return
	}
	p.moving = true
	w := e.n.w
	w.at(max(w.now, p.frames[0].at), func() {
		p.moving = false
		for len(p.frames) > 0 && p.frames[0].at <= w.now && !e.held() {
			next := p.frames[0]
			p.frames = p.frames[1:]
			p.bytes -= len(next.frame)
			e.other().take(next)
		}
		if e.onRoom != nil && e.open {
			e.onRoom()
		}
		e.pump()
	})
}

// held: the way is blocked, or the receiver does not read.
func (e *end) held() bool {
	o := e.other()
	return e.n.w.net.link(e.n.id, e.peer.id).stops(e.c.purpose) || o.open && (o.hold || o.n.frozen)
}

// take receives one parcel.
func (e *end) take(p parcel) {
	switch {
	case !e.open && e.n.off: // the machine is not there
	case !e.open:
		if !p.fin {
			e.reset() // nobody holds this socket any more
		}
	case p.fin:
		e.finish(true)
	case e.garbled(p.frame):
		e.n.w.count("garbled")
		e.cut()
		if e.onDown != nil {
			e.onDown(false)
		}
	default:
		pk, epoch, err := decodeFrame(p.frame)
		if err != nil {
			e.n.w.violate("codec", e.n.id, 0, "a frame that was sent cannot be read: %v", err)
			return
		}
		e.n.w.trace(e.n.id, "recv", e.c.id, pk)
		e.onFrame(pk, epoch)
	}
}

// garbled flips bits of one byte in a frame if it is this frame's turn. What comes out must not be taken for a frame.
func (e *end) garbled(frame []byte) bool {
	w := e.n.w
	l := w.net.link(e.peer.id, e.n.id)
	if !l.garble {
		return false
	}
	l.garble = false
	b := append([]byte(nil), frame...)
	b[w.net.rng.IntN(len(b))] ^= byte(1 + w.net.rng.IntN(255))
	if pk, _, err := decodeFrame(b); err == nil {
		w.violate("R-14", e.n.id, 0, "a garbled frame is taken for %T", pk)
	}
	return true
}

func decodeFrame(b []byte) (zab.Packet, txn.Epoch, error) {
	var raw [zab.HeaderBytes]byte
	copy(raw[:], b)
	h, err := zab.ParseHeader(raw, 64<<20)
	if err != nil {
		return nil, 0, err
	}
	if h.Length > len(b)-zab.HeaderBytes {
		return nil, 0, io.ErrUnexpectedEOF
	}
	pk, err := zab.Decode(raw, h, b[zab.HeaderBytes:zab.HeaderBytes+h.Length])
	return pk, h.Epoch, err
}

// finish: the other side, or the network, ended the connection.
func (e *end) finish(active bool) {
	if !e.open {
		return
	}
	e.open = false
	e.out.frames, e.out.bytes = nil, 0
	if e.onDown != nil {
		e.onDown(active)
	}
}

// shut closes after what is queued.
func (e *end) shut() {
	if e.open {
		e.open = false
		e.put(parcel{fin: true})
	}
}

// cut closes at once; an arbitrary suffix of what is on its way is lost.
func (e *end) cut() {
	if e.open {
		e.open = false
		e.lose()
		e.put(parcel{fin: true})
	}
}

func (e *end) lose() {
	p := &e.out
	if n := len(p.frames); n > 0 {
		keep := e.n.w.net.rng.IntN(n + 1)
		p.frames = append([]parcel(nil), p.frames[:keep]...)
		p.bytes = 0
		for i := range p.frames {
			p.bytes += len(p.frames[i].frame)
		}
	}
}

// reset tells the other side that this end is gone.
func (e *end) reset() {
	if e.other().open {
		e.put(parcel{fin: true})
	}
}

// vanish: the machine lost power, nobody says anything.
func (e *end) vanish() {
	e.open = false
	e.lose()
}

// prune forgets connections that nobody holds.
func (nw *network) prune() {
	kept := nw.conns[:0]
	for _, c := range nw.conns {
		if c.ends[0].open || c.ends[1].open {
			kept = append(kept, c)
		}
	}
	clear(nw.conns[len(kept):])
	nw.conns = kept
}

// changed lets everything move that a change of the network may have freed.
func (nw *network) changed() {
	nw.prune()
	for _, c := range nw.conns {
		c.ends[0].pump()
		c.ends[1].pump()
	}
}

// resetBetween breaks every connection between two nodes; both see it, and both may lose what was on its way.
func (nw *network) resetBetween(a, b zab.ServerID) {
	nw.prune()
	for _, c := range append([]*conn(nil), nw.conns...) {
		x, y := c.ends[0], c.ends[1]
		if x.n.id == a && y.n.id == b || x.n.id == b && y.n.id == a {
			for _, e := range c.ends {
				e.lose()
			}
			for _, e := range c.ends {
				e.n.at(nw.travel(a, b), e.life, func() { e.finish(true) })
			}
		}
	}
}
