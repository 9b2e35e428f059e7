package server

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

const timeout = 4 * time.Second // of a session

func TestPaceCountsSmallerOthers(t *testing.T) {
	const pest = txn.SessionID(1)
	var p pace
	at := time.Second
	turn := func() bool { return p.turn(func() time.Duration { return at }) }
	require.False(t, turn(), "nobody has written much yet")
	p.wake(at)
	require.True(t, turn())
	p.count(pest, 1<<20)
	require.Zero(t, p.rest(pest, time.Millisecond, timeout), "nobody else writes")

	p.count(2, 1000)
	p.count(2, 1000)
	require.Equal(t, 2*time.Millisecond, p.rest(pest, time.Millisecond, timeout))
	p.count(3, 1000)
	p.count(4, 1<<18) // not small beside a megabyte
	require.Equal(t, 4*time.Millisecond, p.rest(pest, time.Millisecond, timeout))
	require.Equal(t, 4*time.Millisecond, p.rest(4, time.Millisecond, timeout), "for it 2 and 3 are the others; the pest is not small")

	for id := range txn.SessionID(20) {
		p.count(10+id, 1000)
	}
	require.Equal(t, restMost*time.Millisecond, p.rest(pest, time.Millisecond, timeout), "a large write keeps some of the time")
	require.Equal(t, timeout/4, p.rest(pest, time.Minute, timeout), "its heartbeats are heard in time")
}

func TestPaceForgets(t *testing.T) {
	var p pace
	at := time.Second
	turn := func() bool { return p.turn(func() time.Duration { return at }) }
	p.wake(at)
	require.True(t, turn())
	p.count(1, 1<<20)
	p.count(2, 1000)
	at += paceWindow + 1
	require.True(t, turn())
	p.count(1, 1<<20)
	require.Equal(t, 2*time.Millisecond, p.rest(1, time.Millisecond, timeout), "2 has written in the window before")
	at += paceWindow + 1
	require.True(t, turn())
	p.count(1, 1<<20)
	require.Zero(t, p.rest(1, time.Millisecond, timeout))
	at += 3 * paceWindow
	p.wake(at)
	require.True(t, turn())
	require.Empty(t, p.current)
	at += 5 * paceWindow
	require.False(t, turn(), "there was no large write for a while")
	require.False(t, turn())
}

// A connection with large writes rests between them while others write little, and its writes are answered all the same, in order.
func TestLargeWritesRest(t *testing.T) {
	s := serving(t, nil)
	large, small := s.connect(), s.connect()
	require.Equal(t, proto.OK, large.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/large", ACL: proto.OpenACL()}).Err)
	require.Equal(t, proto.OK, small.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/small", ACL: proto.OpenACL()}).Err)
	set := &proto.SetDataRequest{Path: "/large", Data: bytes.Repeat([]byte{1}, heavy), Version: -1}
	require.Equal(t, proto.OK, large.call(2, proto.OpSetData, set).Err)
	require.Zero(t, s.rep.stats.rests.Load(), "nobody else has been seen")
	require.Equal(t, proto.OK, small.call(2, proto.OpSetData, &proto.SetDataRequest{Path: "/small", Version: -1}).Err)
	require.Equal(t, proto.OK, large.call(3, proto.OpSetData, set).Err)
	require.EqualValues(t, 1, s.rep.stats.rests.Load())

	large.send(4, proto.OpSetData, set)
	large.send(5, proto.OpGetData, &proto.PathWatchRequest{Path: "/small"})
	large.send(6, proto.OpSetData, &proto.SetDataRequest{Path: "/small", Version: -1})
	for _, xid := range []int32{4, 5, 6} {
		r := large.reply()
		require.Equal(t, xid, r.Xid)
		require.Equal(t, proto.OK, r.Err)
	}
	require.GreaterOrEqual(t, s.rep.stats.rests.Load(), int64(2))
}
