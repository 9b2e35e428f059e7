package statemachine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/datatree"
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

// pipeline prepares requests together and returns their drafts; nothing is applied.
func (h *history) pipeline(reqs ...txn.Request) []txn.Draft { return h.m.Prepare(reqs, 1000) }

// body is what a draft decided.
func body(tb testing.TB, d txn.Draft) txn.Body {
	rec := d.Seal(txn.MakeZxid(9, 1), 0, 0)
	t, err := rec.Txn()
	require.NoError(tb, err)
	return t.Body
}

func closing(id txn.SessionID) txn.Request { return txn.Request{Session: id, Op: proto.OpCloseSession} }

func TestTheMostOrdinaryWriteAndRead(t *testing.T) {
	h := newHistory(t, Config{})
	res := h.ask(proto.OpCreate, create("/v", 0))
	require.Equal(t, proto.OK, res.Err)
	require.Equal(t, "/v", proto.NewReader(res.AppendReply(nil)).String())
	out, w, code := h.m.Read(proto.OpGetData, (&proto.PathWatchRequest{Path: "/v", Watch: true}).Append(nil), anyone, nil, nil)
	require.Equal(t, proto.OK, code)
	require.Equal(t, WatchIntent{WatchData, "/v"}, w)
	require.Equal(t, "x", string(proto.NewReader(out).Buffer()))
	require.Equal(t, 5, h.m.NodeCount())
	require.EqualValues(t, len("/"+"/zookeeper"+"/zookeeper/config"+"/zookeeper/quota"+"/v"+"x"), h.m.DataSize())
}

// The session is closing from Prepare on, and what it would own by then goes with it.
func TestRequestsBehindACloseSession(t *testing.T) {
	h := newHistory(t, Config{})
	h.ask(proto.OpCreate, create("/old", proto.FlagEphemeral))
	drafts := h.pipeline(
		request(alice, proto.OpCreate, create("/new", proto.FlagEphemeral)),
		closing(alice),
		request(alice, proto.OpCreate, create("/late", 0)),
		closing(alice),
		request(bob, proto.OpCreate, create("/old", 0)),
		request(bob, proto.OpDelete, &proto.DeleteRequest{Path: "/new", Version: -1}),
	)
	want := []proto.ErrCode{proto.OK, proto.OK, proto.ErrSessionExpired, proto.ErrSessionExpired, proto.OK, proto.ErrNoNode}
	for i := range drafts {
		require.Equal(t, want[i], h.apply(h.seal(&drafts[i])).Err, "request %d", i)
	}
	_, ok := h.m.Stat("/new")
	require.False(t, ok)
}

// A pending create of the closing session that another session has deleted and made its own since.
func TestCloseSessionLeavesWhatIsNoLongerItsOwn(t *testing.T) {
	h := newHistory(t, Config{})
	drafts := h.pipeline(
		request(alice, proto.OpCreate, create("/x", proto.FlagEphemeral)),
		request(bob, proto.OpDelete, &proto.DeleteRequest{Path: "/x", Version: -1}),
		request(bob, proto.OpCreate, create("/x", proto.FlagEphemeral)),
		closing(alice),
		request(bob, proto.OpSetData, &proto.SetDataRequest{Path: "/x", Version: 0}),
	)
	for i := range drafts {
		require.Equal(t, proto.OK, h.apply(h.seal(&drafts[i])).Err, "request %d", i)
	}
	require.Equal(t, []string{"/x"}, h.m.Ephemerals(bob))
	require.Equal(t, 1, h.m.EphemeralCount())
}

func TestPendingCreatesCountForSequenceNumbers(t *testing.T) {
	h := newHistory(t, Config{})
	drafts := h.pipeline(
		request(alice, proto.OpCreate, create("/n-", proto.FlagPersistentSequential)),
		request(alice, proto.OpCreate, create("/n-", proto.FlagPersistentSequential)),
	)
	require.Equal(t, "/n-0000000001", body(t, drafts[1]).(*txn.Create).Path)
}

func TestAbandonForgetsEverythingOutstanding(t *testing.T) {
	h := newHistory(t, Config{})
	h.ask(proto.OpCreate, create("/e", proto.FlagEphemeral))
	before := snapshotBytes(t, h.m)
	h.m.Prepare([]txn.Request{
		request(alice, proto.OpCreate, create("/x", 0)),
		closing(alice),
		{Session: 99, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, 1)},
		{Op: txn.OpSecret, Payload: []byte("s")},
	}, 5000)
	h.m.Abandon()
	require.Equal(t, before, snapshotBytes(t, h.m))
	drafts := h.m.Prepare([]txn.Request{
		request(99, proto.OpCreate, create("/y", 0)),
		request(alice, proto.OpCreate, create("/x", 0)),
		{Op: txn.OpSecret, Payload: []byte("s")},
	}, 5)
	require.Equal(t, &txn.Error{Code: proto.ErrSessionExpired}, body(t, drafts[0]))
	require.IsType(t, &txn.Create{}, body(t, drafts[1]))
	require.IsType(t, &txn.Secret{}, body(t, drafts[2]))
}

