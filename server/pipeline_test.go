package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// A pipeline of reads, writes and syncs is answered in order, each read with exactly the writes that stand before it; against a
// model, while other connections write elsewhere and the ensemble stalls now and then.
func TestPipelineAgainstModel(t *testing.T) {
	s := serving(t, func(c *Config) { c.MaxInFlight = 50; c.GlobalOutstanding = 60 })
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				s.stall()
				s.do(func() {})
				s.unstall()
			}
		}
	})
	var clients sync.WaitGroup
	for i := range 4 {
		c := s.connect()
		clients.Go(func() { pipelineModel(c, uint64(i)) })
	}
	clients.Wait()
	close(done)
	wg.Wait()
	require.Zero(t, s.rep.outstanding.Load())
}

func pipelineModel(c *client, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	path := "/m" + strconv.FormatUint(seed, 10)
	require.Equal(c.t, proto.OK, c.create(path, []byte("0"), 0).Err)
	type expected struct {
		op    proto.Op
		value string
	}
	const n = 3000
	plan := make(chan expected, n)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(plan)
		value := "0"
		for xid := int32(1); xid <= n; {
			var b []byte
			for range 1 + rnd.IntN(40) {
				switch k := rnd.IntN(10); {
				case k < 3:
					value = strconv.Itoa(int(xid))
					b = append(b, request(xid, proto.OpSetData, &proto.SetDataRequest{Path: path, Data: []byte(value), Version: -1})...)
					plan <- expected{proto.OpSetData, ""}
				case k == 3:
					b = append(b, request(xid, proto.OpSync, &proto.SyncRequest{Path: path})...)
					plan <- expected{proto.OpSync, ""}
				case k == 4:
					b = append(b, request(xid, proto.OpDelete, &proto.DeleteRequest{Path: "/missing", Version: -1})...)
					plan <- expected{proto.OpDelete, ""}
				default:
					b = append(b, request(xid, proto.OpGetData, &proto.PathWatchRequest{Path: path})...)
					plan <- expected{proto.OpGetData, value}
				}
				if xid++; xid > n {
					break
				}
			}
			c.write(b)
		}
	})
	xid, zxid, lastWrite := int32(0), int64(0), int64(0)
	for e := range plan {
		xid++
		r := c.reply()
		require.Equal(c.t, xid, r.Xid)
		require.GreaterOrEqual(c.t, r.Zxid, zxid, "zxids never go back")
		zxid = r.Zxid
		switch e.op {
		case proto.OpGetData:
			require.Equal(c.t, e.value, r.data(c.t), "xid %d", xid)
		case proto.OpDelete:
			require.Equal(c.t, proto.ErrNoNode, r.Err)
		}
		if e.op == proto.OpSetData || e.op == proto.OpDelete {
			require.Greater(c.t, r.Zxid, lastWrite)
			lastWrite = r.Zxid
		}
	}
	wg.Wait()
}

// A read between two writes of one connection is answered between them although both are applied in one batch.
func TestReadBetweenWritesOfOneBatch(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.create("/a", []byte("0"), 0)
	s.stall()
	var b []byte
	for i := range int32(20) {
		b = append(b, request(2*i, proto.OpSetData, &proto.SetDataRequest{Path: "/a", Data: fmt.Append(nil, i), Version: -1})...)
		b = append(b, request(2*i+1, proto.OpGetData, &proto.PathWatchRequest{Path: "/a"})...)
	}
	c.write(b)
	require.Eventually(t, func() bool { return s.rep.outstanding.Load() == 20 }, patience, time.Millisecond, "writes are submitted early")
	s.unstall()
	for i := range int32(20) {
		require.Equal(t, 2*i, c.reply().Xid)
		r := c.reply()
		require.Equal(t, 2*i+1, r.Xid)
		require.Equal(t, strconv.Itoa(int(i)), r.data(t))
	}
}

func TestSyncEchoesItsPath(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	r := c.call(1, proto.OpSync, &proto.SyncRequest{Path: "nonsense"})
	require.Equal(t, proto.AppendString(nil, "nonsense"), r.body)
	r = c.call(2, proto.OpSync, &proto.SyncRequest{PathNull: true})
	require.Equal(t, proto.AppendInt32(nil, -1), r.body)
	require.Equal(t, int64(txn.MakeZxid(1, 2)), r.Zxid)
}

// A sync is answered once this server has applied what the leader had committed.
func TestSyncWaitsForApply(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	s.stall()
	c.send(1, proto.OpSync, &proto.SyncRequest{Path: "/"})
	require.Eventually(t, func() bool { return s.held() == 1 }, patience, time.Millisecond)
	s.do(func() { s.srv.Synced(zab.Synced{ID: s.srv.asks.last, OK: true, Zxid: s.zxid + 1}) })
	c.send(2, proto.OpPing, nil)
	s.do(func() {
		s.commit([]txn.Request{{Session: txn.SessionID(c.SessionID), Op: proto.OpCreate, Origin: 1, Conn: 1,
			Payload: (&proto.CreateRequest{Path: "/n", ACL: proto.OpenACL()}).Append(nil)}})
	})
	r := c.reply()
	require.EqualValues(t, 1, r.Xid)
	require.Equal(t, int64(s.rep.LastZxid()), r.Zxid)
	require.EqualValues(t, -2, c.reply().Xid)
}

