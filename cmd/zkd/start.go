package main

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Nearly all that a start allocates stays, so that collections find little. ballast, which is never touched and so takes no memory, and startGrowth, in percent,
// put the first one off until the heap has half a gigabyte, what a million znodes and their log come to. A larger one is collected as it grows.
const (
	ballast     = 256 << 20
	startGrowth = 200
)

// collectLater runs start with rarer collections.
func collectLater(start func()) {
	defer debug.SetGCPercent(debug.SetGCPercent(startGrowth))
	weight := make([]byte, ballast)
	start()
	runtime.KeepAlive(weight)
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
