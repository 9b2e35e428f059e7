// Package socket reads and writes TCP connections with system calls that Go's scheduler is not told of (ADR 0019).
//
// A system call of package syscall says that it may take long. That wakes the runtime's monitor thread if it sleeps, which in a server
// that is idle between two requests is once per request and costs more than the call. A call on a non-blocking socket does not take long.
package socket

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReadNow reads from a non-blocking socket what is there: unix.EAGAIN if that is nothing, io.EOF at the end.
func ReadNow(fd uintptr, b []byte) (int, error) {
	n, err := read(int(fd), b)
	if n == 0 && err == nil && len(b) > 0 {
		return 0, io.EOF
	}
	return n, err
}

// WriteNow writes to a non-blocking socket what the kernel takes at once: unix.EAGAIN if that is nothing.
func WriteNow(fd uintptr, b []byte) (int, error) { return write(int(fd), b) }

// Unread reports whether a socket has bytes to be read.
func Unread(fd uintptr) bool {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	return err == nil && n > 0
}

// Conn is a TCP connection that reads and writes by ReadNow and WriteNow. It waits as a net.TCPConn does and keeps its deadlines.
type Conn struct {
	*net.TCPConn
	raw syscall.RawConn
}

// Quick makes c a *Conn if it is a TCP connection, and returns it as it is otherwise.
func Quick(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	return &Conn{tcp, raw}
}

// Read implements io.Reader.
func (c *Conn) Read(b []byte) (n int, err error) {
	waited := c.raw.Read(func(fd uintptr) bool {
		n, err = ReadNow(fd, b)
		return err != unix.EAGAIN
	})
	return n, c.failed("read", err, waited)
}

// Write implements io.Writer.
func (c *Conn) Write(b []byte) (n int, err error) {
	waited := c.raw.Write(func(fd uintptr) bool {
		for n < len(b) {
			var more int
			if more, err = WriteNow(fd, b[n:]); err != nil {
				return err != unix.EAGAIN
			}
			n += more
		}
		return true
	})
	return n, c.failed("write", err, waited)
}

// failed makes of an error what a net.TCPConn makes of it. waited is that of waiting, which comes first.
func (c *Conn) failed(op string, err, waited error) error {
	switch {
	case waited != nil:
		return waited
	case err == nil || err == io.EOF:
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, err)}
}

// Listen is net.Listen for TCP, of quick connections.
func Listen(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return listener{ln}, nil
}

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Quick(c), nil
}
