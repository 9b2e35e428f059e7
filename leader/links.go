package leader

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/zab"
)

func (l *Leader) onAccepted(ev zab.Accepted) {
	if _, member := l.cfg.Members.Find(ev.Peer); !member || ev.Peer == l.self {
		l.fx.Add(zab.Close{Conn: ev.Conn, Bye: zab.Bye{Code: zab.ByeProtocol, Text: "not a member"}})
		return
	}
	if old := l.byID[ev.Peer]; old != nil {
		l.drop(old, zab.ByeReplaced, "a newer connection came")
	}
	x := &learner{id: ev.Peer, conn: ev.Conn, heard: l.now}
	l.byConn[x.conn], l.byID[x.id] = x, x
	i, _ := slices.BinarySearchFunc(l.learners, x.id, func(y *learner, id zab.ServerID) int { return int(y.id) - int(id) })
	l.learners = slices.Insert(l.learners, i, x)
}

// onFrame looks at the header: a frame of another epoch costs the connection (I-22). 0 is from before the learner knew one.
func (l *Leader) onFrame(x *learner, ev zab.Received) {
	if _, bye := ev.Packet.(*zab.Bye); !bye && ev.Epoch != 0 && ev.Epoch != x.epoch {
		l.drop(x, zab.ByeProtocol, fmt.Sprintf("a frame of epoch %d in epoch %d", ev.Epoch, x.epoch))
		return
	}
	l.onPacket(x, ev.Packet)
}

// onPacket takes one packet of a learner. A packet that does not fit where the learner stands costs the connection.
func (l *Leader) onPacket(x *learner, p zab.Packet) {
	x.heard = l.now
	if bye, ok := p.(*zab.Bye); ok {
		l.onBye(x, bye)
		return
	}
	if x.info == nil {
		if info, ok := p.(*zab.FollowerInfo); ok {
			l.onFollowerInfo(x, info)
		} else {
			l.drop(x, zab.ByeProtocol, "FOLLOWERINFO must come first")
		}
		return
	}
	if x.trusted() {
		l.pulse.heard[x.id] = l.now
	}
	switch p := p.(type) {
	case *zab.AckEpoch:
		l.onAckEpoch(x, p)
	case *zab.SyncReject:
		l.onSyncReject(x, p)
	case *zab.Ack:
		l.onAck(x, p)
	case *zab.Pong:
		l.onPong(x, p)
	case *zab.Requests:
		l.onRequests(x, p)
	case *zab.Sync:
		l.onSync(x.conn, p.ID)
	case *zab.Revalidate:
		l.onRevalidate(x.conn, x.id, *p)
	default:
		l.drop(x, zab.ByeProtocol, fmt.Sprintf("%T is nothing for a leader", p))
	}
}

func (l *Leader) onBye(x *learner, bye *zab.Bye) {
	switch bye.Code {
	case zab.ByeEpochTooOld: // it promised more; without it, perhaps nothing is possible
		l.hopeless[x.id] = true
		l.onStuck(x.id, bye.Accepted)
		l.note(zab.Note{Level: zab.Warn, Message: zab.NoteRefused, Peer: x.id, Reason: fmt.Sprintf("it has promised epoch %d", bye.Accepted)})
	case zab.ByeGoodbye: // §16.2: no need to wait for its silence
		delete(l.pulse.heard, x.id)
	}
	l.drop(x, zab.ByeNone, "it left: "+bye.Why())
}

func (l *Leader) send(x *learner, p zab.Packet) {
	l.fx.Add(zab.Send{Conn: x.conn, Epoch: x.epoch, Packet: p})
}

// drop closes a learner's connection and forgets it.
func (l *Leader) drop(x *learner, code zab.ByeCode, why string) {
	if x.gone {
		return
	}
	l.fx.Add(zab.Close{Conn: x.conn, Bye: zab.Bye{Code: code, Text: why}})
	l.forget(x, why)
}

// forget takes a learner out of everything that counts. It stays in the list until sweep, because somebody may be walking it.
func (l *Leader) forget(x *learner, why string) {
	if x.gone {
		return
	}
	x.gone = true
	delete(l.byConn, x.conn)
	delete(l.byID, x.id)
	l.note(zab.Note{Message: zab.NoteLearnerGone, Peer: x.id, Zxid: x.match, Reason: why})
}

func (l *Leader) sweep() {
	l.learners = slices.DeleteFunc(l.learners, func(x *learner) bool { return x.gone })
}
