package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// meshPeer is the election connection to one other server. The slot holds the latest notification that it has not been sent.
type meshPeer struct {
	n     *node
	id    zab.ServerID
	dials bool // ours to dial
	conn  *end
	hello *zab.Hello
	slot  *zab.Notification
	heard time.Duration
	delay time.Duration
	tries uint64 // number of the attempt that counts
	busy  bool
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (n *node) startMesh() {
	n.mesh = map[zab.ServerID]*meshPeer{}
	for _, other := range n.w.nodes {
		if other.id != n.id {
			mp := &meshPeer{n: n, id: other.id, dials: n.id > other.id, delay: n.cfg.ConnectRetry}
			n.mesh[other.id] = mp
			mp.again(0)
		}
	}
}

// again tries after a while if there is no connection by then.
func (mp *meshPeer) again(after time.Duration) {
	mp.tries++
	number := mp.tries
	mp.n.soon(after, func() {
		if mp.tries == number {
			mp.try()
		}
	})
}

func (mp *meshPeer) try() {
	if mp.conn != nil || mp.busy {
		return
	}
	n := mp.n
	mp.busy = true
	failed := func(active, foreign bool) {
		mp.busy = false
		if mp.conn == nil { // otherwise the other side's dial was through first
			n.put(zab.MeshDown{Peer: mp.id, Active: active, Foreign: foreign})
		}
		mp.backOff()
	}
	other := n.w.node(mp.id)
	n.w.net.dial(n, other, zab.ForElection, other.accept, func(e *end, active bool) {
		if e == nil {
			failed(active, false)
			return
		}
		h := n.hello(zab.ForElection, mp.id)
		if !mp.dials { // only asks
			e.onFrame, e.onDown = func(zab.Packet, txn.Epoch) {}, nil
			e.send(0, h)
			e.shut()
			mp.busy = false
			mp.backOff()
			return
		}
		n.greet(e, h, func(ok, active, foreign bool) {
			if !ok {
				failed(active, foreign)
				return
			}
			mp.busy = false
			mp.delay = n.cfg.ConnectRetry
			if !mp.adopt(e, h) {
				e.cut()
			}
		})
	})
}

func (mp *meshPeer) backOff() {
	wait := mp.delay
	if !mp.dials {
		wait = max(wait, mp.n.cfg.ElectionGap)
	}
	mp.delay = min(2*mp.delay, mp.n.cfg.NotifyMax)
	mp.again(wait)
}

// acceptMesh takes a connection that came in on the election port.
func (n *node) acceptMesh(e *end, h *zab.Hello) {
	mp := n.mesh[h.Self]
	if h.Self < n.id { // it asks us to dial
		e.cut()
		if mp.conn == nil {
			mp.delay = n.cfg.ConnectRetry
			mp.again(0)
		}
		return
	}
	if !mp.adopt(e, h) {
		e.cut()
	}
}

// adopt makes e the connection to the peer if it is newer than the one there.
func (mp *meshPeer) adopt(e *end, h *zab.Hello) bool {
	n := mp.n
	if mp.conn != nil {
		if !h.Replaces(mp.hello) {
			return false
		}
		old := mp.conn
		mp.conn = nil
		old.onDown = nil
		old.cut()
		n.put(zab.MeshDown{Peer: mp.id, Active: true})
	}
	mp.conn, mp.hello, mp.slot, mp.heard = e, h, nil, n.w.now
	e.onFrame = func(pk zab.Packet, _ txn.Epoch) {
		if mp.conn != e {
			return
		}
		mp.heard = n.w.now
		if note, ok := pk.(*zab.Notify); ok {
			n.put(zab.Heard{From: mp.id, Notification: note.Notification})
		}
	}
	e.onDown = func(active bool) { mp.lost(e, active) }
	e.onRoom = mp.flush
	n.put(zab.MeshUp{Peer: mp.id})
	mp.keepAlive(e)
	return true
}

// keepAlive says something on an idle connection and ends one that is silent.
func (mp *meshPeer) keepAlive(e *end) {
	n := mp.n
	n.soon(n.cfg.HbTimeout/2, func() {
		if mp.conn != e {
			return
		}
		if n.w.now-mp.heard > 3*n.cfg.HbTimeout {
			e.cut()
			mp.lost(e, false)
			return
		}
		if len(e.out.frames) < 4 {
			e.send(0, &zab.Ping{})
		}
		mp.keepAlive(e)
	})
}

func (mp *meshPeer) lost(e *end, active bool) {
	if mp.conn != e {
		return
	}
	mp.conn, mp.hello = nil, nil
	mp.n.put(zab.MeshDown{Peer: mp.id, Active: active})
	mp.delay = mp.n.cfg.ConnectRetry
	mp.again(0)
}

// tell fills the slot of a peer.
func (n *node) tell(to zab.ServerID, note zab.Notification) {
	mp := n.mesh[to]
	if mp == nil {
		return
	}
	mp.slot = &note
	mp.flush()
}

// flush sends what is in the slot when the connection takes it.
func (mp *meshPeer) flush() {
	if mp.slot == nil || mp.conn == nil || len(mp.conn.out.frames) >= 4 {
		return
	}
	note := mp.slot
	mp.slot = nil
	mp.conn.send(0, &zab.Notify{Notification: *note})
}
