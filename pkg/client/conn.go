package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// conn is one connection to a server. The session loop writes to it, a reader goroutine reads; both end when fail was
// called.
type conn struct {
	nc      net.Conn
	addr    string
	in      *bufio.Reader
	timeout time.Duration // of the session, as this server granted it
	silence time.Duration // longest wait for a frame, 0 for no limit; the reader's
	reading bool          // the server takes no writes
	first   []byte        // to send before any request
	xid     int32         // of the last request; the writer's

	pending  []*call // sent and not answered, in order; guarded by Client.mu
	rearming int     // setWatches2 requests without an answer; the reader's
	auths    []*call // likewise, for credentials, whose replies may overtake; guarded by Client.mu
	useful   bool    // a request was answered; guarded by Client.mu

	once  sync.Once
	dead  chan struct{} // closed when cause is set
	cause error
}

func newConn(nc net.Conn, addr string) *conn {
	cn := &conn{nc: nc, addr: addr, dead: make(chan struct{})}
	cn.in = bufio.NewReaderSize(silenceLimit{cn}, 32<<10)
	return cn
}

// silenceLimit sets the deadline only when the buffer is empty, not for every frame.
type silenceLimit struct{ cn *conn }

func (s silenceLimit) Read(b []byte) (int, error) {
	if s.cn.silence > 0 {
		if err := s.cn.nc.SetReadDeadline(time.Now().Add(s.cn.silence)); err != nil {
			return 0, err
		}
	}
	return s.cn.nc.Read(b)
}

// fail ends the connection; the first cause counts.
func (cn *conn) fail(cause error) {
	cn.once.Do(func() {
		cn.cause = cause
		cn.nc.Close()
		close(cn.dead)
	})
}

// handshake opens sess or attaches it, and returns it as granted. ErrSessionExpired means that the session is gone. The
// caller bounds it in time by closing the socket.
func (cn *conn) handshake(sess session, zxid int64, readOnly bool) (session, error) {
	req := proto.ConnectRequest{
		LastZxidSeen: zxid, TimeOut: int32(sess.timeout.Milliseconds()),
		SessionID: sess.id, Passwd: sess.passwd, ReadOnly: readOnly, HasReadOnly: true,
	}
	if _, err := cn.nc.Write(proto.AppendFrame(nil, &req)); err != nil {
		return session{}, err
	}
	frame, err := cn.readFrame()
	if err != nil {
		return session{}, fmt.Errorf("no answer to the handshake: %w", err)
	}
	var resp proto.ConnectResponse
	if err := resp.Decode(proto.NewReader(frame)); err != nil {
		return session{}, err
	}
	switch {
	case resp.TimeOut > 0 && resp.SessionID != 0:
		cn.timeout = time.Duration(resp.TimeOut) * time.Millisecond
		cn.reading = resp.ReadOnly
		cn.silence = cn.timeout * 2 / 3
		return session{id: resp.SessionID, passwd: resp.Passwd, timeout: cn.timeout}, nil
	case sess.id != 0:
		return session{}, ErrSessionExpired
	}
	return session{}, errors.New("the server refused to open a session")
}

func (cn *conn) readFrame() ([]byte, error) {
	head, err := cn.in.Peek(proto.FrameHeaderBytes)
	if err != nil {
		return nil, err
	}
	n, err := proto.ReadFrameHeader(head, maxReplyBytes)
	if err != nil {
		return nil, err
	}
	if _, err := cn.in.Discard(proto.FrameHeaderBytes); err != nil {
		return nil, err
	}
	frame := make([]byte, n)
	_, err = io.ReadFull(cn.in, frame)
	return frame, err
}

// serve writes what is queued, and pings, until the connection ends; it starts the reader and waits for it. It returns
// what ended the connection.
func (c *Client) serve(ctx context.Context, cn *conn) error {
	undo := context.AfterFunc(ctx, func() { cn.fail(ErrClosed) })
	defer undo()
	var reader sync.WaitGroup
	reader.Go(func() { cn.fail(c.read(cn)) })
	if cn.reading {
		reader.Go(func() { c.seekWriter(ctx, cn) })
	}
	cn.fail(c.write(cn))
	reader.Wait()
	return cn.cause
}

func (c *Client) write(cn *conn) error {
	idle := cn.timeout / 3
	ping := time.NewTimer(idle)
	defer ping.Stop()
	last := time.Now()
	buf := cn.first
	for {
		buf = c.takeQueued(cn, buf)
		for len(buf) == 0 {
			select {
			case <-c.wake:
				buf = c.takeQueued(cn, buf)
			case <-ping.C:
				wait := idle - time.Since(last)
				if wait <= 0 {
					buf = proto.AppendFrame(buf, &proto.RequestHeader{Xid: proto.XidPing, Op: proto.OpPing})
					wait = idle
				}
				ping.Reset(wait)
			case <-cn.dead:
				return cn.cause
			}
		}
		last = time.Now()
		if err := cn.nc.SetWriteDeadline(last.Add(cn.timeout * 2 / 3)); err != nil {
			return err
		}
		if _, err := cn.nc.Write(buf); err != nil {
			return err
		}
		c.counts.sent.Add(int64(len(buf)))
		buf = buf[:0]
		if cap(buf) > 2*maxBatchBytes {
			buf = nil // a rare long request should not keep its memory
		}
	}
}

// takeQueued appends the frames of the requests that wait, up to the size of a batch, and moves them to the pending ones.
// It takes nothing for a connection that has been given up.
func (c *Client) takeQueued(cn *conn, buf []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != cn {
		return buf
	}
	n := 0
	for ; n < len(c.queue) && (len(buf) == 0 || len(buf)+len(c.queue[n].frame) <= maxBatchBytes); n++ {
		k := c.queue[n]
		c.queue[n] = nil
		k.conn = cn
		if k.op == proto.OpAuth {
			k.setXid(proto.XidAuth)
			cn.auths = append(cn.auths, k)
		} else {
			cn.xid = nextAfter(cn.xid)
			k.setXid(cn.xid)
			cn.pending = append(cn.pending, k)
		}
		buf = append(buf, k.frame...)
		k.frame = nil
	}
	c.counts.requests.Add(int64(n))
	c.queue = c.queue[n:]
	if len(c.queue) == 0 {
		c.queue = nil
	}
	return buf
}

// nextAfter numbers requests 1, 2, 3 … and stays positive.
func nextAfter(xid int32) int32 {
	if xid == math.MaxInt32 {
		return 1
	}
	return xid + 1
}
