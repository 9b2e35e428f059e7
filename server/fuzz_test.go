package server

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// FuzzFrames sends whatever bytes behind a handshake, or instead of one: nothing breaks, and the next client is served.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), false)
	f.Add([]byte("ruok"), false)
	f.Add(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, SessionID: 77, Passwd: make([]byte, 16)}), false)
	for _, op := range []proto.Op{proto.OpCreate, proto.OpGetData, proto.OpSetWatches2, proto.OpAuth, proto.OpRemoveWatches, proto.OpSync,
		proto.OpCloseSession, proto.OpCreateSession, 99} {
		f.Add(request(1, op, proto.NewRequest(op)), true)
	}
	f.Add(append(request(1, proto.OpMulti, nil), request(2, proto.OpMultiRead, nil)...), true)
	f.Add(append(request(1, proto.OpSetData, &proto.SetDataRequest{Path: "/", Version: -1}), request(2, proto.OpExists, watch("/"))...), true)
	ln := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := newSolo(f, testConfig(), ln)
	f.Cleanup(s.stop)
	s.do(s.lead)
	f.Fuzz(func(t *testing.T, b []byte, shaken bool) {
		a, far := net.Pipe()
		ln.conns <- far
		c := newClient(t, a)
		if shaken {
			c.shake(&proto.ConnectRequest{TimeOut: 4000})
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.Copy(io.Discard, a) })
		_, _ = a.Write(b) // it may have been cut off
		_ = a.Close()
		wg.Wait()
	})
}

// logged is serving with what it says at Warn and above.
func logged(t *testing.T) (*solo, *observer.ObservedLogs) {
	core, logs := observer.New(zap.WarnLevel)
	s := newSoloWith(t, testConfig(), listen(t), zap.New(core))
	t.Cleanup(s.stop)
	s.do(s.lead)
	return s, logs
}

// A stranger is told about once a minute and address, with a hint.
func TestStrangersAreNamedOnce(t *testing.T) {
	s, logs := logged(t)
	for range 5 {
		c := s.dial()
		c.write([]byte("GET /metrics HTTP/1.1\r\n\r\n"))
		c.gone()
	}
	require.Eventually(t, func() bool { return s.rep.stats.strangers.Load() == 5 && logs.Len() > 0 }, patience, 1e6)
	require.Equal(t, 1, logs.Len())
	line := logs.All()[0]
	require.Equal(t, "not a ZooKeeper client", line.Message)
	require.Contains(t, line.ContextMap()["hint"], "HTTP")
	require.Contains(t, line.ContextMap()["addr"], "127.0.0.1:")
}

func TestOversizedFrameIsNamed(t *testing.T) {
	s, logs := logged(t)
	c := s.connect()
	c.write([]byte("\x7f\xff\xff\xff"))
	c.gone()
	require.Eventually(t, func() bool { return logs.Len() == 1 }, patience, 1e6)
	facts := logs.All()[0].ContextMap()
	require.EqualValues(t, 0x7fffffff, facts["bytes"])
	require.EqualValues(t, 1048575, facts["jute.maxbuffer"])
	require.Equal(t, txn.SessionID(c.SessionID).String(), facts["session"])
}
