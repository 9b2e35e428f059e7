package env

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
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
	err = newOSFile(w, rs).Sync()
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "fdatasync |1")
	require.NoError(t, w.Close())
	require.Error(t, newOSFile(w, rs).Sync(), "closed")
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

// Through the cache and past it, in any order and over each other, a file is what was written last.
func TestWriteSync(t *testing.T) {
	rs := rings(t)
	for _, disk := range []OSDisk{{}, {Rings: rs}} {
		f, err := disk.Create(filepath.Join(t.TempDir(), "file"))
		require.NoError(t, err)
		defer f.Close()
		const size = 2 << 20
		require.NoError(t, f.Allocate(size))
		rnd := rand.New(rand.NewPCG(1, 2))
		want := make([]byte, size)
		for i := range 200 {
			n := rnd.IntN(1<<(i%21)) + 1
			if i%3 > 0 {
				n = (n + pageBytes - 1) &^ (pageBytes - 1)
			}
			off := rnd.IntN(size - n + 1)
			if i%3 > 0 {
				off &^= pageBytes - 1
			}
			b := make([]byte, n)
			for j := range b {
				b[j] = byte(rnd.Uint32())
			}
			if i%5 == 0 {
				_, err := f.WriteAt(b, int64(off))
				require.NoError(t, err)
				require.NoError(t, f.Sync())
			} else {
				require.NoError(t, WriteSync(f, b, int64(off)))
			}
			copy(want[off:], b)
			got := make([]byte, n)
			_, err := f.ReadAt(got, int64(off))
			require.NoError(t, err)
			require.Equal(t, b, got)
		}
		got := make([]byte, size)
		_, err = f.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Len(t, rs.free, 1)
}

// A file that has got another name meanwhile is still the same file.
func TestWriteSyncBehindARename(t *testing.T) {
	rs := rings(t)
	dir := t.TempDir()
	disk := OSDisk{Rings: rs}
	f, err := disk.Create(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.NoError(t, disk.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	page := bytes.Repeat([]byte("x"), pageBytes)
	require.NoError(t, WriteSync(f, page, 0))
	require.NoError(t, f.Close())
	require.Error(t, WriteSync(f, page, 0), "closed")
	got, err := os.ReadFile(filepath.Join(dir, "b"))
	require.NoError(t, err)
	require.Equal(t, page, got)
}

func TestWriteSyncFails(t *testing.T) {
	rs := rings(t)
	page := make([]byte, pageBytes)
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	ro, err := os.Open(name)
	require.NoError(t, err)
	defer ro.Close()
	p := newOSFile(ro, rs)
	require.True(t, p.past.file == nil)
	p.past.once.Do(func() { p.past.file = ro }) // as if it could be written
	require.ErrorIs(t, WriteSync(p, page, 0), unix.EBADF)

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	require.ErrorIs(t, WriteSync(newOSFile(full, rs), page, 0), unix.ENOSPC)

	closed := new(Rings)
	closed.Close()
	f, err := OSDisk{Rings: closed}.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, WriteSync(f, page, 0), "without a ring")
	require.NoError(t, f.Sync())
}

// Which results of a direct write are final. None of the others leaves a page that only looks written.
func TestWhichWritesAreTriedAgain(t *testing.T) {
	const want = 4096
	for _, c := range []struct {
		n     int32
		err   error
		again bool
	}{
		{want, nil, false}, {0, nil, true}, {512, nil, true},
		{-int32(unix.EINVAL), nil, true}, {-int32(unix.EOPNOTSUPP), nil, true}, {-int32(unix.EAGAIN), nil, true},
		{-int32(unix.EINTR), nil, true}, {-int32(unix.ECANCELED), unix.ECANCELED, true},
		{-int32(unix.EIO), unix.EIO, false}, {-int32(unix.ENOSPC), unix.ENOSPC, false}, {-int32(unix.EROFS), unix.EROFS, false},
		{-int32(unix.ETIMEDOUT), unix.ETIMEDOUT, false}, {-int32(unix.EDQUOT), unix.EDQUOT, false},
	} {
		rs := new(Rings)
		err := rs.wrote(c.n, want)
		require.Equal(t, c.again, errors.Is(err, errNotBegun), c.n)
		require.Equal(t, c.n == want, err == nil, c.n)
		if c.err != nil {
			require.ErrorIs(t, err, c.err)
		}
		require.Equal(t, c.err == unix.ECANCELED, rs.closed)
	}
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
	past, err := os.OpenFile(f.Name(), os.O_WRONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer past.Close()
	n, err := r.writeDirect(int(past.Fd()), make([]byte, pageBytes), 0)
	require.NoError(t, err)
	require.EqualValues(t, pageBytes, n)
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
		one  bool
	}{{"thread", OSDisk{}, false}, {"ring", OSDisk{Rings: rs}, false}, {"past-cache", OSDisk{Rings: rs}, true}} {
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
					if at := block * int64(i%blocks); how.one {
						require.NoError(b, WriteSync(f, buf, at))
						continue
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

// What NextData steps over is zeros.
func TestNextData(t *testing.T) {
	f, err := OSDisk{}.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	const size = 8 << 20
	require.NoError(t, f.Allocate(size))
	for _, off := range []int64{0, 3 << 20, 3<<20 + 100_000, 6 << 20} {
		_, err := f.WriteAt([]byte{1}, off+17)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	var nexts []int64
	for off := int64(0); off < size; off += pageBytes { // before it is read: what is in the page cache counts as written
		nexts = append(nexts, min(NextData(f, off), size))
	}
	all := make([]byte, size)
	_, err = f.ReadAt(all, 0)
	require.NoError(t, err)
	stepped := int64(0)
	for i, next := range nexts {
		off := int64(i) * pageBytes
		require.GreaterOrEqual(t, next, off)
		require.Empty(t, bytes.Trim(all[off:next], "\x00"))
		stepped = max(stepped, next-off)
	}
	t.Log("steps over", stepped, "bytes at most")
	require.Equal(t, int64(5), NextData(struct{ File }{f}, 5), "who cannot tell says so")
}
