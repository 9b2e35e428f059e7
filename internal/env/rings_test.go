package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func rings(t *testing.T) *Rings {
	t.Helper()
	rs := new(Rings)
	if err := rs.Probe(); err != nil {
		t.Skipf("no io_uring here: %v", err)
	}
	t.Cleanup(rs.Close)
	return rs
}

func TestSyncThroughRings(t *testing.T) {
	rs := rings(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		f, err := OSDisk{Rings: rs}.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		wg.Go(func() {
			defer f.Close()
			for i := range int64(200) {
				_, err := f.WriteAt([]byte(name), i)
				if err == nil {
					err = f.Sync()
				}
				if err != nil {
					t.Errorf("%s: sync %d: %v", name, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, len(rs.free), 5, "as many rings as syncs side by side")
	require.NotEmpty(t, rs.free)
}

// The error of a file that cannot be synced is the system call's, with its name.
func TestSyncThroughRingsFails(t *testing.T) {
	rs := rings(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	err = osFile{w, rs}.Sync()
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "fdatasync |1")
	require.NoError(t, w.Close())
	require.Error(t, osFile{w, rs}.Sync(), "closed")
}

// What the kernel has not begun is synced in the usual way; a failure is never tried twice.
func TestWhichSyncsAreTriedAgain(t *testing.T) {
	rs := rings(t)
	require.ErrorIs(t, rs.datasync(-1), unix.EBADF)
	require.NotErrorIs(t, rs.datasync(-1), errNotBegun)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.ErrorIs(t, rs.datasync(int(w.Fd())), unix.EINVAL)
	require.NotErrorIs(t, rs.datasync(int(w.Fd())), errNotBegun, "a write may have failed with this")
	rs.Close()
	require.ErrorIs(t, rs.datasync(-1), errNotBegun)
	f, err := OSDisk{Rings: rs}.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync(), "without a ring")
}

// deaf is a connection that cannot be polled.
type deaf struct{ syscall.RawConn }

func (deaf) Read(func(uintptr) bool) error { return errors.New("cannot be polled") }

// A sync that has begun is waited for, however.
func TestARingThatCannotBePolled(t *testing.T) {
	rs := rings(t)
	r, err := rs.take()
	require.NoError(t, err)
	defer r.close()
	r.conn = deaf{r.conn}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	for range 10 {
		_, err = f.WriteString("more")
		require.NoError(t, err)
		res, err := r.datasync(int(f.Fd()))
		require.NoError(t, err)
		require.Zero(t, res)
	}
	res, err := r.datasync(-1)
	require.NoError(t, err)
	require.Equal(t, unix.EBADF, res)
}

func TestARingInUseOutlivesClose(t *testing.T) {
	rs := rings(t)
	r, err := rs.take()
	require.NoError(t, err)
	rs.Close()
	res, err := r.datasync(-1)
	require.NoError(t, err)
	require.Equal(t, unix.EBADF, res)
	rs.give(r)
	require.ErrorIs(t, r.file.Close(), os.ErrClosed)
}

// What a sync of one block costs: by a thread and by a ring, in a file that is only reserved and in one that was written before. cpu-ns/op
// counts the kernel's helpers too.
func BenchmarkSync(b *testing.B) {
	rs := new(Rings)
	if err := rs.Probe(); err != nil {
		b.Skip(err)
	}
	defer rs.Close()
	const block, blocks = 4096, 2000
	for _, how := range []struct {
		name string
		disk OSDisk
	}{{"thread", OSDisk{}}, {"ring", OSDisk{Rings: rs}}} {
		for _, written := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/written=%v", how.name, written), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "file")
				var f File
				fresh := func() {
					var err error
					f, err = how.disk.Create(path)
					require.NoError(b, err)
					require.NoError(b, f.Allocate(block*blocks))
					if written {
						_, err = f.WriteAt(make([]byte, block*blocks), 0)
						require.NoError(b, err)
					}
					require.NoError(b, f.Sync())
				}
				fresh()
				buf := make([]byte, block)
				var cpu time.Duration
				began := usedCPU(b)
				for i := range b.N {
					if at := i % blocks; at == 0 && i > 0 {
						b.StopTimer()
						cpu += usedCPU(b) - began
						require.NoError(b, f.Close())
						require.NoError(b, os.Remove(path))
						fresh()
						began = usedCPU(b)
						b.StartTimer()
					}
					_, err := f.WriteAt(buf, block*int64(i%blocks))
					require.NoError(b, err)
					require.NoError(b, f.Sync())
				}
				cpu += usedCPU(b) - began
				b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
				require.NoError(b, f.Close())
			})
		}
	}
}

func usedCPU(b *testing.B) time.Duration {
	var ru unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &ru))
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
