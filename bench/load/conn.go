package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zkd-project/zkd/proto"
)

const (
	readChunk = 64 << 10
	// handshakeBytes hold the reply to a handshake and a few short replies. A connection that gets more at once grows to readChunk; one
	// that only holds a session open does not.
	handshakeBytes = 256
	// maxReply is the longest reply that is believed; a list of children can be long.
	maxReply = 256 << 20

	replyHeaderBytes = 16
)

// conn is one connection with a session. One goroutine reads, one (it may be the same) writes.
type conn struct {
	nc      net.Conn
	session int64
	passwd  []byte
	timeout time.Duration
	xid     int32

	in   []byte // in[r:w] was read and not taken
	r, w int
	full bool // the last read had no room left: there may be more to read at once
}

// Dialer is net.Dialer.DialContext, or something that does more. A nil Dialer is the former.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// dial opens a connection and a session, or with a session id attaches to it.
func dial(ctx context.Context, addr string, timeout time.Duration, session int64, passwd []byte) (*conn, error) {
	return Dialer(nil).open(ctx, addr, timeout, session, passwd)
}

// open is dial through d.
func (d Dialer) open(ctx context.Context, addr string, timeout time.Duration, session int64, passwd []byte) (*conn, error) {
	if d == nil {
		d = new(net.Dialer).DialContext
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	nc, err := d(limited, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{nc: nc}
	nc.SetDeadline(time.Now().Add(timeout))
	if err := c.handshake(timeout, session, passwd); err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	nc.SetDeadline(time.Time{})
	return c, nil
}

func (c *conn) handshake(timeout time.Duration, session int64, passwd []byte) error {
	if passwd == nil {
		passwd = make([]byte, proto.PasswordBytes)
	}
	req := proto.ConnectRequest{TimeOut: int32(timeout.Milliseconds()), SessionID: session, Passwd: passwd, HasReadOnly: true}
	if _, err := c.nc.Write(proto.AppendFrame(nil, &req)); err != nil {
		return err
	}
	c.in = make([]byte, handshakeBytes)
	frame, err := c.frame()
	if err != nil {
		return err
	}
	var resp proto.ConnectResponse
	if err := resp.Decode(proto.NewReader(frame)); err != nil {
		return err
	}
	if resp.TimeOut == 0 {
		return proto.ErrSessionExpired
	}
	c.session, c.passwd, c.timeout = resp.SessionID, append([]byte(nil), resp.Passwd...), time.Duration(resp.TimeOut)*time.Millisecond
	return nil
}

// frame returns the next frame without its length, reading as long as it is not whole. It is valid until the next call that reads.
func (c *conn) frame() ([]byte, error) {
	for {
		f, ok, err := c.ready()
		if ok || err != nil {
			return f, err
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// ready returns the next frame if it has been read whole.
func (c *conn) ready() (frame []byte, ok bool, err error) {
	b := c.in[c.r:c.w]
	if len(b) < proto.FrameHeaderBytes {
		return nil, false, nil
	}
	n, err := proto.ReadFrameHeader(b, maxReply)
	if err != nil {
		return nil, false, err
	}
	n += proto.FrameHeaderBytes
	if len(b) < n {
		return nil, false, nil
	}
	c.r += n
	return b[proto.FrameHeaderBytes:n], true, nil
}

// fill reads once.
func (c *conn) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	} else if c.r > 0 {
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	if c.full || c.w == len(c.in) {
		larger := make([]byte, max(2*len(c.in), readChunk))
		copy(larger, c.in[:c.w])
		c.in = larger
	}
	n, err := c.nc.Read(c.in[c.w:])
	c.w += n
	c.full = c.w == len(c.in) && len(c.in) < readChunk
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the server closed the connection: %w", err)
	}
	return err
}

// begin appends the start of a request with the connection's next xid.
func (c *conn) begin(dst []byte, op proto.Op) (_ []byte, mark int) {
	c.xid++
	if c.xid < 0 {
		c.xid = 1
	}
	dst, mark = proto.BeginFrame(dst)
	return proto.AppendInt32(proto.AppendInt32(dst, c.xid), int32(op)), mark
}

// reply is a decoded header and what is behind it.
type reply struct {
	xid  int32
	zxid int64
	err  proto.ErrCode
	body []byte
}

func parseReply(frame []byte) (reply, error) {
	if len(frame) < replyHeaderBytes {
		return reply{}, fmt.Errorf("%w: reply of %d bytes", proto.ErrMarshalling, len(frame))
	}
	return reply{xid: int32(binary.BigEndian.Uint32(frame)), zxid: int64(binary.BigEndian.Uint64(frame[4:])),
		err: proto.ErrCode(binary.BigEndian.Uint32(frame[12:])), body: frame[replyHeaderBytes:]}, nil
}

// answer returns the next reply to a request; notifications and pings go by.
func (c *conn) answer() (reply, error) {
	for {
		f, err := c.frame()
		if err != nil {
			return reply{}, err
		}
		r, err := parseReply(f)
		if err != nil || r.xid != proto.XidNotification && r.xid != proto.XidPing {
			return r, err
		}
	}
}

// call sends one request, made by body behind its header, and waits for the reply.
func (c *conn) call(op proto.Op, body func([]byte) []byte) (reply, error) {
	b, mark := c.begin(nil, op)
	if body != nil {
		b = body(b)
	}
	if _, err := c.nc.Write(proto.EndFrame(b, mark)); err != nil {
		return reply{}, err
	}
	return c.answer()
}

// setupWindow is how many requests wait on a connection while znodes are made or removed.
const setupWindow = 128

// pipeline sends n requests, setupWindow in flight, and hands each reply to check, which may be nil: then an error fails.
func (c *conn) pipeline(n int, request func(dst []byte, i int) []byte, check func(i int, r reply) error) error {
	var out []byte
	for sent, got := 0, 0; got < n; {
		for out = out[:0]; sent < n && sent-got < setupWindow && len(out) < readChunk; sent++ {
			out = request(out, sent)
		}
		if len(out) > 0 {
			if _, err := c.nc.Write(out); err != nil {
				return err
			}
		}
		c.nc.SetReadDeadline(time.Now().Add(c.timeout))
		r, err := c.answer()
		if err != nil {
			return err
		}
		if check != nil {
			err = check(got, r)
		} else if r.err != proto.OK {
			err = r.err
		}
		if err != nil {
			return err
		}
		got++
	}
	return nil
}

// leaveLimit bounds how long leave waits for answers.
const leaveLimit = time.Second

// leave ends the sessions of conns, which nobody else uses any more, as well as it can, and closes the connections: otherwise the
// servers would keep the sessions until they expire.
func leave(conns []*conn) {
	limit := time.Now().Add(leaveLimit)
	for _, c := range conns {
		c.nc.SetDeadline(limit)
		b, mark := c.begin(nil, proto.OpCloseSession)
		_, _ = c.nc.Write(proto.EndFrame(b, mark)) // if it does not get there, the session expires
	}
	for _, c := range conns {
		for {
			if r, err := c.answer(); err != nil || r.xid == c.xid {
				break
			}
		}
		c.nc.Close()
	}
}

// drop closes the connection without a trace: no TIME_WAIT is left, so that a run can open more than there are ports.
func (c *conn) drop() {
	if tc, ok := c.nc.(*net.TCPConn); ok {
		tc.SetLinger(0)
	}
	c.nc.Close()
}
