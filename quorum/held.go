package quorum

import (
	"slices"

	"github.com/zkd-project/zkd/zab"
)

// heldConn is a learner that came before this server leads.
type heldConn struct {
	conn  zab.ConnID
	peer  zab.ServerID
	first *zab.Received // its first packet, nil until it came
	until zab.Instant
}

// onAccepted holds a learner's connection while this server does not lead: those who elected it may be quicker than itself. A newer
// connection of the same peer replaces the older one.
func (n *Node) onAccepted(now zab.Instant, ev zab.Accepted) bool {
	if n.core != nil && n.role == zab.Leading {
		if n.core.Phase() <= zab.Discovery {
			n.try.learners = append(n.try.learners, ev.Conn)
		}
		return true
	}
	limit := 2 * n.cfg.ConnectLimit
	switch {
	case n.stage == ended || n.peer(ev.Peer) == nil:
		n.add(zab.Close{Conn: ev.Conn, Bye: zab.Bye{Code: zab.ByeNotLeader}})
		return false
	case n.core != nil:
		limit = n.cfg.HandoverGrace // the word that this server is to lead may be on its way
	}
	kept := n.held[:0]
	for _, h := range n.held {
		if h.peer == ev.Peer {
			n.add(zab.Close{Conn: h.conn, Bye: zab.Bye{Code: zab.ByeReplaced}})
		} else {
			kept = append(kept, h)
		}
	}
	n.held = append(kept, heldConn{conn: ev.Conn, peer: ev.Peer, until: now.Add(limit)})
	return false
}

// onReceived keeps the first packet of a held connection; a learner has no more to say before it is answered.
func (n *Node) onReceived(ev zab.Received) bool {
	for i := range n.held {
		h := &n.held[i]
		if h.conn != ev.Conn {
			continue
		}
		if _, ok := ev.Packet.(*zab.FollowerInfo); !ok || h.first != nil {
			n.add(zab.Close{Conn: ev.Conn, Bye: zab.Bye{Code: zab.ByeProtocol}})
			n.dropHeld(i)
			return false
		}
		h.first = &ev
		return false
	}
	return n.core != nil
}

func (n *Node) onConnDown(ev zab.ConnDown) bool {
	for i := range n.held {
		if n.held[i].conn == ev.Conn {
			n.dropHeld(i)
			return false
		}
	}
	if n.try.conn == ev.Conn {
		n.try.conn = 0
	}
	n.try.learners = slices.DeleteFunc(n.try.learners, func(c zab.ConnID) bool { return c == ev.Conn })
	return true
}

func (n *Node) dropHeld(i int) { n.held = append(n.held[:i], n.held[i+1:]...) }

// releaseHeld gives the held connections to the leader core as the events that they were.
func (n *Node) releaseHeld() []zab.Event {
	var evs []zab.Event
	for _, h := range n.held {
		evs = append(evs, zab.Accepted{Conn: h.conn, Peer: h.peer})
		if h.first != nil {
			evs = append(evs, *h.first)
		}
	}
	n.held = nil
	return evs
}

// closeHeld sends all of them away. It returns what is left: nothing.
func (n *Node) closeHeld(code zab.ByeCode) []heldConn {
	for _, h := range n.held {
		n.add(zab.Close{Conn: h.conn, Bye: zab.Bye{Code: code}})
	}
	return nil
}

// closeAccepted closes the connections that came in the very turn in which the leader core left: it may not have seen them.
func (n *Node) closeAccepted(evs []zab.Event) {
	for _, ev := range evs {
		if a, ok := ev.(zab.Accepted); ok {
			n.add(zab.Close{Conn: a.Conn, Bye: zab.Bye{Code: zab.ByeNotLeader}})
		}
	}
}

func (n *Node) expireHeld(now zab.Instant) {
	kept := n.held[:0]
	for _, h := range n.held {
		if now >= h.until {
			n.add(zab.Close{Conn: h.conn, Bye: zab.Bye{Code: zab.ByeNotLeader}})
		} else {
			kept = append(kept, h)
		}
	}
	n.held = kept
}

func (n *Node) heldDeadline() zab.Instant {
	at := zab.Never
	for _, h := range n.held {
		at = min(at, h.until)
	}
	return at
}