func TestRefusals(t *testing.T) {
	s := serving(t, nil)
	refuse := func(why txn.Refusal) { s.do(func() { s.refuse = why }) }
	c := s.connect()
	for _, why := range []txn.Refusal{txn.RefusedPendingFull, txn.RefusedDiskFull} {
		refuse(why)
		require.Equal(t, proto.ErrThrottledOp, c.create("/a", nil, 0).Err)
	}
	refuse(txn.RefusedTooLarge)
	require.Equal(t, proto.ErrBadArguments, c.create("/a", nil, 0).Err)
	refuse(txn.NotRefused)
	require.Equal(t, proto.OK, c.create("/a", nil, 0).Err)
	for _, why := range []txn.Refusal{txn.RefusedNotLeader, txn.RefusedTransferring, txn.RefusedSessionMoved} {
		c := s.connect()
		refuse(why)
		c.send(1, proto.OpCreate, &proto.CreateRequest{Path: "/b", ACL: proto.OpenACL()})
		c.gone()
		refuse(txn.NotRefused)
	}
	refuse(txn.RefusedPendingFull)
	d := s.dial()
	d.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true}))
	d.gone()
	refuse(txn.NotRefused)
	require.Zero(t, s.rep.outstanding.Load())
}

// A refusal overtakes an earlier write that is still under way; its reply does not.
func TestRefusalWaitsForItsTurn(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	s.stall()
	c.write(append(request(1, proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()}),
		request(2, proto.OpCreate, &proto.CreateRequest{Path: "/b", ACL: proto.OpenACL()})...))
	require.Eventually(t, func() bool { return s.rep.outstanding.Load() == 2 }, patience, time.Millisecond)
	refusal := []zab.Refusal{{Session: txn.SessionID(c.SessionID), Cxid: 2, Seq: 2, Conn: s.rep.reg.bySession(txn.SessionID(c.SessionID)).id, Code: txn.RefusedPendingFull}}
	s.do(func() { s.srv.Refused(refusal) })
	s.do(func() {
		s.commit([]txn.Request{{Session: txn.SessionID(c.SessionID), Cxid: 1, Op: proto.OpCreate, Origin: 1, Conn: refusal[0].Conn,
			Payload: (&proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()}).Append(nil)}})
	})
	require.Equal(t, proto.OK, c.reply().Err)
	require.Equal(t, proto.ErrThrottledOp, c.reply().Err)
}

// Clients may use an xid for several writes under way: a refusal is of one of them all the same.
func TestRefusalsOfOneXid(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	create := func(path string) []byte {
		return request(1, proto.OpCreate, &proto.CreateRequest{Path: path, ACL: proto.OpenACL()})
	}
	broken := create("/x")
	broken[3] -= 4 // the flags are missing
	broken = broken[:len(broken)-4]
	c.write(slices.Concat(create("/a"), broken, create("/a"), broken, create("/b")))
	for i, want := range []proto.ErrCode{proto.OK, proto.ErrMarshalling, proto.ErrNodeExists, proto.ErrMarshalling, proto.OK} {
		r := c.reply()
		require.EqualValues(t, 1, r.Xid, i)
		require.Equal(t, want, r.Err, i)
	}
}

// Input stops being read when too much of a connection waits; the rest stays in the socket and is answered later.
func TestBackPressure(t *testing.T) {
	s := serving(t, func(c *Config) { c.MaxInFlight = 10 })
	c := s.connect()
	s.stall()
	const n = 2000
	go func() {
		for i := range int32(n) {
			if _, err := c.nc.Write(request(i, proto.OpSetData, &proto.SetDataRequest{Path: "/", Data: make([]byte, 1000), Version: -1})); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return s.rep.outstanding.Load() == 10 }, patience, time.Millisecond)
	s.unstall()
	for i := range int32(n) {
		require.Equal(t, i, c.reply().Xid)
	}
}

// A client that asks for much and reads nothing blocks itself, and is cut off when notifications pile up.
func TestSlowReaderIsCutOff(t *testing.T) {
	s := serving(t, func(c *Config) { c.MaxUnsent = 64 << 10 })
	w := s.connect()
	w.create("/big", make([]byte, 900_000), 0)
	c := s.connect()
	require.Equal(t, proto.OK, c.call(1, proto.OpAddWatch, &proto.AddWatchRequest{Path: "/big", Mode: proto.WatchPersistent}).Err)
	var b []byte
	for i := range int32(50) {
		b = append(b, request(i, proto.OpGetData, &proto.PathWatchRequest{Path: "/big"})...)
	}
	c.write(b)
	conn := s.rep.reg.bySession(txn.SessionID(c.SessionID))
	for open := true; open; {
		require.Equal(t, proto.OK, w.set("/big", "x").Err)
		conn.mu.Lock()
		open = conn.state < closing
		conn.mu.Unlock()
	}
	require.EqualValues(t, 1, s.rep.stats.slowReaders.Load())
	require.Eventually(t, func() bool { return s.rep.reg.byConn(conn.id) == nil }, patience, time.Millisecond)
	require.Zero(t, s.rep.watches.size())
}

// The reply to a write may be what makes too much of what a client does not read.
func TestReplyThatIsTooMuch(t *testing.T) {
	s := serving(t, func(c *Config) { c.MaxUnsent = 64 << 10 })
	near, far := net.Pipe()
	defer near.Close()
	c := s.srv.newConn(far)
	c.state, c.flushing, c.out = live, true, make([]byte, 64<<10)
	c.q.push(entry{xid: 1, op: proto.OpSetACL})
	c.q.push(entry{xid: 2, op: proto.OpPing})
	c.begin(c.q.front())
	c.complete(&statemachine.Result{Zxid: 9, Err: proto.ErrNoNode, Txn: &txn.Txn{Header: txn.Header{Cxid: 1, Op: proto.OpSetACL}}})
	require.Equal(t, closing, c.state)
	require.Equal(t, slowReader, c.why)
	require.Zero(t, c.q.len())
	require.Zero(t, s.rep.outstanding.Load())
	c.close()
}
