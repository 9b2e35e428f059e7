//go:build race

package socket

import "syscall"

// The race detector takes reading what was written for an order of the two, of calls that it is told of.

func read(fd int, b []byte) (n int, err error) {
	for n, err = syscall.Read(fd, b); err == syscall.EINTR; n, err = syscall.Read(fd, b) {
	}
	return max(n, 0), err
}

func write(fd int, b []byte) (n int, err error) {
	for n, err = syscall.Write(fd, b); err == syscall.EINTR; n, err = syscall.Write(fd, b) {
	}
	return max(n, 0), err
}
