package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

const alice, bob = txn.SessionID(0x0100000000010000), txn.SessionID(0x0100000000010001)

var anyone = []proto.ID{{Scheme: "ip", ID: "127.0.0.1"}}

// history numbers drafts and applies them, as a leader does.
type history struct {
	tb   testing.TB
	m    *Machine
	prev txn.Record
	cxid int32
}

func newHistory(tb testing.TB, cfg Config) *history {
	h := &history{tb: tb, m: New(cfg)}
	for _, id := range []txn.SessionID{alice, bob} {
		h.do(txn.Request{Session: id, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, 4000)})
	}
	return h
}

func (h *history) seal(d *txn.Draft) txn.Record {
	zxid := h.prev.Zxid + 1
	if h.prev.Zxid == 0 {
		zxid = txn.MakeZxid(1, 1)
	}
	h.prev = d.Seal(zxid, h.prev.Zxid, h.prev.Chain)
	return h.prev
}

func (h *history) apply(rec txn.Record) Result {
	h.tb.Helper()
	res, err := h.m.Apply(&rec)
	require.NoError(h.tb, err)
	return res
}

// do prepares one request and applies it.
func (h *history) do(r txn.Request) Result {
	h.tb.Helper()
	h.cxid++
	r.Cxid = h.cxid
	d := h.m.Prepare([]txn.Request{r}, 1000)
	require.Equal(h.tb, txn.NotRefused, d[0].Refused)
	return h.apply(h.seal(&d[0]))
}

// ask does one client's request.
func (h *history) ask(op proto.Op, q proto.Record, ids ...proto.ID) Result {
	h.tb.Helper()
	return h.do(request(alice, op, q, ids...))
}

func request(id txn.SessionID, op proto.Op, q proto.Record, ids ...proto.ID) txn.Request {
	r := txn.Request{Session: id, Op: op, Auth: append(anyone[:1:1], ids...)}
	if q != nil {
		r.Payload = q.Append(nil)
	}
	return r
}

func create(path string, flags proto.CreateFlags) *proto.CreateRequest {
	return &proto.CreateRequest{Path: path, Data: []byte("x"), ACL: proto.OpenACL(), Flags: flags}
}

func TestSmoke(t *testing.T) {
	h := newHistory(t, Config{})
	res := h.ask(proto.OpCreate, create("/v", 0))
	require.Equal(t, proto.OK, res.Err)
	require.Equal(t, "/v", proto.NewReader(res.AppendReply(nil)).String())
	require.Len(t, res.Events, 2)
	out, w, code := h.m.Read(proto.OpGetData, (&proto.PathWatchRequest{Path: "/v", Watch: true}).Append(nil), anyone, nil)
	require.Equal(t, proto.OK, code)
	require.Equal(t, WatchIntent{WatchData, "/v"}, w)
	require.Equal(t, "x", string(proto.NewReader(out).Buffer()))
}
