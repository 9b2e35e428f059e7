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
	// look is how often the keeper looks for its parent itself, in seconds: the kernel does not tell it where the parent may not send it signals, as
	// a security module can have it.
	look = 1

	name = "zkd-mmkeeper"

	sysCloseRange, noFile = 436, 1<<32 - 1
)

// plan is all that the keeper knows. keeper_linux_amd64.s has the offsets.
type plan struct {
	parent uint64   // 0
	wake   uint64   // 8: the set of wakeSignal
	rest   [2]int64 // 16: seconds, nanoseconds
	name   [16]byte // 32
	look   [2]int64 // 48: seconds, nanoseconds
	root   [8]byte  // 64
}

var (
	kept  plan
	stack [32]uint64 // the kernel wants one; nothing is put there, for no call is made
)

var errThread = errors.New("not the process's main thread")

// Start begins the keeper and returns its process id; the error says what the kernel refused, and then there is none. It must be called once at most,
// and on the process's main thread: the keeper takes the end of the thread that it comes from for that of the process.
func Start() (pid int, err error) {
	if syscall.Gettid() != os.Getpid() {
		return 0, errThread
	}
	if _, _, errno := syscall.RawSyscall(sysCloseRange, noFile, noFile, 0); errno != 0 { // older than Linux 5.9, or refused
		return 0, os.NewSyscallError("close_range", errno)
	}
	kept.parent, kept.wake, kept.rest, kept.look = uint64(os.Getpid()), 1<<(wakeSignal-1), [2]int64{0, linger}, [2]int64{look, 0}
	copy(kept.name[:], name)
	copy(kept.root[:], "/")
	all, before := ^uint64(0), uint64(0)
	if err := setMask(&all, &before); err != nil {
		return 0, err
	}
	pid = begin(&kept, &stack[len(stack)-1])
	if err := setMask(&before, nil); err != nil {
		return 0, err
	}
	if pid < 0 {
		return 0, os.NewSyscallError("clone", syscall.Errno(-pid))
	}
	return pid, nil
}

// End ends the keeper that Start returned, and returns when it is gone: from then on the memory is the caller's alone, and goes with it. It is for
// who has closed all connections and ends by itself. It must be called once at most.
func End(pid int) {
	if syscall.Kill(pid, syscall.SIGKILL) != nil { // nobody else has this number while nobody has waited for the keeper
		return // it may not be killed, and looks for its parent
	}
	for {
		if _, err := syscall.Wait4(pid, nil, syscall.WALL, nil); err != syscall.EINTR {
			return
		}
	}
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
