package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A server under load makes hundreds of megabytes of garbage a second beside a tree and a tail of the log that may be small: at Go's usual
// pace it would collect seven times a second at 35 MB in use. So while much is allocated the heap may grow to busyHeap between two
// collections, however little is in use; a larger heap, and one of a server with little to do, is collected at the usual pace.

const (
	paceEvery = time.Second
	busyBytes = 48 << 20  // allocated in paceEvery by a server that counts as busy
	busyHeap  = 128 << 20 // of a busy server's heap, just before a collection
	usualPace = 100       // percent of what is in use, for as much garbage
	paceStep  = 20        // percent; less of a change is not worth the world's stop
)

// pace is the percentage that suits a server with now, and before one paceEvery ago.
func pace(before, now memory) int {
	if now.allocated-before.allocated < busyBytes || now.live >= busyHeap/2 {
		return usualPace
	}
	return int(busyHeap*100/max(now.live, busyHeap/5)) - 100
}

// paceCollections sets how often the process collects, until ctx ends.
func paceCollections(ctx context.Context, read func() memory, set func(percent int)) {
	t := time.NewTicker(paceEvery)
	defer t.Stop()
	last, is := read(), usualPace
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := read()
		want := pace(last, now)
		if last = now; want == is || want != usualPace && want > is-paceStep && want < is+paceStep {
			continue
		}
		set(want)
		is = want
	}
}

// paceChosen reports whether the operator has chosen a pace.
func paceChosen() bool { return os.Getenv("GOGC") != "" }

// setPace applies a percentage, unless the operator has chosen one.
func setPace(percent int) {
	if !paceChosen() {
		debug.SetGCPercent(percent)
	}
}

// After a burst of writes the process holds about twice what it needs, and the runtime gives it back only while collections run, which an
// idle server has none of. So a server that has been idle for a while collects once and returns what is free.

const (
	tidyEvery   = 10 * time.Second
	idleBytes   = 1 << 20  // allocated in tidyEvery by a server that counts as idle
	spareBytes  = 16 << 20 // less is not worth a collection
	spareOfLive = 8        // nor is less than this part of what is in use
)

// memory is a reading of the runtime's counters, in bytes.
type memory struct {
	allocated uint64 // ever
	live      uint64 // at the end of the last collection
	held      uint64 // heap that the operating system has not got back: objects and free
}

func readMemory() memory {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return memory{allocated: s[0].Value.Uint64(), live: s[1].Value.Uint64(), held: s[2].Value.Uint64() + s[3].Value.Uint64()}
}

// idle reports whether nearly nothing was allocated since before.
func (m memory) idle(before memory) bool { return m.allocated-before.allocated < idleBytes }

// spare reports whether the process holds much more than it uses.
func (m memory) spare() bool { return m.held > m.live+max(spareBytes, m.live/spareOfLive) }

// tidyMemory watches over the process until ctx ends.
func tidyMemory(ctx context.Context, read func() memory, release func()) {
	t := time.NewTicker(tidyEvery)
	defer t.Stop()
	last, done := read(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := read()
		switch idle := now.idle(last); {
		case !idle:
			done = false
		case !done && now.spare():
			release()
			done, now = true, read() // the release's own allocations do not count
		}
		last = now
	}
}

// releaseMemory collects and gives back what is free.
func releaseMemory() { debug.FreeOSMemory() }
