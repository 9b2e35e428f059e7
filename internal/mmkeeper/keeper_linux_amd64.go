package mmkeeper

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

const (
	// wakeSignal is sent to the keeper when its parent ends. Nobody else sends one of this number.
	wakeSignal = 50
	// linger is more than the threads of a killed process take to come to their ends, in nanoseconds: they need a processor each, once, for some
	// hundred microseconds.
	linger = 100_000_000

	name = "zkd-mmkeeper"
)

// plan is all that the keeper knows. keeper_linux_amd64.s has the offsets.
type plan struct {
	parent uint64   // 0
	wake   uint64   // 8: the set of wakeSignal
	rest   [2]int64 // 16: seconds, nanoseconds
	name   [16]byte // 32
}

var (
	kept  plan
	stack [32]uint64 // the kernel wants one; nothing is put there, for no call is made
)

var errThread = errors.New("not the process's main thread")

// Start begins the keeper and returns its process id. It must be called once at most, and on the process's main thread: the keeper takes the end
// of the thread that it comes from for that of the process.
func Start() (pid int, err error) {
	if syscall.Gettid() != os.Getpid() {
		return 0, errThread
	}
	kept.parent, kept.wake, kept.rest = uint64(os.Getpid()), 1<<(wakeSignal-1), [2]int64{0, linger}
	copy(kept.name[:], name)
	all, before := ^uint64(0), uint64(0)
	if err := setMask(&all, &before); err != nil {
		return 0, err
	}
	pid = begin(&kept, &stack[len(stack)-1])
	if err := setMask(&before, nil); err != nil {
		return 0, err
	}
	if pid < 0 {
		return 0, syscall.Errno(-pid)
	}
	return pid, nil
}

// setMask blocks the signals of a set in this thread, and those alone.
func setMask(set, before *uint64) error {
	const setMask, setBytes = 2, 8
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(before)), setBytes, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// begin clones; it returns in the parent only.
//
//go:noescape
func begin(p *plan, stack *uint64) int
