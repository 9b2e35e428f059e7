package statemachine

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// limited is a tree with a quota of three nodes and five bytes on /q, of which two and two are used.
func limited(tb testing.TB, cfg Config) *history {
	h := newHistory(tb, cfg)
	for _, n := range []struct{ path, data string }{
		{"/q", "a"}, {"/q/x", "b"}, {"/zookeeper/quota/q", ""},
		{"/zookeeper/quota/q/zookeeper_limits", "count=2,bytes=4=;byteHardLimit=5;countHardLimit=3"}, {"/zookeeper/quota/q/zookeeper_stats", ""},
	} {
		res := h.ask(proto.OpCreate, &proto.CreateRequest{Path: n.path, Data: []byte(n.data), ACL: proto.OpenACL()})
		require.Equal(tb, proto.OK, res.Err)
	}
	return h
}

func put(path, data string, version int32) *proto.SetDataRequest {
	return &proto.SetDataRequest{Path: path, Data: []byte(data), Version: version}
}

func TestHardQuotaIsEnforcedIfAsked(t *testing.T) {
	for _, c := range []struct {
		row  int
		op   proto.Op
		q    proto.Record
		want proto.ErrCode
	}{
		{0, proto.OpSetData, put("/q/x", "1234", 0), proto.OK},
		{0, proto.OpSetData, put("/q/x", "12345", 0), proto.ErrQuotaExceeded},
		{56, proto.OpSetData, put("/q/x", "12345", 9), proto.ErrQuotaExceeded},
		{0, proto.OpSetData, put("/q/no", "12345", 9), proto.ErrNoNode},
		{0, proto.OpCreate, create("/q/y", 0), proto.OK},
		{0, proto.OpCreate, &proto.CreateRequest{Path: "/q/y", Data: []byte("1234"), ACL: proto.OpenACL()}, proto.ErrQuotaExceeded},
		{0, proto.OpCreate, &proto.CreateRequest{Path: "/q/x", Data: []byte("1234"), ACL: proto.OpenACL()}, proto.ErrNodeExists},
		{0, proto.OpCreate, create("/zookeeper/quota/zookeeper_limits", 0), proto.ErrBadArguments},
		{0, proto.OpCreate, create("/zookeeper/quota/zookeeper_limits", 2), proto.OK},
	} {
		h := limited(t, Config{EnforceQuota: true})
		require.Equal(t, c.want, h.ask(c.op, c.q).Err, "row %d: %+v", c.row, c.q)
		if c.want == proto.ErrQuotaExceeded {
			h = limited(t, Config{})
			require.NotEqual(t, c.want, h.ask(c.op, c.q).Err, "not enforced by default: %+v", c.q)
		}
	}
	h := limited(t, Config{EnforceQuota: true})
	require.Equal(t, proto.OK, h.ask(proto.OpCreate, create("/q/y", 0)).Err)
	require.Equal(t, proto.ErrQuotaExceeded, h.ask(proto.OpCreate, create("/q/z", 0)).Err)
	h.ask(proto.OpDelete, &proto.DeleteRequest{Path: "/q/y", Version: -1})
	require.Equal(t, proto.OK, h.ask(proto.OpCreate, create("/q/z", 0)).Err)
}

func TestRow74QuotaInMulti(t *testing.T) {
	multi := func(h *history, ops ...proto.MultiOp) Result {
		return h.do(txn.Request{Session: alice, Op: proto.OpMulti, Payload: proto.AppendMulti(nil, ops), Auth: anyone})
	}
	mk := func(path, data string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpCreate, Request: &proto.CreateRequest{Path: path, Data: []byte(data), ACL: proto.OpenACL()}}
	}
	h := limited(t, Config{EnforceQuota: true})
	res := multi(h, mk("/free", "123456"), mk("/q/y", "123456"))
	require.Equal(t, proto.OK, res.HeaderErr())
	require.Equal(t, proto.ErrQuotaExceeded, res.Err)
	require.Equal(t, []proto.ErrCode{proto.OK, proto.ErrQuotaExceeded}, []proto.ErrCode{res.results[0].Err, res.results[1].Err})

	res = multi(h, mk("/q/y", "123"), mk("/q/z", "123"), proto.MultiOp{Op: proto.OpSetData, Request: put("/q/z", "123456", 0)})
	require.Equal(t, proto.OK, res.Err, "each is held against what was there before; the new node's data counts as its own")
	over := h.m.OverQuota(res.Txn)
	require.Equal(t, []Overrun{{Subtree: "/q", What: "count", Usage: 4, Limit: 2}, {Subtree: "/q", What: "bytes", Usage: 11, Limit: 4}}, over[:2])
}

