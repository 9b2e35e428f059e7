package client

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testTLS = &tls.Config{MinVersion: tls.VersionTLS12}

var testPassword = []byte("0123456789abcdef")

const (
	testSession = int64(0x1000)
	testTimeout = 9 * time.Second
)

// fake is an ensemble that a test plays by hand: every dial is a connection that the test has to take.
type fake struct {
	t     *testing.T
	conns chan *fakeConn
}

func newFake(t *testing.T) *fake { return &fake{t: t, conns: make(chan *fakeConn)} }

func (f *fake) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	fc := &fakeConn{t: f.t, addr: addr, nc: ours}
	select {
	case f.conns <- fc:
		return &countWrites{theirs, &fc.writes}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type countWrites struct {
	net.Conn
	n *atomic.Int32
}

func (c *countWrites) Write(b []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(b)
}

type fakeConn struct {
	t      *testing.T
	addr   string
	nc     net.Conn
	writes atomic.Int32 // of the client
	zxid   int64        // for replies
}

func (fc *fakeConn) frame() *proto.Reader {
	fc.t.Helper()
	var head [4]byte
	_, err := io.ReadFull(fc.nc, head[:])
	require.NoError(fc.t, err)
	n, err := proto.ReadFrameHeader(head[:], 1<<20)
	require.NoError(fc.t, err)
	body := make([]byte, n)
	_, err = io.ReadFull(fc.nc, body)
	require.NoError(fc.t, err)
	return proto.NewReader(body)
}

// handshake answers the ConnectRequest with timeout, 0 to refuse.
func (fc *fakeConn) handshake(timeout time.Duration) proto.ConnectRequest {
	fc.t.Helper()
	var req proto.ConnectRequest
	require.NoError(fc.t, req.Decode(fc.frame()))
	resp := proto.ConnectResponse{TimeOut: int32(timeout.Milliseconds()), Passwd: make([]byte, 16), HasReadOnly: true}
	if timeout > 0 {
		resp.SessionID, resp.Passwd = testSession, testPassword
	}
	fc.send(&resp)
	return req
}

func (fc *fakeConn) send(records ...proto.Record) {
	fc.t.Helper()
	_, err := fc.nc.Write(proto.AppendFrame(nil, records...))
	require.NoError(fc.t, err)
}

// want takes the next request, which must have code op, decodes it into req, and returns its xid.
func (fc *fakeConn) want(op proto.Op, req proto.Record) int32 {
	fc.t.Helper()
	var h proto.RequestHeader
	r := fc.frame()
	require.NoError(fc.t, h.Decode(r))
	require.Equal(fc.t, op, h.Op)
	if req != nil {
		require.NoError(fc.t, req.Decode(r))
	}
	return h.Xid
}

func (fc *fakeConn) reply(xid int32, code proto.ErrCode, records ...proto.Record) {
	fc.t.Helper()
	fc.zxid++
	fc.send(append([]proto.Record{&proto.ReplyHeader{Xid: xid, Zxid: fc.zxid, Err: code}}, records...)...)
}

func (fc *fakeConn) event(typ proto.EventType, path string) {
	fc.t.Helper()
	fc.send(&proto.ReplyHeader{Xid: proto.XidNotification, Zxid: -1},
		&proto.WatcherEvent{Type: typ, State: proto.StateSyncConnected, Path: path})
}

// inBubble runs f with virtual time.
func inBubble(t *testing.T, f func(t *testing.T, fk *fake)) {
	synctest.Test(t, func(t *testing.T) { f(t, newFake(t)) })
}

// connected dials, plays the server's part and returns both ends.
func (f *fake) connected(connect string, opts ...Option) (*Client, *fakeConn) {
	f.t.Helper()
	type result struct {
		c   *Client
		err error
	}
	got := make(chan result, 1)
	go func() {
		c, err := Dial(f.t.Context(), connect, append(opts, WithDialer(f.dial))...)
		got <- result{c, err}
	}()
	fc := <-f.conns
	fc.handshake(testTimeout)
	r := <-got
	require.NoError(f.t, r.err)
	return r.c, fc
}

// closed closes c and plays the server's part.
func (fc *fakeConn) closed(c *Client) {
	fc.t.Helper()
	synctest.Wait() // it may still be taking in the handshake
	got := start(c.Close)
	fc.reply(fc.want(proto.OpCloseSession, nil), proto.OK)
	fc.nc.Close()
	require.NoError(fc.t, <-got)
}

// start runs f beside the test.
func start(f func() error) <-chan error {
	got := make(chan error, 1)
	go func() { got <- f() }()
	return got
}
