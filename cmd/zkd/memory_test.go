package main

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnIdleServerGivesItsMemoryBackOnce(t *testing.T) {
	const mib = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m, released := memory{live: 300 * mib, held: 600 * mib}, 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			tidyMemory(ctx, func() memory { return m }, func() { released++; m.held = m.live })
		}()
		pass := func(allocated uint64) {
			synctest.Wait()
			m.allocated += allocated
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
