package env

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

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

func BenchmarkSync(b *testing.B) {
	rs := new(Rings)
	if err := rs.Probe(); err != nil {
		b.Skip(err)
	}
	defer rs.Close()
	for name, disk := range map[string]OSDisk{"thread": {}, "ring": {Rings: rs}} {
		b.Run(name, func(b *testing.B) {
			f, err := disk.Create(filepath.Join(b.TempDir(), "file"))
			require.NoError(b, err)
			defer f.Close()
			block := make([]byte, 4096)
			require.NoError(b, f.Allocate(int64(len(block))*1000))
			for i := range b.N {
				_, err := f.WriteAt(block, int64(len(block))*int64(i%1000))
				require.NoError(b, err)
				require.NoError(b, f.Sync())
			}
		})
	}
}
