//go:build !race

package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func read(fd int, b []byte) (int, error) { return call(unix.SYS_READ, fd, b) }

func write(fd int, b []byte) (int, error) { return call(unix.SYS_WRITE, fd, b) }

// call repeats a call that a signal interrupted.
func call(number uintptr, fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}
