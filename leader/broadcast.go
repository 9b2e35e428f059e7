package leader

import (
	"fmt"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// establish: a quorum has Ec = e and the whole initial history on disk. From here on this server leads.
func (l *Leader) establish() {
	if l.phase != zab.Synchronization || !l.quorum(l.claimed(), (*learner).counts) && !(mutant.On("R-34") && l.claimed()) {
		return
	}
	h := l.local.Hist
	l.phase = zab.Broadcast
	h.Commit = h.End.Zxid
	l.local.ApplyCommitted()
	l.fx.Add(zab.Established{Epoch: l.epoch})
	l.pulse.established(l)
	l.local.Initialize(l.now)
	if h.End.Zxid == 0 { // the first record of a history is the ensemble's secret; no session can be opened before it
		l.prepare([]txn.Request{{Op: txn.OpSecret, Origin: l.self, Payload: l.cfg.Secret}})
	}
	l.fx.Add(zab.Serve{Role: zab.Leading, Leader: l.self, Epoch: l.epoch})
	l.note(zab.Note{Message: zab.NoteEstablished, Zxid: h.End.Zxid})
	for _, x := range l.learners {
		if !x.gone && x.synced {
			l.open(x)
		}
	}
}

// open tells a learner that it may serve, with the commit of now, and asks for its readmission if it needs one.
func (l *Leader) open(x *learner) {
	x.upToDate, x.commitTold = true, l.local.Hist.Commit
	l.send(x, &zab.UpToDate{Epoch: l.epoch, Commit: x.commitTold})
	l.note(zab.Note{Message: zab.NoteSynced, Peer: x.id, Zxid: x.match, Mode: x.mode})
	if x.voter && !x.votable && !x.readmit && x.info.RecoveryID != 0 {
		x.readmit = true
		l.prepare([]txn.Request{{Op: txn.OpReadmit, Origin: l.self, Payload: txn.AppendReadmit(nil, x.id, x.info.RecoveryID)}})
	}
}

// onPrepared numbers what the state made of the requests. One place hands out zxids, and record, memory tail and stream have the same
// order.
func (l *Leader) onPrepared(ev zab.Prepared) {
	h := l.local.Hist
	recs := make([]txn.Record, 0, len(ev.Drafts))
	prev, size := h.End, 0
	for i := range ev.Drafts {
		d := &ev.Drafts[i]
		l.preparing--
		l.preparingBytes -= d.Request.Size()
		if d.Refused != txn.NotRefused {
			l.refuse(d.Request, d.Refused)
			continue
		}
		zxid := txn.MakeZxid(l.epoch, 1)
		if prev.Zxid.Epoch() == l.epoch {
			zxid = prev.Zxid + 1
		}
		r := d.Seal(zxid, prev.Zxid, prev.Chain)
		prev = zab.Position{Zxid: r.Zxid, Chain: r.Chain}
		size += len(r.Bytes)
		recs = append(recs, r)
	}
	switch {
	case l.preparing < 0:
		l.broken("%d more answers than requests from prepare", -l.preparing)
	case len(recs) == 0:
	case l.phase != zab.Broadcast: // I-21
		l.broken("a proposal before establishment")
	default:
		if err := l.local.Append(l.now, recs); err != nil {
			l.broken("own proposal: %v", err)
			return
		}
		l.batches = append(l.batches, batch{last: prev.Zxid, bytes: size, at: l.now})
		l.batchBytes += size
	}
}

// onAck counts what is on a learner's disk. Positions count only behind its ACK of NEWLEADER on this connection, and nobody may
// claim more than was sent to it (R-38, K42).
func (l *Leader) onAck(x *learner, a *zab.Ack) {
	switch {
	case a.Epoch != l.epoch || !x.newLeader || a.Durable > x.sent || a.Durable < x.match:
		l.drop(x, zab.ByeProtocol, fmt.Sprintf("ACK of %v after %v was sent", a.Durable, x.sent))
		return
	case (a.Kind == zab.AckNewLeader) == x.synced:
		l.drop(x, zab.ByeProtocol, "ACK of the wrong kind")
		return
	case a.Kind == zab.AckNewLeader && (a.Durable != x.end.Zxid || a.Chain != x.end.Chain): // I-13
		l.drop(x, zab.ByeProtocol, fmt.Sprintf("ACK of NEWLEADER at %v instead of %v", a.Durable, x.end.Zxid))
		return
	}
	first := !x.synced
	x.synced, x.match = true, a.Durable
	x.release(a.Durable)
	delete(l.rejects, x.id)
	l.acked[x.id] = max(l.acked[x.id], a.Durable)
	l.waitFrom = l.now
	if x.votable != a.Votable {
		x.votable = a.Votable
		if !first && a.Votable {
			l.note(zab.Note{Message: zab.NoteReadmitted, Peer: x.id, Zxid: a.Durable})
		}
	}
	if x.trusted() {
		l.pulse.heard[x.id] = l.now
	}
	if first && (l.phase == zab.Broadcast || mutant.On("R-36")) {
		l.open(x)
	}
}

// commit moves the commit to what a quorum has on disk, only inside the own epoch: whatever is older was covered by establishment
// . Applying waits for the own disk as well.
func (l *Leader) commit() {
	if l.phase != zab.Broadcast {
		return
	}
	h := l.local.Hist
	z := l.cfg.Members.QuorumZxid(func(id zab.ServerID) txn.Zxid {
		if id == l.self {
			if l.local.Hard.Current != l.epoch || l.local.Hard.Recovering { // the latter: it is the odd one out and about to end
				return 0
			}
			if mutant.On("O7-leader") {
				return h.End.Zxid
			}
			return h.Durable
		}
		if x := l.byID[id]; x != nil && x.counts() {
			if mutant.On("O8") {
				return x.sent
			}
			return x.match
		} else if x != nil && x.trusted() && mutant.On("R-68") {
			return l.acked[id]
		}
		return 0
	})
	if z > h.Commit && z.Epoch() == l.epoch {
		if z > h.End.Zxid {
			l.broken("commit %v is beyond the end %v", z, h.End.Zxid)
			return
		}
		if before := max(h.Commit, txn.MakeZxid(l.epoch, 0)); z == h.End.Zxid {
			l.gather.answered(int(z - before))
		}
		h.Commit = z
		n := 0
		for n < len(l.batches) && l.batches[n].last <= z {
			l.batchBytes -= l.batches[n].bytes
			n++
		}
		l.batches = append(l.batches[:0], l.batches[n:]...)
	}
	l.local.ApplyCommitted()
}

// pending counts proposals that are not committed. Counters of an epoch have no gaps, so a subtraction does it.
func (l *Leader) pending() int {
	if l.phase != zab.Broadcast || len(l.batches) == 0 {
		return 0
	}
	return int(l.local.Hist.End.Zxid - max(l.local.Hist.Commit, txn.MakeZxid(l.epoch, 0)))
}

// outstanding counts what was let in and is not committed.
func (l *Leader) outstanding() int { return l.pending() + l.preparing + len(l.gather.held) }

// tellCommit sends a COMMIT when nothing else that carries it leaves. While the state prepares, proposals are about to.
func (l *Leader) tellCommit(x *learner) {
	commit := l.local.Hist.Commit
	if x.gone || !x.upToDate || x.commitTold >= commit || l.preparing > 0 {
		return
	}
	x.commitTold = commit
	l.send(x, &zab.Commit{Commit: commit})
}
