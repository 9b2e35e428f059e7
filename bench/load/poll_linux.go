package load

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// poller waits for many connections at once, beside the runtime's own.
type poller struct {
	fd     int
	events [256]syscall.EpollEvent
	ready  []int32
}

// newPoller returns nil if not all of them are TCP as it is.
func newPoller(conns []*conn) *poller {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	p := &poller{fd: fd}
	for i, c := range conns {
		if !p.add(i, c.nc) {
			p.close()
			return nil
		}
	}
	return p
}

func (p *poller) add(i int, nc net.Conn) bool {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP, Fd: int32(i)})
	})
	return err == nil && failed == nil
}

// wait returns the numbers of connections that can be read, none after so long. The slice is valid until the next call.
func (p *poller) wait(longest time.Duration) ([]int32, error) {
	n, err := syscall.EpollWait(p.fd, p.events[:], int(longest.Milliseconds()))
	if err != nil && !errors.Is(err, syscall.EINTR) {
		return nil, err
	}
	p.ready = p.ready[:0]
	for i := range max(n, 0) {
		p.ready = append(p.ready, p.events[i].Fd)
	}
	return p.ready, nil
}

func (p *poller) close() { syscall.Close(p.fd) }
