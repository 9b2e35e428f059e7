package server

import (
	"net/netip"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// What go-zookeeper reads out of srvr, ruok and cons.
func TestWordsAsGoZookeeperReadsThem(t *testing.T) {
	built := time.Date(2026, 11, 29, 8, 30, 0, 0, time.UTC)
	s := serving(t, func(c *Config) { c.Built = built })
	c := s.connect()
	c.create("/a", nil, 0)
	c.send(-2, proto.OpPing, nil)
	c.reply()
	s.dial() // without a session
	servers := []string{s.ln.Addr().String()}

	stats, ok := zk.FLWSrvr(servers, patience)
	require.True(t, ok, "%+v", stats[0].Error)
	require.Equal(t, zk.ModeStandalone, stats[0].Mode)
	require.EqualValues(t, 1, stats[0].Epoch)
	require.EqualValues(t, 3, stats[0].Counter)
	require.EqualValues(t, 6, stats[0].NodeCount)
	require.True(t, stats[0].BuildTime.Equal(built))
	require.Equal(t, []bool{true}, zk.FLWRuok(servers, patience))
	cons, ok := zk.FLWCons(servers, patience)
	require.True(t, ok, "%+v", cons[0].Error)
	require.Len(t, cons[0].Clients, 1)
	client := cons[0].Clients[0]
	require.Equal(t, c.nc.LocalAddr().String(), client.Addr)
	require.EqualValues(t, 1000, client.Lcxid, "a ping does not count")
	require.EqualValues(t, 4000, client.Timeout)
	require.Equal(t, c.ConnectResponse.SessionID, client.SessionID)
}

func TestAddressesAsZooKeeperWritesThem(t *testing.T) {
	for addr, want := range map[string]string{"10.1.2.3": "10.1.2.3", "::1": "0:0:0:0:0:0:0:1", "2001:db8::ff:0": "2001:db8:0:0:0:0:ff:0"} {
		require.Equal(t, []proto.ID{{Scheme: "ip", ID: want}}, firstIDs(netip.AddrPortFrom(netip.MustParseAddr(addr), 1)))
	}
}

// One line names session, path, size and the key to raise, and there is one however often it happens.
func TestSizesAreNamed(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	cfg := testConfig()
	cfg.MaxFrame = 1024
	s := newSoloWith(t, cfg, listen(t), zap.New(core))
	t.Cleanup(s.stop)
	s.do(s.lead)
	facts := func(message string) map[string]any {
		require.Eventually(t, func() bool { return logs.FilterMessage(message).Len() == 1 }, patience, 1e6, message)
		return logs.FilterMessage(message).All()[0].ContextMap()
	}
	c := s.connect()
	session := txn.SessionID(c.ConnectResponse.SessionID).String()
	c.create("/a", nil, 0)
	c.set("/a", string(make([]byte, 990)))
	for range 3 {
		require.Equal(t, proto.OK, c.get("/a", false).Err)
	}
	f := facts("reply is larger than clients may take")
	require.Equal(t, "/a", f["path"])
	require.Equal(t, session, f["session"])
	require.EqualValues(t, 16+4+990+68, f["bytes"])
	require.EqualValues(t, 1024, f["jute.maxbuffer"])

	s.do(func() { s.refuse = txn.RefusedTooLarge })
	require.Equal(t, proto.ErrBadArguments, c.set("/a", "x").Err)
	f = facts("request is too large")
	require.Equal(t, "/a", f["path"])
	require.Equal(t, session, f["session"])
	s.do(func() { s.refuse = txn.NotRefused })

	c.write(request(5, proto.OpSetData, &proto.SetDataRequest{Path: "/a/b", Data: make([]byte, 2000)}))
	c.gone()
	f = facts("frame is too large")
	require.Equal(t, "/a/b", f["path"])
	require.Equal(t, proto.OpSetData.String(), f["op"])
	require.Equal(t, session, f["session"])
}

func TestPathOfARequest(t *testing.T) {
	multi := proto.AppendMulti(nil, []proto.MultiOp{{Op: proto.OpDelete, Request: &proto.DeleteRequest{Path: "/m"}}})
	require.Equal(t, "/m", pathOf(proto.OpMulti, multi))
	require.Equal(t, "", pathOf(proto.OpMulti, multi[:5]))
	require.Equal(t, "", pathOf(proto.OpSetData, []byte{0, 0, 1, 0, '/'}), "not all there")
	require.Equal(t, "", pathOf(proto.OpAuth, (&proto.AuthPacket{Scheme: "digest"}).Append(nil)), "no secrets")
	require.Equal(t, "/x", pathOf(proto.OpExists, (&proto.PathWatchRequest{Path: "/x"}).Append(nil)))
}

func TestSoftQuotaIsLoggedOnceAMinute(t *testing.T) {
	s, logs := logged(t)
	c := s.connect()
	for _, n := range [][2]string{{"/q", "x"}, {"/zookeeper/quota/q", ""}, {"/zookeeper/quota/q/zookeeper_limits", "count=2,bytes=-1"},
		{"/zookeeper/quota/q/zookeeper_stats", ""}, {"/q/a", ""}, {"/q/b", ""}, {"/q/c", ""}} {
		require.Equal(t, proto.OK, c.create(n[0], []byte(n[1]), 0).Err)
	}
	require.Eventually(t, func() bool { return logs.Len() == 1 }, patience, 1e6)
	line := logs.All()[0]
	require.Equal(t, "quota exceeded", line.Message)
	require.Equal(t, map[string]any{"path": "/q", "what": "count", "usage": int64(3), "limit": int64(2),
		"session": txn.SessionID(c.ConnectResponse.SessionID).String(), "addr": c.nc.LocalAddr().String()}, line.ContextMap())
	r := c.get("/zookeeper/quota/q/zookeeper_stats", false)
	require.Equal(t, "count=4,bytes=1", r.data(t))
}

// The leader's fader deletes an empty container that was used, and its watchers hear of it.
func TestContainersGo(t *testing.T) {
	s := serving(t, func(c *Config) { c.FadeEvery = time.Millisecond })
	c := s.connect()
	require.Equal(t, proto.OK, c.call(1, proto.OpCreateContainer, &proto.CreateRequest{Path: "/c", ACL: proto.OpenACL(), Flags: proto.FlagContainer}).Err)
	c.create("/c/x", nil, 0)
	require.Equal(t, proto.OK, c.call(2, proto.OpExists, watch("/c")).Err)
	require.Equal(t, proto.OK, c.call(3, proto.OpGetChildren, watch("/")).Err)
	require.Equal(t, proto.ErrBadArguments, c.call(4, proto.OpDeleteContainer, &proto.GetACLRequest{Path: "/c"}).Err, "no business of clients")
	c.send(5, proto.OpDelete, &proto.DeleteRequest{Path: "/c/x", Version: -1})
	r := c.reply()
	require.EqualValues(t, 5, r.Xid)
	require.Equal(t, proto.EventNodeDeleted.String()+"(/c)", c.event())
	require.Equal(t, proto.EventNodeChildrenChanged.String()+"(/)", c.event())
	s.freeze()
	require.Empty(t, s.srv.faded(), "only a leader that serves looks")
}
