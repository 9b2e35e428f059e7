package env

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/zkd-project/zkd/internal/socket"
)

// ErrLocked is returned by Disk.Lock when another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// OSDisk is the operating system's disk.
type OSDisk struct {
	Rings *Rings // carries the syncs of files; nil: each blocks a thread
}

type osFile struct {
	*os.File
	rings *Rings
	past  *past // nil if rings is
}

// Open implements Disk.
func (d OSDisk) Open(path string) (File, error) { return d.open(path, os.O_RDWR) }

// Create implements Disk.
func (d OSDisk) Create(path string) (File, error) {
	return d.open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (d OSDisk) open(path string, flags int) (File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return newOSFile(f, d.Rings), nil
}

func newOSFile(f *os.File, rings *Rings) osFile {
	if rings == nil {
		return osFile{File: f}
	}
	return osFile{f, rings, new(past)}
}

// Rename implements Disk.
func (OSDisk) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements Disk.
func (OSDisk) Remove(path string) error { return os.Remove(path) }

// MkdirAll implements Disk.
func (d OSDisk) MkdirAll(path string) error {
	path = filepath.Clean(path)
	if st, err := os.Stat(path); err == nil {
		if !st.IsDir() {
			return fmt.Errorf("%s: %w, and not a folder", path, fs.ErrExist)
		}
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := d.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.SyncDir(parent)
}

// List implements Disk.
func (OSDisk) List(path string) ([]Entry, error) {
	des, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(des))
	for _, de := range des {
		info, err := de.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		e := Entry{Name: de.Name(), Dir: de.IsDir()}
		if !e.Dir {
			e.Size = info.Size()
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out, nil
}

// SyncDir implements Disk.
func (OSDisk) SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Free implements Disk.
func (OSDisk) Free(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// copying are the file systems that write nothing in place.
var copying = []int64{unix.BTRFS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */, 0xca451a4e /* bcachefs */, 0x3434 /* NILFS2 */}

// InPlace implements Disk. A file system that cannot be asked is taken for one that copies.
func (OSDisk) InPlace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && !slices.Contains(copying, int64(st.Type))
}

// Lock implements Disk.
func (OSDisk) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", path, ErrLocked)
		}
		return nil, &fs.PathError{Op: "flock", Path: path, Err: err}
	}
	return f, nil
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// NextData is for NextData.
func (f osFile) NextData(off int64) int64 {
	at, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case err == nil:
		return at
	case errors.Is(err, unix.ENXIO):
		return math.MaxInt64
	}
	return off
}

// Prefetch is for Prefetch.
func (f osFile) Prefetch() {
	fd := int(f.Fd())
	if end, err := unix.Seek(fd, 0, unix.SEEK_HOLE); err == nil {
		_ = unix.Fadvise(fd, 0, end, unix.FADV_WILLNEED) // without it the reads themselves wait
	}
}

func (f osFile) Allocate(size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.fill(size)
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// fill reserves space where the file system cannot: by writing zeros.
func (f osFile) fill(size int64) error {
	at, err := f.Size()
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<20)
	for at < size {
		n := min(int64(len(zeros)), size-at)
		if _, err := f.WriteAt(zeros[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// Sync uses fdatasync: it covers the data and the size, and not the times.
func (f osFile) Sync() error {
	err := errNotBegun
	if f.rings != nil {
		err = f.rings.datasync(int(f.Fd()))
	}
	for errors.Is(err, errNotBegun) || errors.Is(err, unix.EINTR) { // interrupted before it began; no page was written
		err = unix.Fdatasync(int(f.Fd()))
	}
	if err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// WriteSync writes b at off and makes it durable: past the page cache if b is some whole pages and the file system does that.
func (f osFile) WriteSync(b []byte, off int64) error {
	err := f.past.write(f, b, off)
	if !errors.Is(err, errNotBegun) {
		if err != nil {
			return &fs.PathError{Op: "write", Path: f.Name(), Err: err}
		}
		return nil
	}
	if _, err := f.WriteAt(b, off); err != nil {
		return err
	}
	return f.Sync()
}

// Close implements File.
func (f osFile) Close() error {
	f.past.close()
	return f.File.Close()
}

// RealClock counts on through suspend, as CLOCK_BOOTTIME does.
//
// That clock costs a system call, and the core asks for the time several times per write. The runtime's monotonic clock costs none and
// differs from it only by the time that the machine was suspended. So Now reads the monotonic clock and adds a difference that it looks
// up anew when the last look is lookEvery old. After a suspend a caller may get the old time for that long, counted in time awake: no
// more than if the machine had been suspended that much later, between its look at the clock and what it does then.
type RealClock struct{}

const (
	lookEvery = time.Millisecond
	// lookError bounds what lies between the two clocks being read. A smaller change of the difference is none.
	lookError = 10 * time.Millisecond
)

var (
	clockBase      = time.Now()
	clockLooked    atomic.Int64 // since clockBase, awake
	clockSuspended atomic.Int64 // what to add to the time since clockBase; it only grows
)

// Now implements Clock.
func (RealClock) Now() time.Duration {
	awake := time.Since(clockBase)
	if looked := time.Duration(clockLooked.Load()); looked == 0 || awake-looked >= lookEvery {
		look(awake)
	}
	return awake + time.Duration(clockSuspended.Load())
}

func look(awake time.Duration) {
	var ts unix.Timespec
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 { // see package socket
		panic(fmt.Sprintf("clock_gettime: %v", errno)) // there is no Linux without it
	}
	add := ts.Nano() - int64(awake)
	for {
		old := clockSuspended.Load()
		if old != 0 && add-old < int64(lookError) || clockSuspended.CompareAndSwap(old, add) {
			break
		}
	}
	clockLooked.Store(int64(awake))
}

// Wall implements Clock.
func (RealClock) Wall() time.Time { return time.Now() }

// NewTimer implements Clock.
func (RealClock) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

type realTimer struct{ *time.Timer }

func (t realTimer) C() <-chan time.Time   { return t.Timer.C }
func (t realTimer) Reset(d time.Duration) { t.Timer.Reset(d) }
func (t realTimer) Stop()                 { t.Timer.Stop() }

// TCP is the real network.
type TCP struct{}

// Listen implements Net.
func (TCP) Listen(addr string) (net.Listener, error) { return socket.Listen(addr) }

// Dial implements Net.
func (TCP) Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return socket.Quick(c), nil
}

// SystemRand is the operating system's randomness.
type SystemRand struct{}

// Fill implements Rand.
func (SystemRand) Fill(b []byte) {
	_, _ = rand.Read(b) // never fails: it crashes the process instead
}
