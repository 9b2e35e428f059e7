package peer

import (
	"sync"

	"github.com/zkd-project/zkd/zab"
)

// inboxMaxBytes bounds what readers of peer connections may leave in the inbox before they wait.
const inboxMaxBytes = 64 << 20

// inbox collects what the loop has to be told. Any goroutine puts, the loop takes everything at once.
type inbox struct {
	mu     sync.Mutex
	room   sync.Cond // signalled when bytes shrink or closed is set
	events []zab.Event
	spare  []zab.Event
	bytes  int
	closed bool
	wake   chan struct{} // holds at most one token
}

func newInbox() *inbox {
	b := &inbox{wake: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

// put adds an event that must not wait. After close it does nothing.
func (b *inbox) put(ev zab.Event) { b.add(ev, 0) }

// putSized adds an event of about n bytes and waits while too much is there already.
func (b *inbox) putSized(ev zab.Event, n int) {
	b.awaitRoom()
	b.add(ev, n)
}

// awaitRoom waits while too much is there.
func (b *inbox) awaitRoom() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes > inboxMaxBytes && !b.closed {
		b.room.Wait()
	}
}

func (b *inbox) add(ev zab.Event, n int) {
	if b.addQuietly(n, ev) {
		poke(b.wake)
	}
}

// addQuietly adds events of about n bytes and wakes nobody: before it waits for anything the caller must go on to Peer.turnHere, or wake
// the loop. first is true if nothing was there before.
//
//	A adds quietly; B adds behind it and, not being first, wakes nobody; A takes a turn for both, or finds one under way and wakes the loop
func (b *inbox) addQuietly(n int, evs ...zab.Event) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	first = len(b.events) == 0
	b.events = append(b.events, evs...)
	b.bytes += n
	return first
}

// take returns what waits, in order. The slice is the caller's until the next take.
func (b *inbox) take() []zab.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	evs := b.events
	clear(b.spare)
	b.events, b.spare = b.spare[:0], evs
	if cap(b.events) > 16<<10 {
		b.events = nil
	}
	if b.bytes > 0 {
		b.bytes = 0
		b.room.Broadcast()
	}
	return evs
}

// close lets go of everybody who waits.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.events = nil
	b.mu.Unlock()
	b.room.Broadcast()
}
