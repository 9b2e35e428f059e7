package sim

import (
	"hash/crc32"
	"time"

	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// snapSignature closes every snapshot on the wire.
const snapSignature = "BenWasHere"

// stream is one data connection at one end.
type stream struct {
	n     *node
	id    zab.ConnID
	peer  zab.ServerID
	e     *end
	hello *zab.Hello // theirs, when they dialled
	down  bool
	ready func() // goes on with a snapshot that is being sent

	asked   bool            // a SnapBegin is with the core; what follows it is not read yet
	taking  bool            // chunks are expected
	in      *peer.Receiving // nil: they are thrown away
	begin   zab.SnapBegin
	next    uint64
	settled bool
}

type dialing struct{ cancelled bool }

// hello is what this process says first on a connection.
func (n *node) hello(purpose zab.Purpose, target zab.ServerID) *zab.Hello {
	n.connNo++
	return &zab.Hello{ClusterID: n.clusterID, Self: n.id, Directory: n.rec.Directory, Boot: n.rec.Boot, ConnNo: n.connNo, Purpose: purpose,
		Target: target}
}

// strange reports what is wrong with the other side's hello.
func (n *node) strange(h *zab.Hello, want zab.ServerID) bool {
	return h.Target != n.id || h.Self == n.id || want != 0 && h.Self != want || n.foreign(h)
}

// foreign reports whether the hello is from another cluster.
func (n *node) foreign(h *zab.Hello) bool {
	return n.clusterID != 0 && h.ClusterID != 0 && n.clusterID != h.ClusterID
}

// greet says our hello on a connection that we dialled, and takes the answer.
func (n *node) greet(e *end, ours *zab.Hello, done func(ok, active, foreign bool)) {
	finished := false
	finish := func(ok, active, foreign bool) {
		if !finished {
			finished = true
			done(ok, active, foreign)
		}
	}
	e.onDown = func(active bool) { finish(false, active, false) }
	e.onFrame = func(pk zab.Packet, _ txn.Epoch) {
		h, ok := pk.(*zab.Hello)
		bye, refused := pk.(*zab.Bye)
		if !ok || n.strange(h, ours.Target) {
			e.cut()
			finish(false, false, ok && n.foreign(h) || refused && bye.Code == zab.ByeWrongCluster)
			return
		}
		finish(true, false, false)
	}
	n.soon(helloLimit, func() {
		if !finished {
			e.cut()
			finish(false, false, false)
		}
	})
	e.send(0, ours)
}

// welcome exchanges hellos on a connection that came in.
func (n *node) welcome(e *end, purpose zab.Purpose, done func(h *zab.Hello)) {
	greeted := false
	e.onDown = func(bool) { greeted = true }
	e.onFrame = func(pk zab.Packet, _ txn.Epoch) {
		greeted = true
		h, ok := pk.(*zab.Hello)
		if !ok || n.core == nil {
			e.cut()
			return
		}
		if n.strange(h, 0) {
			e.send(0, &zab.Bye{Code: zab.ByeWrongCluster, Text: "refused"})
			e.shut()
			if mp := n.mesh[h.Self]; purpose == zab.ForElection && mp != nil && mp.conn == nil && n.foreign(h) {
				n.put(zab.MeshDown{Peer: h.Self, Foreign: true})
			}
			return
		}
		e.send(0, n.hello(purpose, h.Self))
		done(h)
	}
	n.soon(helloLimit, func() {
		if !greeted {
			e.cut()
		}
	})
}

// accept takes a connection that another process dialled.
func (n *node) accept(e *end) {
	if e.c.purpose == zab.ForElection {
		n.welcome(e, zab.ForElection, func(h *zab.Hello) { n.acceptMesh(e, h) })
		return
	}
	n.welcome(e, zab.ForData, func(h *zab.Hello) {
		old := n.inbound[h.Self]
		if old != nil && !h.Replaces(old.hello) {
			e.cut()
			return
		}
		if old != nil {
			old.abort() // nothing of it comes after what the new one brings
		}
		s := n.newStream(e, h.Self)
		s.hello = h
		n.inbound[h.Self] = s
		n.put(zab.Accepted{Conn: s.id, Peer: h.Self})
	})
}

// dial makes the uplink to a leader.
func (n *node) dial(to zab.ServerID) {
	if old := n.dials[to]; old != nil {
		old.cancelled = true
	}
	d := &dialing{}
	n.dials[to] = d
	failed := func(active bool) { n.put(zab.DialFailed{Peer: to, Refused: active, Reason: "simulated"}) }
	other := n.w.node(to)
	n.w.net.dial(n, other, zab.ForData, other.accept, func(e *end, active bool) {
		if e == nil {
			failed(active)
			return
		}
		n.greet(e, n.hello(zab.ForData, to), func(ok, active, _ bool) {
			if ok && d.cancelled {
				e.cut()
				ok = false
			}
			if !ok {
				failed(active)
				return
			}
			s := n.newStream(e, to)
			n.put(zab.Dialed{Conn: s.id, Peer: to})
		})
	})
}

func (n *node) newStream(e *end, to zab.ServerID) *stream {
	n.connID++
	s := &stream{n: n, id: zab.ConnID(n.connID), peer: to, e: e}
	n.streams[s.id] = s
	e.onFrame, e.onDown = s.frame, s.gone
	e.onRoom = func() {
		if s.ready != nil && s.e.out.bytes < 64<<10 {
			s.ready()
		}
	}
	return s
}

// queueLimit is how much may wait for one stream before it is cut.
func (n *node) queueLimit() int { return 2*n.cfg.InflightBytes + 4*(n.cfg.BatchBytes+4096) + 64<<10 }

func (s *stream) send(epoch txn.Epoch, pk zab.Packet) {
	if s.down || !s.e.open {
		return
	}
	s.e.send(epoch, pk)
	if s.e.out.bytes > s.n.queueLimit() {
		s.n.w.trace(s.n.id, "slow peer", uint64(s.peer), nil)
		life := s.n.life
		s.n.at(0, life, s.abort)
	}
}

// abort closes at once.
func (s *stream) abort() {
	if s.e.open {
		s.e.cut()
	}
	s.gone(false)
}

// gone: nothing comes from the connection any more.
func (s *stream) gone(active bool) {
	if s.down {
		return
	}
	s.down = true
	n := s.n
	delete(n.streams, s.id)
	if n.inbound[s.peer] == s {
		delete(n.inbound, s.peer)
	}
	if s.in != nil {
		s.in.Abort()
		s.in = nil
	}
	n.put(zab.ConnDown{Conn: s.id, Active: active})
}

func (n *node) closeStream(fx zab.Close) {
	s := n.streams[fx.Conn]
	if s == nil || s.down {
		return
	}
	if fx.Bye.Code != zab.ByeNone {
		bye := fx.Bye
		s.send(0, &bye)
	}
	s.e.shut()
	n.soon(0, func() { s.gone(false) })
}

// frame takes one packet off the connection.
func (s *stream) frame(pk zab.Packet, epoch txn.Epoch) {
	n := s.n
	switch pk := pk.(type) {
	case *zab.SnapBegin:
		s.asked, s.settled, s.begin, s.next, s.in = true, false, *pk, 0, nil
		s.e.hold = true // the reader waits for the core's word
		n.put(zab.Received{Conn: s.id, Epoch: epoch, Packet: pk})
	case *zab.SnapChunk:
		s.chunk(pk)
	case *zab.SnapEnd:
		s.snapEnd(pk)
	default:
		ev := zab.Received{Conn: s.id, Epoch: epoch, Packet: pk}
		n.remember(ev)
		n.put(ev)
	}
}

func (s *stream) chunk(pk *zab.SnapChunk) {
	if !s.taking || pk.N != s.next {
		s.abort()
		return
	}
	s.next++
	if s.in != nil {
		if _, err := s.in.Write(pk.Data); err != nil {
			s.abort()
			return
		}
	}
	s.n.put(zab.Progress{Conn: s.id})
}

func (s *stream) snapEnd(pk *zab.SnapEnd) {
	if !s.taking {
		s.abort()
		return
	}
	s.taking = false
	in := s.in
	s.in = nil
	if in == nil {
		return
	}
	if err := in.Finish(pk.Sum); err != nil {
		in.Abort()
		s.abort()
		return
	}
	n := s.n
	for _, id := range sorted(n.got) {
		n.got[id].Abort()
		delete(n.got, id)
	}
	n.got[s.id] = in
	n.put(zab.SnapshotReceived{Conn: s.id, Begin: s.begin})
}

// receiveSnapshot opens the place for chunks.
func (n *node) receiveSnapshot(fx zab.ReceiveSnapshot) {
	s := n.streams[fx.Conn]
	if s == nil {
		return
	}
	in, err := n.store.Receive(fx.Begin)
	if err != nil {
		n.w.trace(n.id, "receive", uint64(fx.Begin.At.Zxid), err.Error())
		s.abort()
		return
	}
	if !s.asked || s.settled {
		in.Abort()
		return
	}
	s.settle(in)
}

func (s *stream) settle(in *peer.Receiving) {
	s.settled, s.asked, s.taking, s.in = true, false, true, in
	s.e.hold = false
	s.n.soon(0, func() { s.e.other().pump() })
}

// settleSnapshots lets readers go on whose SnapBegin the core did not want.
func (n *node) settleSnapshots() {
	for _, s := range n.snapBegun {
		if s.asked && !s.down {
			s.settle(nil)
		}
	}
	n.snapBegun = n.snapBegun[:0]
}

// sendSnapshot streams the newest snapshot file to a learner, as fast as the learner takes it.
func (n *node) sendSnapshot(fx zab.SendSnapshot) {
	s := n.streams[fx.Conn]
	if s == nil {
		return
	}
	x, err := n.store.SendSnapshot()
	if err != nil {
		n.put(zab.SnapshotFailed{Conn: fx.Conn, Reason: err.Error()})
		return
	}
	found, err := x.Check(nil)
	n.rotFound(found)
	if err != nil {
		x.Close()
		n.put(zab.SnapshotFailed{Conn: fx.Conn, Reason: err.Error()})
		return
	}
	s.send(fx.Epoch, &zab.SnapBegin{At: x.Head.At, Common: fx.Common, CommonKnown: fx.CommonKnown, Size: x.Length, Table: x.Head.Table})
	n.w.checks.onSnapshotSent(n, x.Head.At)
	var at int64
	var sum uint32
	var number uint64
	chunk := n.w.sc.Limits.Chunk
	waiting := false
	pump := func() {
		waiting = false
		if s.down || !s.e.open {
			s.ready = nil
			x.Close()
			return
		}
		if s.e.out.bytes > 64<<10 {
			return // ready calls again
		}
		if at == x.Length {
			s.ready = nil
			s.send(fx.Epoch, &zab.SnapEnd{Sum: sum, Signature: snapSignature})
			n.put(zab.SnapshotSent{Conn: s.id, At: x.Head.At})
			x.Close()
			return
		}
		b := make([]byte, min(chunk, x.Length-at))
		if _, err := x.ReadAt(b, at); err != nil {
			s.ready = nil
			x.Close()
			n.put(zab.SnapshotFailed{Conn: s.id, Reason: err.Error()})
			s.abort()
			return
		}
		sum = crc32.Update(sum, castagnoli, b)
		at += int64(len(b))
		s.send(fx.Epoch, &zab.SnapChunk{N: number, Data: b})
		number++
		s.ready()
	}
	s.ready = func() {
		if !waiting {
			waiting = true
			n.soon(between(n.rng, 10*time.Microsecond, 300*time.Microsecond), pump)
		}
	}
	s.ready()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
