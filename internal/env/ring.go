package env

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is used of linux/io_uring.h.
const (
	opFsync       = 3
	opWrite       = 23 // Linux 5.6
	byWorker      = 1 << 4
	fsyncDatasync = 1
	enterGetEvent = 1
	featSingleMap = 1
	offsetRings   = 0
	offsetEntries = 0x10000000
)

// ringParams, ringRequest and ringResult are struct io_uring_params, io_uring_sqe and io_uring_cqe.
type ringParams struct {
	requests, results, flags, cpu, idle, features, workers uint32
	_                                                      [3]uint32
	sq                                                     struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, results, flags, _ uint32
		_                                                      uint64
	}
}

type ringRequest struct {
	op, flags     uint8
	_             uint16
	fd            int32
	off, addr     uint64
	size, opFlags uint32
	tag           uint64
	_             [3]uint64
}

type ringResult struct {
	tag   uint64
	res   int32
	flags uint32
}

// ring is an io_uring for one request at a time. One goroutine uses it at a time.
type ring struct {
	file           *os.File // polled: it is readable when a result waits
	conn           syscall.RawConn
	rings, entries []byte // shared with the kernel

	request *ringRequest // the only one
	sqTail  *uint32      // the kernel reads it
	cqHead  *uint32      // the kernel reads it
	cqTail  *uint32      // the kernel writes it
	cqMask  uint32
	results []ringResult
	tag     uint64 // of the last request
	out     []byte // what writeDirect writes, directBytes at a page's beginning
}

func newRing() (*ring, error) {
	var p ringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("io_uring_setup", errno)
	}
	if err := unix.SetNonblock(int(fd), true); err != nil { // so that os.NewFile polls it
		unix.Close(int(fd))
		return nil, os.NewSyscallError("fcntl", err)
	}
	r := &ring{file: os.NewFile(fd, "io_uring")}
	err := r.share(int(fd), &p)
	if err == nil {
		r.conn, err = r.file.SyscallConn()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// share maps what is shared with the kernel.
func (r *ring) share(fd int, p *ringParams) error {
	if p.features&featSingleMap == 0 {
		return os.NewSyscallError("io_uring_setup", unix.ENOSYS) // older than Linux 5.4
	}
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	var err error
	size := max(p.sq.array+4*p.requests, p.cq.results+p.results*uint32(unsafe.Sizeof(ringResult{})))
	if r.rings, err = unix.Mmap(fd, offsetRings, int(size), prot, flags); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if r.entries, err = unix.Mmap(fd, offsetEntries, int(p.requests)*int(unsafe.Sizeof(ringRequest{})), prot, flags); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[off])) }
	r.request = (*ringRequest)(unsafe.Pointer(&r.entries[0]))
	r.sqTail, r.cqHead, r.cqTail, r.cqMask = word(p.sq.tail), word(p.cq.head), word(p.cq.tail), *word(p.cq.mask)
	r.results = unsafe.Slice((*ringResult)(unsafe.Pointer(&r.rings[p.cq.results])), p.results)
	clear(unsafe.Slice(word(p.sq.array), p.requests)) // whichever place of the queue is next, it holds the first request
	return nil
}

// datasync is fdatasync: res is its result, 0 for success. After an error the kernel has not begun, and the ring must be closed.
func (r *ring) datasync(fd int) (res unix.Errno, err error) {
	n, err := r.run(ringRequest{op: opFsync, fd: int32(fd), opFlags: fsyncDatasync})
	return unix.Errno(-n), err
}

// directBytes is the most that writeDirect takes: more than a batch of the log, so that hardly anything mixes with writes through the page cache,
// each of which costs the next direct one there a look for pages to throw away.
const directBytes = 2 << 20

// writeDirect writes b at off to a file that was opened with O_DIRECT and makes it durable, as pwritev2 does with RWF_DSYNC. n is how many
// bytes were written, or the negative of an errno. A thread of the kernel does it, from beginning to end: where the caller's thread begins,
// it has to be interrupted at the end to fetch the result. After an error the kernel has not begun, and the ring must be closed.
func (r *ring) writeDirect(fd int, b []byte, off int64) (n int32, err error) {
	if r.out == nil {
		if r.out, err = unix.Mmap(-1, 0, directBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
			return 0, os.NewSyscallError("mmap", err)
		}
	}
	copy(r.out, b) // it must begin at a sector's beginning, and stay there
	return r.run(ringRequest{op: opWrite, flags: byWorker, fd: int32(fd), off: uint64(off),
		addr: uint64(uintptr(unsafe.Pointer(&r.out[0]))), size: uint32(len(b)), opFlags: unix.RWF_DSYNC})
}

// run has the kernel do one request and returns its result. After an error the kernel has not begun.
func (r *ring) run(q ringRequest) (res int32, err error) {
	r.tag++
	*r.request = q
	r.request.tag = r.tag
	atomic.StoreUint32(r.sqTail, *r.sqTail+1)
	if err := r.enter(1, 0, 0); err != nil {
		return 0, err
	}
	err = r.conn.Read(func(uintptr) bool {
		var done bool
		res, done = r.result()
		return done
	})
	for done := err == nil; !done; { // it cannot be polled, or somebody closes the file: the request is on its way all the same
		if err := r.enter(0, 1, enterGetEvent); err != nil {
			panic("io_uring: the result of a sync cannot be had: " + err.Error()) // not to know it is as bad as a failure
		}
		res, done = r.result()
	}
	return res, nil
}

// enter hands submit requests to the kernel and waits for wait results.
func (r *ring) enter(submit, wait, flags uintptr) error {
	for {
		var n uintptr
		var errno unix.Errno
		err := r.conn.Control(func(fd uintptr) {
			if wait == 0 { // it does not block, see package socket
				n, _, errno = unix.RawSyscall6(unix.SYS_IO_URING_ENTER, fd, submit, 0, flags, 0, 0)
			} else {
				n, _, errno = unix.Syscall6(unix.SYS_IO_URING_ENTER, fd, submit, wait, flags, 0, 0)
			}
		})
		switch {
		case err != nil:
			return err
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return os.NewSyscallError("io_uring_enter", errno)
		case n != submit:
			return os.NewSyscallError("io_uring_enter", unix.EAGAIN)
		}
		return nil
	}
}

// result takes the result of the last request if it is there.
func (r *ring) result() (res int32, ok bool) {
	for head := *r.cqHead; head != atomic.LoadUint32(r.cqTail); head++ {
		got := r.results[head&r.cqMask]
		atomic.StoreUint32(r.cqHead, head+1)
		if got.tag == r.tag {
			return got.res, true
		}
	}
	return 0, false
}

func (r *ring) close() {
	r.file.Close()
	if r.rings != nil {
		unix.Munmap(r.rings)
	}
	if r.entries != nil {
		unix.Munmap(r.entries)
	}
	if r.out != nil {
		unix.Munmap(r.out)
	}
}
