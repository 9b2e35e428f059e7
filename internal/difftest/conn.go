package difftest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// patience is how long a server may take over one step.
const patience = 10 * time.Second

// maxReply bounds a frame from a server.
const maxReply = 64 << 20

// sessionKey is what a client needs to take up a session again.
type sessionKey struct {
	id       int64
	password []byte
}

// conn is one connection to one server, used by one goroutine.
type conn struct {
	nc  net.Conn
	in  *bufio.Reader
	buf []byte
}

func dial(addr string) (*conn, error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &conn{nc: nc, in: bufio.NewReaderSize(nc, 16<<10)}, nil
}

func (c *conn) close() { _ = c.nc.Close() }

// send writes; an error shows when the answer is awaited.
func (c *conn) send(b []byte) {
	_ = c.nc.SetDeadline(time.Now().Add(patience))
	_, _ = c.nc.Write(b)
}

// next reads one frame; the result is valid until the next call.
func (c *conn) next() ([]byte, error) {
	head, err := c.in.Peek(proto.FrameHeaderBytes)
	if err != nil {
		return nil, err
	}
	n, err := proto.ReadFrameHeader(head, maxReply)
	if err != nil {
		return nil, fmt.Errorf("a server sent %x: %w", head, err)
	}
	if _, err := c.in.Discard(proto.FrameHeaderBytes); err != nil {
		return nil, err
	}
	c.buf = slices.Grow(c.buf[:0], n)[:n]
	_, err = io.ReadFull(c.in, c.buf)
	return c.buf, err
}

// stopped files the error that ended an answer.
func (a *answer) stopped(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.silent = true
	} else {
		a.closed = true
	}
}

// shake reads the answer to a handshake.
func (c *conn) shake() (answer, sessionKey) {
	var a answer
	b, err := c.next()
	if err != nil {
		a.stopped(err)
		return a, sessionKey{}
	}
	f, key := decodeConnect(b)
	a.frames = append(a.frames, f)
	if key.id == 0 {
		c.drain(&a)
	}
	return a, key
}

// replies reads the answers to a burst, and to its end if the connection should end with it.
func (c *conn) replies(qs []request) answer {
	var a answer
	for _, q := range qs {
		for {
			b, err := c.next()
			if err != nil {
				a.stopped(err)
				return a
			}
			if xidOf(b) == proto.XidNotification {
				a.frames = append(a.frames, decodeEvent(b))
				continue
			}
			a.frames = append(a.frames, decodeReply(q.op, b))
			break
		}
		if ends(q.op, a.frames[len(a.frames)-1]) {
			c.drain(&a)
			return a
		}
	}
	return a
}

// ends reports whether a connection ends behind such a reply.
func ends(op proto.Op, f frame) bool {
	i := slices.IndexFunc(f.fields, func(fd field) bool { return fd.name == "err" })
	name := f.fields[i].text
	switch op {
	case proto.OpCloseSession:
		return true
	case proto.OpAuth, proto.OpSASL:
		return name != proto.OK.Name()
	}
	return name == proto.ErrUnimplemented.Name() && f.get("zxid") == -1
}

// drain reads until the server closes.
func (c *conn) drain(a *answer) {
	_ = c.nc.SetReadDeadline(time.Now().Add(patience))
	for {
		b, err := c.next()
		if err != nil {
			a.stopped(err)
			return
		}
		if xidOf(b) == proto.XidNotification {
			a.frames = append(a.frames, decodeEvent(b))
		} else {
			a.frames = append(a.frames, decodeReply(proto.OpNotification, b))
		}
	}
}

// fourLetters sends a four-letter word on a connection of its own.
func fourLetters(addr, word string) (string, error) {
	c, err := dial(addr)
	if err != nil {
		return "", err
	}
	defer c.close()
	c.send([]byte(word))
	text, err := io.ReadAll(c.in)
	return string(text), err
}
