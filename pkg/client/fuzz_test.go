package client

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// script is the server's side of a connection as fixed bytes.
type script struct {
	net.Conn
	in []byte
}

func (s *script) Read(b []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(b, s.in)
	s.in = s.in[n:]
	return n, nil
}
func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// Whatever a server sends, the reader ends with an error and every call is answered.
func FuzzServerBytes(f *testing.F) {
	var seed []byte
	seed = proto.AppendFrame(seed, &proto.ReplyHeader{Xid: 1, Zxid: 1}, &proto.GetDataResponse{})
	seed = proto.AppendFrame(seed, &proto.ReplyHeader{Xid: -1}, &proto.WatcherEvent{Type: 3, State: 3, Path: "/a"})
	seed = proto.AppendFrame(seed, &proto.ReplyHeader{Xid: -4})
	seed = proto.AppendFrame(seed, &proto.ReplyHeader{Xid: -8})
	seed = proto.AppendFrame(seed, &proto.ReplyHeader{Xid: 2, Err: -101})
	f.Add(seed)
	f.Add(proto.AppendFrame(nil, &proto.ConnectResponse{TimeOut: 1000, SessionID: 1, Passwd: testPassword}))
	f.Fuzz(func(t *testing.T, b []byte) {
		hello := newConn(&script{in: b}, "h")
		if s, err := hello.handshake(session{}, 0, false); err == nil {
			require.NotZero(t, s.id)
			require.Positive(t, s.timeout)
		}

		c := &Client{opts: defaults(), done: make(chan struct{})}
		cn := newConn(&script{in: b}, "h")
		w := &Watch{c: c, path: "/a", ch: make(chan Event, 1)}
		get := newCall(proto.OpGetData, "/a", &proto.PathWatchRequest{})
		get.watch = w
		calls := []*call{get, newCall(proto.OpMulti, "", nil), {op: proto.OpAuth, cred: &credential{}, frame: credential{}.frame(), done: make(chan struct{})}}
		c.conn = cn
		c.queue = append(c.queue, calls...)
		c.takeQueued(cn, nil)
		require.Error(t, c.read(cn))
		c.lost(cn, nil)
		c.end(ErrSessionExpired)
		for _, k := range calls {
			<-k.done
		}
	})
}
