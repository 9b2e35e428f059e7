package main

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// startGrowth is how much the heap may grow between two collections of a start, in percent. Nearly all that a start allocates stays, so that
// collections find little; but what it leaves behind must not make it larger than the filling of the tree did.
const startGrowth = 300

// collectLater runs start with rarer collections.
func collectLater(start func()) {
	defer debug.SetGCPercent(debug.SetGCPercent(startGrowth))
	start()
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