func TestTimeNeverSinks(t *testing.T) {
	h := newHistory(t, Config{}) // its transactions say 1000
	time := func(wall int64) int64 {
		d := h.m.Prepare([]txn.Request{request(alice, proto.OpCreate, create("/x", 0))}, wall)
		rec := h.seal(&d[0])
		got, err := rec.Txn()
		require.NoError(t, err)
		h.apply(rec)
		return got.Time
	}
	require.EqualValues(t, 1000, time(7))
	require.EqualValues(t, 3000, time(3000))
	h.m.Abandon()
	require.EqualValues(t, 3000, time(2000), "also behind another leader")
}

func TestTooLargeIsRefusedWithoutATrace(t *testing.T) {
	h := newHistory(t, Config{MaxTxnBytes: 500})
	big := create("/big", proto.FlagEphemeralSequential)
	big.Data = make([]byte, 500)
	drafts := h.pipeline(request(alice, proto.OpCreate, big), request(alice, proto.OpCreate, create("/n", proto.FlagPersistentSequential)))
	require.Equal(t, txn.RefusedTooLarge, drafts[0].Refused)
	require.Equal(t, "/n0000000000", body(t, drafts[1]).(*txn.Create).Path)
	require.Empty(t, h.m.pending.created)
}

func TestVersionsWrap(t *testing.T) {
	h := newHistory(t, Config{})
	h.ask(proto.OpCreate, create("/x", 0))
	set := func() int32 {
		d := h.pipeline(request(alice, proto.OpSetData, &proto.SetDataRequest{Path: "/x", Version: -1}))
		return h.apply(h.seal(&d[0])).Txn.Body.(*txn.SetData).Version
	}
	require.EqualValues(t, 1, set())
	_, _, err := h.m.tree.SetData(1, 0, &txn.SetData{Path: "/x", Version: math.MaxInt32}, nil)
	require.NoError(t, err)
	require.EqualValues(t, math.MinInt32, set())
}

func TestSequenceStandsStillAtTheEnd(t *testing.T) {
	h := newHistory(t, Config{})
	h.ask(proto.OpCreate, create("/x", 0))
	_, _, err := h.m.tree.Create(1, 0, &txn.Create{Path: "/x/y", ACL: proto.OpenACL(), ParentCversion: math.MaxInt32}, nil)
	require.NoError(t, err)
	seq := create("/x/n-", proto.FlagPersistentSequential)
	require.Equal(t, "/x/n-2147483647", h.ask(proto.OpCreate, seq).Txn.Body.(*txn.Create).Path)
	require.Equal(t, proto.ErrNodeExists, h.ask(proto.OpCreate, seq).Err)
}

func TestServersOwnRequests(t *testing.T) {
	h := newHistory(t, Config{ExtendedTypes: true})
	secret := txn.Request{Op: txn.OpSecret, Payload: []byte("secret")}
	drafts := h.pipeline(secret, secret)
	require.IsType(t, &txn.Error{}, body(t, drafts[1]), "one secret, also while it is outstanding")
	h.m.Abandon()
	require.Equal(t, proto.OK, h.do(secret).Err)
	require.Equal(t, "secret", string(h.m.Secret()))
	require.NotEqual(t, proto.OK, h.do(secret).Err)
	require.Equal(t, proto.OK, h.do(txn.Request{Op: txn.OpReadmit, Payload: txn.AppendReadmit(nil, 2, 7)}).Err)
	require.Equal(t, proto.ErrMarshalling, h.do(txn.Request{Op: txn.OpReadmit}).Err)
	require.Equal(t, proto.ErrMarshalling, h.do(txn.Request{Session: 5, Op: proto.OpCreateSession}).Err)
	require.Equal(t, proto.ErrSessionExpired,
		h.do(txn.Request{Session: txn.OwnerContainer, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, 1)}).Err)

}

func TestApplyRefusesBrokenInvariants(t *testing.T) {
	h := newHistory(t, Config{})
	last := h.prev
	_, err := h.m.Apply(&last)
	require.ErrorIs(t, err, ErrOrder)

	h.pipeline(request(alice, proto.OpCreate, create("/a", 0)))
	other := New(Config{})
	d := other.Prepare([]txn.Request{{Session: 5, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, 1)}}, 1)
	foreign := d[0].Seal(last.Zxid+1, last.Zxid, last.Chain)
	_, err = h.m.Apply(&foreign)
	require.ErrorIs(t, err, ErrDiverged)

	orphan := txn.NewDraft(&txn.Txn{Header: txn.Header{Op: proto.OpDelete}, Body: &txn.Delete{Path: "/none"}}, &txn.Request{})
	rec := orphan.Seal(last.Zxid+1, last.Zxid, last.Chain)
	_, err = New(Config{}).Apply(&rec)
	require.ErrorIs(t, err, datatree.ErrUnfit)
}

func TestMayRead(t *testing.T) {
	read := acl(proto.PermRead, "digest", "bob:x")
	m := New(Config{})
	require.False(t, m.MayRead(read, anyone))
	require.True(t, m.MayRead(read, []proto.ID{{Scheme: "digest", ID: "bob:x"}}))
	require.True(t, New(Config{SkipACL: true}).MayRead(read, nil))
}
