package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnIdleServerGivesItsMemoryBackOnce(t *testing.T) {
	const mib = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex // a timer orders nothing for the race detector
		m, released := memory{live: 300 * mib, held: 600 * mib}, 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			tidyMemory(ctx, func() memory { mu.Lock(); defer mu.Unlock(); return m }, func() { mu.Lock(); defer mu.Unlock(); released++; m.held = m.live })
		}()
		pass := func(allocated uint64) {
			synctest.Wait()
			mu.Lock()
			m.allocated += allocated
			mu.Unlock()
			time.Sleep(tidyEvery)
			synctest.Wait()
		}
		pass(50 * mib)
		require.Zero(t, released, "busy")
		pass(0)
		require.Equal(t, 1, released)
		m.held = 600 * mib
		pass(0)
		require.Equal(t, 1, released, "what comes back at once is needed")
		pass(50 * mib)
		pass(0)
		require.Equal(t, 2, released)
		pass(50 * mib)
		m.held = m.live + 10*mib
		pass(0)
		require.Equal(t, 2, released, "not worth it")
		cancel()
		<-done
	})
}

func TestReadMemorySeesWhatIsHeld(t *testing.T) {
	releaseMemory() // of other tests
	before := readMemory()
	garbage := make([]byte, 64<<20)
	for i := range garbage {
		garbage[i] = 1
	}
	after := readMemory()
	require.Greater(t, after.allocated, before.allocated+(60<<20))
	require.Greater(t, after.held, before.held+(30<<20))
	runtime.KeepAlive(garbage)
	garbage = nil
	releaseMemory()
	require.Less(t, readMemory().held, after.held-(30<<20))
}

func TestABusyServerWithASmallHeapCollectsSeldom(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		allocated, live uint64
		want            int
	}{
		"idle":                 {1 * mib, 35 * mib, 100},
		"sessions come":        {30 * mib, 35 * mib, 100},
		"nothing in use":       {400 * mib, 1 * mib, 400},
		"tail":                 {400 * mib, 32 * mib, 300},
		"half":                 {400 * mib, 60 * mib, 113},
		"large":                {400 * mib, 64 * mib, 100},
		"much larger":          {400 * mib, 5000 * mib, 100},
		"busy by a hair":       {48 * mib, 32 * mib, 300},
		"not busy, by a hair":  {48*mib - 1, 32 * mib, 100},
		"allocates in bursts":  {4000 * mib, 26 * mib, 392},
		"nothing but the heap": {400 * mib, 0, 400},
	} {
		t.Run(name, func(t *testing.T) {
			before := memory{allocated: 7 * mib}
			require.Equal(t, c.want, pace(before, memory{allocated: before.allocated + c.allocated, live: c.live}))
		})
	}
}

func TestThePaceChangesOnlyWhenItMatters(t *testing.T) {
	const mib = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex // a timer orders nothing for the race detector
		m, set := memory{live: 32 * mib}, []int(nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			paceCollections(ctx, func() memory { mu.Lock(); defer mu.Unlock(); return m }, func(percent int) { mu.Lock(); defer mu.Unlock(); set = append(set, percent) })
		}()
		second := func(allocated, live uint64) {
			synctest.Wait()
			mu.Lock()
			m.allocated, m.live = m.allocated+allocated, live
			mu.Unlock()
			time.Sleep(paceEvery)
			synctest.Wait()
		}
		second(1*mib, 32*mib)
		require.Empty(t, set, "the usual")
		second(300*mib, 32*mib)
		require.Equal(t, []int{300}, set)
		second(300*mib, 33*mib)
		require.Equal(t, []int{300}, set, "about the same")
		second(300*mib, 40*mib)
		require.Equal(t, []int{300, 220}, set)
		second(300*mib, 63*mib)
		second(300*mib, 64*mib)
		require.Equal(t, []int{300, 220, 103, 100}, set)
		second(300*mib, 32*mib)
		second(0, 32*mib)
		require.Equal(t, []int{300, 220, 103, 100, 300, 100}, set, "the load is over")
		cancel()
		<-done
	})
}

// The memory that puts a start's collections off does not put those of a small server off for good.
func TestASmallStartLeavesTheUsualGoal(t *testing.T) {
	goal := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	during := uint64(0)
	collectLater(func() { runtime.GC(); during = goal() })
	require.Greater(t, during, uint64(ballast))
	require.Less(t, goal(), uint64(ballast))
}

// Nobody who comes first has to help with the collection of a large start.
func TestTheUsualPaceComesBackBehindTheFirstClients(t *testing.T) {
	growth := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	var kept []byte
	collectLater(func() { kept = make([]byte, smallStart) })
	require.EqualValues(t, startGrowth, growth())
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(firstServed - 1)
			assert.EqualValues(t, startGrowth, growth())
		}()
		endStart(t.Context())
	})
	require.EqualValues(t, usualPace, growth())
	runtime.KeepAlive(kept)

	t.Setenv("GOGC", "50")
	collectLater(func() { require.EqualValues(t, usualPace, growth(), "the operator's choice stays") })
	endStart(canceled())
	require.EqualValues(t, usualPace, growth())
}

// A limit for all memory is not used up by memory that is only there to count.
func TestAStartWithAMemoryLimitHasNoBallast(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30))
	before := readMemory().allocated
	collectLater(func() { require.Less(t, readMemory().allocated-before, uint64(ballast)) })
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
