package server

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// A client that sends large writes faster than they commit is not read for a while; nothing is refused, and nothing piles up here or at
// the leader.
func TestBackPressureByBytes(t *testing.T) {
	const size, n = 30_000, 100
	s := serving(t, func(c *Config) { c.OutstandingBytes = 64 << 10 })
	c := s.connect()
	s.stall()
	flood(t, s, c, n, size)
	require.EqualValues(t, 3, s.rep.outstanding.Load())
	s.unstall()
	for i := range int32(n) {
		require.Equal(t, i, c.reply().Xid)
	}
	require.Zero(t, s.rep.outstandingBytes.Load())
}

// flood has a client send n sets of size bytes, and returns when the server has taken in as many as it will.
func flood(t *testing.T, s *solo, c *client, n, size int) {
	t.Helper()
	go func() { // ends with the connection, or with the last set
		for i := range int32(n) {
			if _, err := c.nc.Write(request(i, proto.OpSetData, &proto.SetDataRequest{Path: "/", Data: make([]byte, size), Version: -1})); err != nil {
				return
			}
		}
	}()
	conn := s.rep.reg.bySession(txn.SessionID(c.SessionID))
	require.Eventually(t, func() bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return conn.q.len() == n || conn.crowded()
	}, patience, time.Millisecond)
}

// One client's writes go out in portions, so that those of others do not wait behind all of them.
func TestWritesGoOutInPortions(t *testing.T) {
	for size, together := range map[int]int64{100: 20, 60_000: 8, 500_000: 1, 900_000: 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			const n = 20
			s := serving(t, nil)
			c := s.connect()
			s.stall()
			flood(t, s, c, n, size)
			require.Equal(t, together, s.rep.outstanding.Load())
			s.unstall()
			for i := range int32(n) {
				require.Equal(t, i, c.reply().Xid)
			}
		})
	}
}

// A connection whose requests are answered one by one is not given up because there are many.
func TestRequestTimeoutCountsFromTheReplyBefore(t *testing.T) {
	c := &conn{state: live}
	c.q.push(entry{op: proto.OpSetData, progress: underway, at: time.Second})
	require.False(t, c.overdue(11*time.Second, 10*time.Second, 10*time.Second))
	require.True(t, c.overdue(12*time.Second, 10*time.Second, 10*time.Second))
	c.q.moved = 3 * time.Second
	require.False(t, c.overdue(13*time.Second, 10*time.Second, 10*time.Second))
	require.True(t, c.overdue(14*time.Second, 10*time.Second, 10*time.Second))
}

// Identities ride on every write to the leader: a client cannot have so many that a request becomes too much for a peer's frame.
func TestIdentitiesAreBounded(t *testing.T) {
	for name, user := range map[string]string{"many": "u%d", "large": "u%d" + strings.Repeat("x", 10_000)} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, nil)
			c := s.connect()
			last := proto.OK
			for i := 0; last == proto.OK && i < 10*maxIDs; i++ {
				c.send(proto.XidAuth, proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: fmt.Appendf(nil, user+":p", i)})
				last = c.reply().Err
			}
			require.Equal(t, proto.ErrAuthFailed, last)
			c.gone()
		})
	}
}

// A batch of dear reads lets others have the state in between.
func TestBatchesOfReadsAreShort(t *testing.T) {
	clock := time.Duration(0)
	cfg := testConfig()
	cfg.Now = func() time.Duration { clock += time.Millisecond; return clock }
	rep := NewReplica(cfg, statemachine.Config{})
	srv := New(cfg, rep, zap.NewNop())
	c := &conn{srv: srv, rep: rep, state: live, in: &input{max: 1024}}
	for i := range int32(1000) {
		c.in.buf = append(c.in.buf, request(i, proto.OpExists, &proto.PathWatchRequest{Path: "/none"})...)
	}
	c.in.w = len(c.in.buf)
	starved, err := c.takeFrames(clock)
	require.NoError(t, err)
	require.False(t, starved)
	require.Less(t, c.traffic.received, int64(100))

	for i := range int32(1000) {
		c.q.push(entry{xid: i, op: proto.OpPing})
	}
	c.advance()
	require.Greater(t, c.q.len(), 900)
	require.NotEmpty(t, c.out)
	c.advanceTo(1<<20, math.MaxInt64)
	require.Zero(t, c.q.len())
}

// Reads that take long are not left for the moment when the write behind them is applied, in which everybody waits: that write goes out
// later. Few and cheap reads hold nothing up.
func TestWritesBehindDearReadsGoOutLater(t *testing.T) {
	create := func(xid int32, path string) []byte {
		return request(xid, proto.OpCreate, &proto.CreateRequest{Path: path, ACL: proto.OpenACL()})
	}
	many := proto.SetWatches{DataWatches: []string{}, ExistWatches: []string{}, ChildWatches: []string{}}
	for i := range 2000 {
		many.ExistWatches = append(many.ExistWatches, fmt.Sprintf("/a/long/path/%d", i))
	}
	for name, test := range map[string]struct {
		reads func(xid int32) []byte
		out   int64 // writes under way while the first is not answered
	}{
		"cheap":        {func(xid int32) []byte { return request(xid, proto.OpExists, watch("/a")) }, 5},
		"many watches": {func(xid int32) []byte { return request(xid, proto.OpSetWatches, &many) }, 2},
		"a whole tree": {func(xid int32) []byte {
			return request(xid, proto.OpGetAllChildrenNumber, &proto.GetAllChildrenNumberRequest{Path: "/"})
		}, 2},
		"many children": {func(xid int32) []byte { return request(xid, proto.OpGetChildren, &proto.PathWatchRequest{Path: "/"}) }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, nil)
			c := s.connect()
			conn := s.rep.reg.bySession(txn.SessionID(c.SessionID))
			s.stall()
			b := append(create(1, "/w1"), create(2, "/w2")...)
			for i := range int32(3) {
				b = append(append(b, test.reads(10+i)...), create(20+i, fmt.Sprintf("/x%d", i))...)
			}
			c.write(b)
			require.Eventually(t, func() bool {
				conn.mu.Lock()
				defer conn.mu.Unlock()
				return conn.q.len() == 8
			}, patience, time.Millisecond)
			require.Equal(t, test.out, s.rep.outstanding.Load())
			s.unstall()
			for _, xid := range []int32{1, 2, 10, 20, 11, 21, 12, 22} {
				require.Equal(t, xid, c.reply().Xid)
			}
			conn.mu.Lock()
			defer conn.mu.Unlock()
			require.Zero(t, conn.q.ahead)
		})
	}
}

// ADR 0014: with the defaults five servers at their own limits are no more than half of what the leader takes, and less than its bytes.
func TestServersStayBelowTheLeadersBound(t *testing.T) {
	const servers = 5
	leader, c := zab.DefaultConfig(), Config{}.withDefaults()
	require.LessOrEqual(t, servers*c.GlobalOutstanding, leader.MaxPending/2)
	require.Less(t, servers*c.OutstandingBytes, leader.MaxPendingBytes)
}
