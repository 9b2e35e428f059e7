package peer

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

// tcpPair returns the two ends of a connection on loopback.
func tcpPair(t *testing.T) (a, b net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	a, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { a.Close() })
	b, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return a, b
}

// A deadline of the writer's that has passed must lose nothing of what is written without it: once it did, and ten seconds after each large
// write the other side heard nothing any more.
func TestADeadlineThatHasPassedLosesNothing(t *testing.T) {
	a, b := tcpPair(t)
	p := &Peer{queueLimit: 1 << 20}
	s := p.newStream(a, 2, nil)
	flushed := func(id uint64) (wrote bool) {
		s.send(7, &zab.Sync{ID: id})
		s.flush()
		select {
		case <-s.wake:
			return false
		default:
			return true
		}
	}
	require.True(t, flushed(1), "here")
	require.NoError(t, a.SetWriteDeadline(time.Now().Add(-time.Second)))
	require.False(t, flushed(2), "it is the writer's")
	require.False(t, flushed(3), "behind it")
	for more := true; more; {
		var err error
		more, err = s.writeOnce()
		require.NoError(t, err)
	}
	require.True(t, flushed(4), "the writer leaves no deadline behind")
	br := bufio.NewReader(b)
	for id := uint64(1); id <= 4; id++ {
		pk, _, err := readFrame(br, 1<<20, func() {})
		require.NoError(t, err)
		require.Equal(t, &zab.Sync{ID: id}, pk)
	}
}

// What has come counts as unread from when it is in the socket until the core was told.
func TestUnread(t *testing.T) {
	a, b := tcpPair(t)
	p := &Peer{queueLimit: 1 << 20, inbox: newInbox(), streams: map[zab.ConnID]*stream{}}
	p.cfg.MaxFrame = 1 << 20
	s := p.newStream(a, 2, nil)
	p.streams[s.id] = s
	require.Empty(t, p.unread())
	other := p.newStream(b, 1, nil)
	other.send(7, &zab.Sync{ID: 5})
	other.flush()
	require.Eventually(t, func() bool { return len(p.unread()) > 0 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []zab.Event{zab.Unread{Conn: s.id}}, p.unread())

	p.turning.Lock() // the reader reads it and finds a turn under way
	p.inbox.bytes = inboxMaxBytes + 1
	var reader sync.WaitGroup
	reader.Go(func() { _ = s.readLoop(bufio.NewReader(a)) })
	require.Eventually(t, s.holding.Load, 10*time.Second, time.Millisecond)
	require.NotEmpty(t, p.unread(), "and waits for room")
	require.Empty(t, p.inbox.take())
	require.Eventually(t, func() bool { return len(p.unread()) == 0 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []zab.Event{zab.Received{Conn: s.id, Epoch: 7, Packet: &zab.Sync{ID: 5}}}, p.inbox.take())
	p.turning.Unlock()
	b.Close()
	reader.Wait()
	require.Empty(t, p.unread(), "an end is not unread")
}
