package peer

import (
	"sync"

	"github.com/zkd-project/zkd/zab"
)

// twinsReturns is how often a process must have come back after another one with its id before that counts. A process that has ended does not come
// back, but one connection of its may have waited to be read: that makes two returns.
const twinsReturns = 3

// twins finds out that two live processes say they are one server. They meet each other by themselves if they can; a third member sees
// their hellos by turns.
type twins struct {
	mu   sync.Mutex
	last map[zab.ServerID]twin
}

// twin is what the last hellos of one id said.
type twin struct {
	now, before process
	returns     int
}

// process is one start of one data directory.
type process struct{ directory, boot uint64 }

// seen takes the hello of a connection that came in, and reports whether there are two processes.
func (t *twins) seen(h *zab.Hello) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[zab.ServerID]twin{}
	}
	x, p := t.last[h.Self], process{h.Directory, h.Boot}
	switch p {
	case x.now:
		return false
	case x.before:
		x.returns++
	default:
		x.returns = 0
	}
	x.before, x.now = x.now, p
	t.last[h.Self] = x
	return x.returns >= twinsReturns
}
