package env

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Rings has files synced through io_uring(7), so that no thread waits for the disk in the kernel.
//
// A goroutine that waits in fdatasync keeps its thread and, until the runtime's monitor takes it away, the thread's processor; the monitor
// wakes every 20 µs to see whether it should. A goroutine that waits for a ring waits as for a socket, and nobody watches. One ring
// carries one fsync at a time: there is nothing to share, and as many rings as syncs go on side by side, which is two or three. The
// kernel has a thread of its own wait; when it can start none, rings are given up for good.
type Rings struct {
	mu     sync.Mutex
	free   []*ring
	closed bool
}

// Probe makes a ring ahead and tries it. The error says why syncs cannot go through one on this machine; they block a thread then.
func (rs *Rings) Probe() error {
	r, err := newRing()
	if err != nil {
		return err
	}
	res, err := r.datasync(-1)
	if err == nil && res != unix.EBADF { // the kernel does not know this request, or whoever plays the kernel does not
		err = fmt.Errorf("io_uring: fsync of no file: %w", res)
	}
	if err != nil {
		r.close()
		return err
	}
	rs.give(r)
	return nil
}

// Close frees the rings that are not in use; one that is goes when its sync ends. A nil *Rings has none.
func (rs *Rings) Close() {
	if rs == nil {
		return
	}
	rs.mu.Lock()
	free := rs.free
	rs.free, rs.closed = nil, true
	rs.mu.Unlock()
	for _, r := range free {
		r.close()
	}
}

func (rs *Rings) take() (*ring, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return nil, os.ErrClosed
	}
	if n := len(rs.free); n > 0 {
		r := rs.free[n-1]
		rs.free = rs.free[:n-1]
		return r, nil
	}
	return newRing()
}

func (rs *Rings) give(r *ring) {
	rs.mu.Lock()
	closed := rs.closed
	if !closed {
		rs.free = append(rs.free, r)
	}
	rs.mu.Unlock()
	if closed {
		r.close()
	}
}

// datasync is fdatasync. errNotBegun: no ring could be had or the kernel did not begin, and no error of the file was reported to anybody;
// the caller syncs in another way. Of results only ECANCELED says that, which io_uring gives for a request that it drops, as when it can
// have no thread. Every other one may be what a write failed with, whatever its name: a virtual disk that cannot do what was asked makes
// it EOPNOTSUPP, and a file system of somebody's own makes it anything. The file reports it once, so a second try would succeed.
func (rs *Rings) datasync(fd int) error {
	r, err := rs.take()
	if err != nil {
		return fmt.Errorf("%w: %w", errNotBegun, err)
	}
	res, err := r.datasync(fd)
	if err != nil {
		r.close() // it may still have the request
		return fmt.Errorf("%w: %w", errNotBegun, err)
	}
	rs.give(r)
	switch res {
	case 0:
		return nil
	case unix.ECANCELED:
		rs.Close() // the kernel has tried for 50 ms to start a thread, and would at every sync from now on
		return fmt.Errorf("%w: %w", errNotBegun, res)
	}
	return res
}

// writeDirect writes b at off past the page cache and makes it durable. errNotBegun: it was not done, or only a part of it, and the caller
// does all of it in another way. EINVAL says that this file is not written so.
func (rs *Rings) writeDirect(fd int, b []byte, off int64) error {
	r, err := rs.take()
	if err != nil {
		return fmt.Errorf("%w: %w", errNotBegun, err)
	}
	n, err := r.writeDirect(fd, b, off)
	if err != nil {
		r.close()
		return fmt.Errorf("%w: %w", errNotBegun, err)
	}
	rs.give(r)
	return rs.wrote(n, len(b))
}

// wrote makes an error of a direct write's result. The first four of these are of the kind of write, or of the moment, and not of the
// device; and even if they were of the device: the caller writes the same bytes again, so its sync is not one of pages that look clean.
func (rs *Rings) wrote(n int32, want int) error {
	res := unix.Errno(-n)
	switch {
	case int(n) == want:
		return nil
	case n >= 0, res == unix.EINVAL, res == unix.EOPNOTSUPP, res == unix.EAGAIN, res == unix.EINTR:
		return fmt.Errorf("%w: wrote %d of %d bytes", errNotBegun, n, want)
	case res == unix.ECANCELED:
		rs.Close() // see datasync
		return fmt.Errorf("%w: %w", errNotBegun, res)
	}
	return res
}

// errNotBegun is returned for a sync that was not tried.
var errNotBegun = errors.New("sync not begun")
