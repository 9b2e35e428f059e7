package main

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Nearly all that a start allocates stays, so that collections find little. ballast, which is never touched and so takes no memory, and startGrowth, in percent,
// put the first one off until the heap has half a gigabyte, what a million znodes and their log come to. A larger one is collected as it grows. The usual pace comes
// back a second later, when the first clients have been served: the heap is beyond its goal then, and until a collection has ended whoever allocates has to help it.
const (
	ballast     = 256 << 20
	startGrowth = 200
	smallStart  = 64 << 20 // allocated by a start after which a collection is quick
	firstServed = time.Second
)

// collectLater runs start with rarer collections, until endStart. The ballast counts as in use until the next one; so that a server that found little does
// not put that one off by as much, it collects at once. Where the operator has chosen a pace, or a limit for the memory, of which the ballast would be a
// part, it stays.
func collectLater(start func()) {
	if paceChosen() || debug.SetMemoryLimit(-1) < math.MaxInt64 {
		start()
		return
	}
	before := readMemory().allocated
	debug.SetGCPercent(startGrowth)
	weight := make([]byte, ballast)
	start()
	runtime.KeepAlive(weight)
	if readMemory().allocated-before < ballast+smallStart {
		debug.SetGCPercent(usualPace)
		runtime.GC()
	}
}

// endStart brings the usual pace back a second after the start, or when ctx ends.
func endStart(ctx context.Context) {
	t := time.NewTimer(firstServed)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
		if !paceChosen() {
			runtime.GC()
		}
	}
	setPace(usualPace)
}

// aside runs do on a goroutine of its own.
func aside(do func()) (ended func(wait bool) bool) {
	end := make(chan struct{})
	go func() {
		do()
		close(end)
	}()
	return func(wait bool) bool {
		if wait {
			<-end
			return true
		}
		select {
		case <-end:
			return true
		default:
			return false
		}
	}
}

// sideBySide calls do for 0 to n-1, on as many goroutines as there are processors, and returns when all calls have returned.
func sideBySide(n int, do func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(i)
		}
	}
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
