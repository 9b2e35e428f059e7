package server

import (
	"time"

	"github.com/zkd-project/zkd/proto"
)

// progress is how far a queued request has come.
type progress uint8

const (
	fresh    progress = iota // not begun
	underway                 // a write that was submitted, a sync that was asked
	answered                 // err is known; the reply is made when its turn comes
)

// entry is a request that waits in a connection's queue.
type entry struct {
	xid      int32
	op       proto.Op
	seq      uint64 // of a write under way: txn.Request.Seq
	progress progress
	err      proto.ErrCode
	body     []byte     // the request's record, a copy
	ids      []proto.ID // what the connection had proven when the request came
	sync     uint64     // of a sync under way
	here     bool       // a write that this server answers alone, with err: see placeLocal
	upgrade  bool       // a createSession goes before it
	at       time.Duration
}

// barrier reports whether the entry needs the ensemble; a read does not.
func (e *entry) barrier() bool {
	return !e.here && (e.op == proto.OpSync || e.op.IsWrite() && e.op.Known())
}

// lists reports whether the entry may list children, for which a state that was just loaded may not be ready.
func (e *entry) lists() bool {
	switch e.op {
	case proto.OpGetChildren, proto.OpGetChildren2, proto.OpGetAllChildrenNumber, proto.OpMultiRead:
		return true
	}
	return false
}

// maxAhead is how much reads may weigh that stand before a write under way, in reads of one znode. They run when the write is applied, if not
// before, and everybody waits for that; so a write behind more than this is not submitted before some of them have run.
const maxAhead = 256

// maxPending is how many bytes of writes of one connection go out together; a larger write goes alone. Others' writes wait for the disk
// behind what one client has under way.
const maxPending = 512 << 10

// pathBytes is how many bytes of a request for many paths count as one: few paths are shorter.
const pathBytes = 16

// weight is how long the entry takes to run, in reads of one znode; 0 if the ensemble runs it.
func (e *entry) weight() int {
	switch {
	case e.barrier():
		return 0
	case e.op == proto.OpGetEphemerals, e.op == proto.OpGetAllChildrenNumber: // they may go through the whole tree
		return maxAhead + 1
	case e.op == proto.OpGetChildren, e.op == proto.OpGetChildren2:
		return 4
	case e.op == proto.OpSetWatches, e.op == proto.OpSetWatches2, e.op == proto.OpMultiRead:
		return 1 + len(e.body)/pathBytes
	}
	return 1
}

// queue is requests in the order of arrival. entries[head:] wait; those before started have been looked at for an early start.
type queue struct {
	entries []entry
	head    int
	started int           // head <= started <= len(entries)
	waiting int           // writes and syncs under way
	bytes   int           // in the bodies of entries[head:]
	pending int           // of these, in the bodies of writes and syncs under way
	ahead   int           // weight of the reads in entries[head:started]
	moved   time.Duration // when a reply was last made
}

func (q *queue) len() int { return len(q.entries) - q.head }

func (q *queue) push(e entry) {
	q.entries = append(q.entries, e)
	q.bytes += len(e.body)
}

// front returns the oldest request, nil if there is none. It is valid until the next push or pop.
func (q *queue) front() *entry {
	if q.head == len(q.entries) {
		return nil
	}
	return &q.entries[q.head]
}

func (q *queue) pop() {
	q.bytes -= len(q.entries[q.head].body)
	if q.head < q.started {
		q.ahead -= q.entries[q.head].weight()
	}
	q.entries[q.head] = entry{}
	q.head++
	q.started = max(q.started, q.head)
	switch {
	case q.head == len(q.entries) && cap(q.entries) > 16:
		*q = queue{moved: q.moved} // idle connections keep nothing large
	case q.head == len(q.entries):
		q.entries, q.head, q.started = q.entries[:0], 0, 0
	case q.head >= 64 && 2*q.head >= len(q.entries):
		n := copy(q.entries, q.entries[q.head:])
		clear(q.entries[n:])
		q.entries, q.started, q.head = q.entries[:n], q.started-q.head, 0
	}
}

// runnable reports whether the oldest request can be brought on by this server alone.
func (q *queue) runnable() bool {
	e := q.front()
	return e != nil && e.progress != underway
}

// write returns the write under way that was submitted as the seq-th of its connection.
func (q *queue) write(seq uint64) *entry {
	for i := q.head; i < len(q.entries); i++ {
		if e := &q.entries[i]; e.progress == underway && e.op != proto.OpSync && e.seq == seq {
			return e
		}
	}
	return nil
}

// syncing returns the sync under way with this id.
func (q *queue) syncing(id uint64) *entry {
	for i := q.head; i < len(q.entries); i++ {
		if e := &q.entries[i]; e.progress == underway && e.op == proto.OpSync && e.sync == id {
			return e
		}
	}
	return nil
}
