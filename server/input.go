package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/zkd-project/zkd/internal/socket"
	"github.com/zkd-project/zkd/proto"
)

// inputChunk is how much one read may bring. A connection owns a chunk only while bytes of it wait to be looked at, so an idle one
// has none. Before the handshake a connection gets firstChunk.
const (
	inputChunk = 32 << 10
	firstChunk = 64
)

var inputPool = sync.Pool{New: func() any { return new([inputChunk]byte) }}

// input cuts frames out of a connection. One goroutine uses it.
type input struct {
	src   io.Reader
	raw   syscall.RawConn // nil if the connection is no socket
	max   int             // longest frame
	big   bool            // the handshake is over
	buf   []byte          // nil while nothing waits
	chunk *[inputChunk]byte
	r, w  int // buf[r:w] waits
}

func newInput(c net.Conn, maxFrame int) *input {
	in := &input{src: c, max: maxFrame}
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			in.raw = raw
		}
	}
	return in
}

// frame returns the next whole frame that has already been read, without its length; ok is false if there is none. It aliases the
// buffer until the next fill. The error is a *proto.FrameSizeError.
func (in *input) frame() (frame []byte, ok bool, err error) {
	waiting := in.buf[in.r:in.w]
	if len(waiting) < proto.FrameHeaderBytes {
		return nil, false, nil
	}
	n, err := proto.ReadFrameHeader(waiting, in.max)
	if err != nil {
		return nil, false, err
	}
	end := proto.FrameHeaderBytes + n
	if len(waiting) < end {
		return nil, false, nil
	}
	in.r += end
	return waiting[proto.FrameHeaderBytes:end:end], true, nil
}

// word returns the first four bytes, waiting for them; it takes nothing.
func (in *input) word() (uint32, error) {
	for in.w-in.r < 4 {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	return binary.BigEndian.Uint32(in.buf[in.r:]), nil
}

// waiting returns what has been read and not taken.
func (in *input) waiting() []byte { return in.buf[in.r:in.w] }

// fill reads once, waiting until something comes.
func (in *input) fill() error {
	if in.r == in.w {
		in.release()
		return in.fillEmpty()
	}
	in.makeRoom()
	n, err := in.src.Read(in.buf[in.w:])
	in.w += n
	if n > 0 {
		return nil
	}
	return err
}

// makeRoom moves what waits to the front, or into a larger buffer if a frame does not fit. It grows with what came, not with
// what a length promises.
func (in *input) makeRoom() {
	if in.r > 0 {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	}
	if in.w < len(in.buf) {
		return
	}
	larger := make([]byte, min(2*len(in.buf), in.max+proto.FrameHeaderBytes+inputChunk))
	copy(larger, in.buf)
	n := in.w
	in.release()
	in.buf, in.w = larger, n
}

// release gives the buffer back; nothing in it waits any more.
func (in *input) release() {
	if in.chunk != nil {
		inputPool.Put(in.chunk)
	}
	in.buf, in.chunk, in.r, in.w = nil, nil, 0, 0
}

func (in *input) take() []byte {
	if !in.big {
		in.buf = make([]byte, firstChunk)
		return in.buf
	}
	in.chunk = inputPool.Get().(*[inputChunk]byte)
	in.buf = in.chunk[:]
	return in.buf
}

// fillEmpty is fill with nothing waiting: on a socket it takes a buffer only when there is something to read.
func (in *input) fillEmpty() error {
	if in.raw == nil {
		n, err := in.src.Read(in.take())
		in.w = n
		if n > 0 {
			return nil
		}
		in.release()
		return err
	}
	var failed error
	err := in.raw.Read(func(fd uintptr) bool {
		n, err := socket.ReadNow(fd, in.take())
		switch {
		case n > 0:
			in.w = n
		case errors.Is(err, syscall.EAGAIN):
			in.release()
			return false // wait until the socket has something
		default:
			failed = err
		}
		return true
	})
	if in.w > 0 {
		return nil
	}
	in.release()
	return errors.Join(failed, err)
}
