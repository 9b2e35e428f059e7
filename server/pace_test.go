package server

import (
	"bytes"
	"sync/atomic"
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
	require.Equal(t, restMost*tookMost, p.rest(pest, time.Minute, time.Minute), "a stall is not its fault")
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

// ticking gives a server a clock that is as slow as the machine: a microsecond passes whenever it is read.
func ticking(cfg *Config) {
	var ticks atomic.Int64
	cfg.Now = func() time.Duration { return time.Second + time.Duration(ticks.Add(1))*time.Microsecond }
}

// What counts is what is under way at once, not what has been since the connection last had nothing under way: a connection that always has a
// few small writes under way, and so never none, has none that are large, whatever they add up to.
func TestAStreamOfSmallWritesDoesNotRest(t *testing.T) {
	s := serving(t, ticking)
	stream, small := s.connect(), s.connect()
	require.Equal(t, proto.OK, stream.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/stream", ACL: proto.OpenACL()}).Err)
	require.Equal(t, proto.OK, small.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/small", ACL: proto.OpenACL()}).Err)
	s.rep.pace.wake(s.rep.cfg.Now()) // somebody else's writes are large
	require.Equal(t, proto.OK, small.call(2, proto.OpSetData, &proto.SetDataRequest{Path: "/small", Version: -1}).Err)

	set := &proto.SetDataRequest{Path: "/stream", Data: make([]byte, heavy/20), Version: -1}
	held := func(n int) {
		require.Eventually(t, func() bool { return s.held() == n }, patience, time.Millisecond)
	}
	s.stall()
	stream.send(2, proto.OpSetData, set)
	held(1)
	for xid := int32(3); xid < 60; xid++ { // three times heavy
		stream.send(xid, proto.OpSetData, set)
		held(2)
		s.release()
		require.Equal(t, xid-1, stream.reply().Xid)
	}
	s.unstall()
	require.Equal(t, int32(59), stream.reply().Xid)
	require.Equal(t, proto.OK, stream.call(60, proto.OpSetData, set).Err)
	require.Zero(t, s.rep.stats.rests.Load())
}

// Writes that are large only together rest too, also where the next come before the last are answered.
func TestManyWritesAtOnceRest(t *testing.T) {
	s := serving(t, ticking)
	many, small := s.connect(), s.connect()
	require.Equal(t, proto.OK, many.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/many", ACL: proto.OpenACL()}).Err)
	require.Equal(t, proto.OK, small.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/small", ACL: proto.OpenACL()}).Err)
	s.rep.pace.wake(s.rep.cfg.Now())
	require.Equal(t, proto.OK, small.call(2, proto.OpSetData, &proto.SetDataRequest{Path: "/small", Version: -1}).Err)

	set := &proto.SetDataRequest{Path: "/many", Data: make([]byte, heavy/10), Version: -1}
	s.stall()
	xid := int32(2)
	for ; xid < 16; xid++ { // together more than heavy
		many.send(xid, proto.OpSetData, set)
		require.Eventually(t, func() bool { return s.held() == int(xid)-1 }, patience, time.Millisecond)
	}
	s.release()
	require.Equal(t, int32(2), many.reply().Xid)
	require.EqualValues(t, 1, s.rep.stats.rests.Load(), "after the first answer, although more is under way")
	s.unstall()
	for want := int32(3); want < xid; want++ {
		require.Equal(t, want, many.reply().Xid)
	}
	require.Equal(t, proto.OK, many.call(xid, proto.OpSetData, set).Err, "it goes on")
}

// Sessions that come and go are not as many small writers.
func TestPaceDoesNotCountSessionsThatComeAndGo(t *testing.T) {
	s := serving(t, ticking)
	s.rep.pace.wake(s.rep.cfg.Now())
	require.Equal(t, proto.OK, s.connect().call(1, proto.OpCloseSession, nil).Err)
	writer := s.connect()
	require.Equal(t, proto.OK, writer.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()}).Err)
	s.do(func() {
		require.Contains(t, s.rep.pace.current, txn.SessionID(writer.SessionID))
		require.Len(t, s.rep.pace.current, 1)
	})
}