func TestSoftQuotaIsReported(t *testing.T) {
	h := limited(t, Config{})
	res := h.ask(proto.OpSetData, put("/q/x", "123", 0))
	require.Empty(t, h.m.OverQuota(res.Txn))
	res = h.ask(proto.OpCreate, create("/q/y", 0))
	require.Len(t, h.m.OverQuota(res.Txn), 2)
	res = h.ask(proto.OpDelete, &proto.DeleteRequest{Path: "/q/y", Version: -1})
	require.Empty(t, h.m.OverQuota(res.Txn))
	stat, _ := h.m.Stat("/zookeeper/quota/q/zookeeper_stats")
	require.Zero(t, stat.Version)
}

func TestSweptNodesAreLookedAtAgain(t *testing.T) {
	h := newHistory(t, Config{ExtendedTypes: true})
	h.ask(proto.OpCreateContainer, create("/c", proto.FlagContainer))
	h.ask(proto.OpCreate, create("/c/x", proto.FlagEphemeral))
	h.ask(proto.OpCreate, create("/plain", 0))
	h.ask(proto.OpCreateTTL, &proto.CreateTTLRequest{Path: "/ttl", ACL: proto.OpenACL(), Flags: proto.FlagPersistentTTL, TTL: 5})
	require.Len(t, h.m.Faded(1_000_000, 0), 1)
	h.ask(proto.OpDelete, &proto.DeleteRequest{Path: "/c/x", Version: -1})
	sweep := func(path string, mzxid txn.Zxid) Result {
		return h.do(txn.Request{Op: proto.OpDeleteContainer, Payload: proto.AppendInt64(proto.AppendString(nil, path), int64(mzxid))})
	}
	for _, path := range []string{"/plain", "/missing"} {
		n, _ := h.m.Stat(path)
		require.Empty(t, sweep(path, txn.Zxid(n.Mzxid)).Events, path)
	}
	require.Equal(t, proto.ErrBadArguments, sweep("/zookeeper", 0).Err)
	require.Equal(t, proto.ErrMarshalling, h.do(txn.Request{Op: proto.OpDeleteContainer}).Err)

	due := h.m.Faded(1_000_000, 0)
	require.Len(t, due, 2)
	h.ask(proto.OpSetData, put("/ttl", "again", 0))
	require.Len(t, h.do(due[0]).Events, 2)
	require.Empty(t, h.do(due[1]).Events, "its data was set since")
	_, there := h.m.Stat("/c")
	require.False(t, there)
	_, there = h.m.Stat("/ttl")
	require.True(t, there)

	drafts := h.pipeline(request(alice, proto.OpCreate, create("/ttl/x", 0)), h.m.Faded(1_000_000, 0)[0])
	require.False(t, body(t, drafts[1]).(*txn.DeleteContainer).Gone, "a child is on its way")
	h.m.Abandon()
	require.Len(t, h.do(h.m.Faded(1_000_000, 0)[0]).Events, 2)
	require.Empty(t, h.m.Faded(1<<40, time.Nanosecond))
}

func TestEnsembleIsShownAlsoAfterARestore(t *testing.T) {
	cfg := Config{Ensemble: "server.1=a:1:2:participant\nversion=0", EnsembleMillis: 5}
	h := newHistory(t, cfg)
	fresh := New(Config{Ensemble: "version=0", EnsembleMillis: 6})
	require.NoError(t, fresh.Restore(bytes.NewReader(snapshotBytes(t, h.m))))
	for m, want := range map[*Machine]string{h.m: cfg.Ensemble, fresh: "version=0"} {
		data, _ := m.tree.Get("/zookeeper/config").Data()
		require.Equal(t, want, data)
	}
	require.Equal(t, h.m.Digest(), fresh.Digest())
	require.Equal(t, datatree.New().Digest(), h.m.Digest())
}
