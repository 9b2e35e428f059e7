package session

import (
	"maps"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// Tracker knows when sessions run out. Only a leader keeps one, from its own establishment on. Time is a monotonic clock that
// the caller reads; it may start anywhere. It belongs to one goroutine.
//
// Sessions that end within the same tick share a bucket, so a touch costs constant time and Expired looks only at buckets whose
// time has come. Invariant: a session is in the bucket that its entry names, unless it is ending; then it is in none.
type Tracker struct {
	tick     time.Duration
	shift    time.Duration // how far Extend has put time back
	sessions map[txn.SessionID]*entry
	buckets  map[int64]map[txn.SessionID]struct{} // by deadline / tick
	first    int64                                // no bucket is below
}

type entry struct {
	bucket int64
	owner  txn.ServerID
	ending bool
}

// NewTracker returns a tracker without sessions. tick is what deadlines are rounded up to; it must be positive.
func NewTracker(tick time.Duration) *Tracker {
	return &Tracker{
		tick:     tick,
		sessions: map[txn.SessionID]*entry{},
		buckets:  map[int64]map[txn.SessionID]struct{}{},
	}
}

// bucketOf is (t / tick + 1) * tick in ticks: the next multiple strictly above now + timeout.
func (t *Tracker) bucketOf(now, timeout time.Duration) int64 {
	return int64((now-t.shift+timeout)/t.tick) + 1
}

// Reset starts again with the sessions of a table, each with its full timeout from now and no owner.
func (t *Tracker) Reset(table *Table, now time.Duration) {
	*t = *NewTracker(t.tick)
	for _, id := range table.IDs() {
		millis, _ := table.Timeout(id)
		t.Add(id, time.Duration(millis)*time.Millisecond, now)
	}
}

// Add takes a session in, with its full timeout from now and no owner. If it is known it is touched.
func (t *Tracker) Add(id txn.SessionID, timeout, now time.Duration) {
	if t.sessions[id] != nil {
		t.Touch(id, timeout, now)
		return
	}
	e := &entry{}
	t.sessions[id] = e
	t.enter(id, e, t.bucketOf(now, timeout))
}

// Remove forgets a session.
func (t *Tracker) Remove(id txn.SessionID) {
	if e := t.sessions[id]; e != nil {
		t.leave(id, e)
		delete(t.sessions, id)
	}
}

// Touch gives a session a full timeout from now; the timeout is the touch's, because a client negotiates it anew whenever it
// attaches. It reports false for a session that is not known or is ending. A deadline never moves back.
func (t *Tracker) Touch(id txn.SessionID, timeout, now time.Duration) bool {
	e := t.sessions[id]
	if e == nil || e.ending {
		return false
	}
	if b := t.bucketOf(now, timeout); b > e.bucket {
		t.leave(id, e)
		t.enter(id, e, b)
	}
	return true
}

// Expired returns the sessions whose time is up, in ascending order within each tick. A session that is neither touched nor set
// to ending afterwards is named again a tick later.
func (t *Tracker) Expired(now time.Duration) []txn.SessionID {
	due := int64((now - t.shift) / t.tick) // bucket b is due at b * tick
	if len(t.buckets) == 0 || due < t.first {
		return nil
	}
	var ids []txn.SessionID
	for _, b := range t.dueBuckets(due) {
		bucket := t.buckets[b]
		sorted := slices.Sorted(maps.Keys(bucket))
		ids = append(ids, sorted...)
		delete(t.buckets, b)
		for _, id := range sorted {
			t.enter(id, t.sessions[id], due+1)
		}
	}
	t.first = due + 1
	return ids
}

// dueBuckets names the buckets up to due in ascending order: by counting, or through the map if that is shorter.
func (t *Tracker) dueBuckets(due int64) []int64 {
	var numbers []int64
	if due-t.first < int64(len(t.buckets)) {
		for b := t.first; b <= due; b++ {
			if t.buckets[b] != nil {
				numbers = append(numbers, b)
			}
		}
		return numbers
	}
	for b := range t.buckets {
		if b <= due {
			numbers = append(numbers, b)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// Extend puts every deadline off by d, the length of a stall in which no client could be heard.
func (t *Tracker) Extend(d time.Duration) {
	if d > 0 {
		t.shift += d
	}
}

// SetEnding marks a session whose closeSession is proposed: it is not touched any more and not named as expired.
func (t *Tracker) SetEnding(id txn.SessionID) {
	if e := t.sessions[id]; e != nil && !e.ending {
		t.leave(id, e)
		e.ending = true
	}
}

// State tells whether a session is known, and whether it is ending.
func (t *Tracker) State(id txn.SessionID) (known, ending bool) {
	e := t.sessions[id]
	return e != nil, e != nil && e.ending
}

// Owner is the server whose client connection the session belongs to, 0 if none is known.
func (t *Tracker) Owner(id txn.SessionID) txn.ServerID {
	if e := t.sessions[id]; e != nil && !mutant.On("R-49") {
		return e.owner
	}
	return 0
}

// SetOwner makes a server the owner of a session that is known.
func (t *Tracker) SetOwner(id txn.SessionID, owner txn.ServerID) {
	if e := t.sessions[id]; e != nil {
		e.owner = owner
	}
}

// Len is the number of sessions, those that are ending included.
func (t *Tracker) Len() int { return len(t.sessions) }

func (t *Tracker) enter(id txn.SessionID, e *entry, bucket int64) {
	e.bucket = bucket
	b := t.buckets[bucket]
	if b == nil {
		b = map[txn.SessionID]struct{}{}
		if len(t.buckets) == 0 || bucket < t.first {
			t.first = bucket
		}
		t.buckets[bucket] = b
	}
	b[id] = struct{}{}
}

func (t *Tracker) leave(id txn.SessionID, e *entry) {
	b := t.buckets[e.bucket]
	delete(b, id)
	if len(b) == 0 {
		delete(t.buckets, e.bucket)
	}
}
