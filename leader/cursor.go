package leader

import (
	"sort"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

type sentBatch struct {
	last         txn.Zxid
	bytes, count int
	at           zab.Instant
}

// startStream puts the cursor behind z and fixes where the initial history ends, in one step with everything else.
func (l *Leader) startStream(x *learner, z txn.Zxid) {
	x.cursor, x.sent = cursorStream, z
	x.end = l.local.Hist.End
	if limit := l.limit(x); limit != x.end.Zxid {
		chain, ok := l.local.Hist.ChainAt(limit)
		if !ok {
			l.broken("no chain at the commit %v", limit)
			return
		}
		x.end = zab.Position{Zxid: limit, Chain: chain}
	}
	if x.sent > x.end.Zxid {
		l.drop(x, zab.ByeProtocol, "ahead of what is committed")
	}
}

// limit is how far a cursor may go: an observer gets committed records only (§14).
func (l *Leader) limit(x *learner) txn.Zxid {
	if x.voter {
		return l.local.Hist.End.Zxid
	}
	return l.local.Hist.Commit
}

func (l *Leader) streamAll() {
	for _, x := range l.learners {
		if !x.gone && x.ack != nil && x.cursor == cursorCompare && l.phase >= zab.Synchronization {
			l.plan(x)
		}
		l.stream(x)
		l.tellCommit(x)
		if l.leave != nil {
			return
		}
	}
}

// stream moves one cursor as far as window and memory go, and puts NEWLEADER where the initial history ends.
func (l *Leader) stream(x *learner) {
	for l.leave == nil && !x.gone && (x.cursor == cursorStream || x.cursor == cursorPaused) { // a leader that is broken moves no cursor
		limit := l.limit(x)
		if !x.newLeader {
			limit = x.end.Zxid
		}
		if x.sent == limit || mutant.On("R-32") && !x.newLeader {
			if x.newLeader || !(l.claimed() || mutant.On("O3")) {
				return
			}
			x.newLeader = true
			l.send(x, &zab.NewLeader{Epoch: l.epoch, End: x.end})
			if mutant.On("R-26") {
				x.sent = l.local.Hist.End.Zxid
			}
			continue
		}
		bytes, count := l.cfg.InflightBytes-x.windowBytes, l.cfg.InflightCount-x.windowCount
		if mutant.On("D9") {
			bytes, count = l.cfg.BatchBytes, l.cfg.BatchCount
		}
		if bytes <= 0 || count <= 0 {
			x.cursor = cursorPaused
			return
		}
		x.cursor = cursorStream
		bytes, count = min(bytes, l.cfg.BatchBytes), min(count, l.cfg.BatchCount)
		recs, inTail := l.local.Hist.After(x.sent, bytes, count)
		if !inTail {
			x.cursor = cursorCatchup
			l.fx.Add(zab.ReadLog{Conn: x.conn, After: x.sent, MaxBytes: bytes})
			return
		}
		l.propose(x, recs, limit)
	}
}

// propose sends records up to limit.
func (l *Leader) propose(x *learner, recs []txn.Record, limit txn.Zxid) {
	n := sort.Search(len(recs), func(i int) bool { return recs[i].Zxid > limit })
	recs = recs[:n:n]
	if n == 0 || recs[0].Prev != x.sent {
		l.broken("the records behind %v for learner %d are not the next ones", x.sent, x.id)
		return
	}
	b := sentBatch{last: recs[n-1].Zxid, count: n, at: l.now}
	for i := range recs {
		b.bytes += len(recs[i].Bytes)
	}
	x.window = append(x.window, b)
	x.windowBytes += b.bytes
	x.windowCount += b.count
	x.sent = b.last
	x.commitTold = l.local.Hist.Commit
	if x.voter {
		l.send(x, &zab.Propose{Commit: x.commitTold, Records: recs})
	} else {
		l.send(x, &zab.Inform{Commit: x.commitTold, Records: recs})
	}
}

// release takes what is on the learner's disk out of the window.
func (x *learner) release(durable txn.Zxid) {
	n := 0
	for n < len(x.window) && x.window[n].last <= durable {
		x.windowBytes -= x.window[n].bytes
		x.windowCount -= x.window[n].count
		n++
	}
	x.window = append(x.window[:0], x.window[n:]...)
}

// onLogRead continues a cursor that had fallen out of memory. A log that does not continue where the cursor stands has a hole (S16).
func (l *Leader) onLogRead(ev zab.LogRead) {
	x := l.byConn[ev.Conn]
	if x == nil || x.cursor != cursorCatchup || ev.After != x.sent {
		return
	}
	if ev.Gone || len(ev.Records) == 0 || ev.Records[0].Prev != x.sent {
		l.note(zab.Note{Level: zab.Alarm, Message: zab.NoteLearnerGone, Peer: x.id, Zxid: x.sent, Reason: "the log cannot be read there"})
		l.mustSnap[x.id] = true
		l.drop(x, zab.ByeSyncGap, "the log behind your position is gone")
		return
	}
	l.waitFrom = l.now
	x.cursor = cursorStream
	room := max(1, min(l.cfg.InflightCount-x.windowCount, l.cfg.BatchCount)) // the disk was asked for bytes only
	recs := ev.Records[:min(len(ev.Records), room)]
	limit := l.limit(x)
	if !x.newLeader {
		limit = x.end.Zxid
	}
	l.propose(x, recs, limit)
}

// onSnapshotSent: records behind the snapshot follow. The snapshot may be newer than the one that the plan saw, so the end of the
// initial history is fixed now.
func (l *Leader) onSnapshotSent(ev zab.SnapshotSent) {
	x := l.byConn[ev.Conn]
	if x == nil || x.cursor != cursorSnap {
		return
	}
	l.waitFrom = l.now
	delete(l.mustSnap, x.id)
	l.startStream(x, ev.At.Zxid)
}

// bytesBehind estimates what lies behind z. Below the memory tail only the number of records is known, and what one of them weighs in
// the tail.
func (l *Leader) bytesBehind(z txn.Zxid) int64 {
	h := l.local.Hist
	if n, ok := h.BytesAfter(z); ok {
		return n
	}
	const guess = 256 // bytes, when the tail is empty
	weight := int64(guess)
	if n := h.Table.Between(h.TailStart().Zxid, h.End.Zxid); n > 0 {
		weight = max(1, int64(h.TailBytes())/n)
	}
	return h.Table.Between(z, h.End.Zxid) * weight
}

// lag is how much a learner lacks, in bytes.
func (l *Leader) lag(x *learner) int64 {
	if x.ack == nil {
		return 0
	}
	return l.bytesBehind(max(x.match, x.sent)) + int64(x.windowBytes)
}

// lagTxns is the same in records: those that it has not acked.
func (l *Leader) lagTxns(x *learner) int64 {
	if x.ack == nil {
		return 0
	}
	return l.local.Hist.Table.Between(x.match, l.limit(x))
}

// lagNanos is how long the oldest record that was sent to it has been on its way.
func (l *Leader) lagNanos(x *learner) int64 {
	if len(x.window) == 0 {
		return 0
	}
	return int64(l.now.Sub(x.window[0].at))
}
