package env

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func bootTime(t testing.TB) time.Duration {
	var ts unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts))
	return time.Duration(ts.Nano())
}

func TestTheRealClockIsTheBootClock(t *testing.T) {
	for range 1000 {
		before := bootTime(t)
		now := RealClock{}.Now()
		after := bootTime(t)
		require.GreaterOrEqual(t, now, before-lookError)
		require.LessOrEqual(t, now, after+lookError)
	}
}

func TestTheRealClockNeverGoesBack(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := RealClock{}.Now()
			for range 100_000 {
				now := RealClock{}.Now()
				if now < last {
					t.Errorf("%v after %v", now, last)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
}

// A suspend makes the two clocks differ more than before; the next look finds it.
func TestTimeSuspendedCounts(t *testing.T) {
	RealClock{}.Now()
	was := clockSuspended.Load()
	t.Cleanup(func() { clockSuspended.Store(was) })
	clockSuspended.Store(was - int64(time.Hour)) // as if the last hour had been asleep
	clockLooked.Store(0)
	now, boot := RealClock{}.Now(), bootTime(t)
	require.InDelta(t, float64(boot), float64(now), float64(2*lookError))
}

func BenchmarkRealClock(b *testing.B) {
	for b.Loop() {
		RealClock{}.Now()
	}
}
