package statemachine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

func fullMachine(tb testing.TB) *history {
	h := scene(tb, Config{})
	h.do(txn.Request{Op: txn.OpSecret, Payload: []byte("secret")})
	for id := range txn.SessionID(5000) {
		h.do(txn.Request{Session: alice + 2 + id, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, int32(id+1))})
	}
	return h
}

func TestSnapshotAndRestore(t *testing.T) {
	h := fullMachine(t)
	b := snapshotBytes(t, h.m)
	m := New(Config{})
	m.Prepare([]txn.Request{{Session: 5, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, 1)}}, 1)
	r := bytes.NewReader(append(bytes.Clone(b), "rest"...))
	require.NoError(t, m.Restore(iotest.OneByteReader(r)))
	require.Equal(t, len("rest"), r.Len(), "it reads to its end and no further")
	require.Equal(t, h.m.LastZxid(), m.LastZxid())
	require.Equal(t, h.m.Digest(), m.Digest())
	require.Equal(t, h.m.Secret(), m.Secret())
	require.Equal(t, h.m.SessionCount(), m.SessionCount())
	require.Equal(t, []string{"/v/e"}, m.Ephemerals(alice))
	require.Equal(t, b, snapshotBytes(t, m))
	timeout, ok := m.SessionTimeout(alice + 2 + 4999)
	require.True(t, ok)
	require.EqualValues(t, 5000, timeout)
	var ids []txn.SessionID
	m.Sessions(func(id txn.SessionID, _ int32) bool { ids = append(ids, id); return len(ids) < 2 })
	require.Equal(t, []txn.SessionID{alice, bob}, ids)

	h2 := &history{tb: t, m: m, prev: h.prev}
	for _, h := range []*history{h, h2} { // and both go on alike
		h.cxid = 0
		h.ask(proto.OpCreate, create("/v/n-", proto.FlagEphemeralSequential))
		h.do(closing(alice))
	}
	require.Equal(t, h.m.Digest(), m.Digest())
	require.Equal(t, snapshotBytes(t, h.m), snapshotBytes(t, m))
}

func TestSnapshotStaysWhatItWas(t *testing.T) {
	h := fullMachine(t)
	want, snap := snapshotBytes(t, h.m), h.m.Snapshot()
	require.Equal(t, h.m.LastZxid(), snap.Zxid())
	require.Equal(t, h.m.Digest(), snap.Digest())
	h.ask(proto.OpSetData, &proto.SetDataRequest{Path: "/v", Version: -1})
	h.do(closing(alice))
	var got bytes.Buffer
	_, err := snap.WriteTo(&got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got.Bytes()))
}

type failAfter struct{ left int }

func (w *failAfter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errors.ErrUnsupported
	}
	return len(b), nil
}

func TestSnapshotReportsTheWritersError(t *testing.T) {
	m := fullMachine(t).m
	size := len(snapshotBytes(t, m))
	for _, left := range []int{0, 10, 200, size / 2, size - 1} {
		n, err := m.Snapshot().WriteTo(&failAfter{left})
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.LessOrEqual(t, n, int64(left))
	}
}

func TestRestoreRefusesDamage(t *testing.T) {
	h := scene(t, Config{})
	good := snapshotBytes(t, h.m)
	m := New(Config{})
	before := snapshotBytes(t, m)
	restore := func(b []byte) error { return m.Restore(bytes.NewReader(b)) }
	for n := range good {
		require.ErrorIs(t, restore(good[:n]), ErrSnapshot, "cut at %d", n)
	}
	require.ErrorIs(t, m.Restore(iotest.ErrReader(errors.ErrUnsupported)), errors.ErrUnsupported)
	withHead := func(change func(h *head)) []byte {
		p := partReader{r: bytes.NewReader(good)}
		hd, err := p.head()
		require.NoError(t, err)
		change(&hd)
		b := msgpack.Append(nil, &hd)
		rest := good[4+binary.BigEndian.Uint32(good):]
		return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...), rest...)
	}
	require.ErrorIs(t, restore(withHead(func(h *head) { h.Digest++ })), ErrDigest)
	require.ErrorIs(t, restore(withHead(func(h *head) { h.Version++ })), ErrVersion)
	require.ErrorIs(t, restore(withHead(func(h *head) { h.Nodes++ })), ErrSnapshot)
	require.ErrorIs(t, restore(withHead(func(h *head) { h.Sessions++ })), ErrSnapshot)
	require.ErrorIs(t, restore(withHead(func(h *head) { h.Sessions-- })), ErrSnapshot)
	changed := bytes.Clone(good) // one byte of /v's data
	changed[bytes.LastIndex(changed, []byte("/vx"))+2] = 'y'
	require.ErrorIs(t, restore(changed), ErrDigest)
	require.Equal(t, before, snapshotBytes(t, m), "a failed Restore changes nothing")
	require.NoError(t, restore(good))
	require.ErrorIs(t, restore(nil), ErrSnapshot)
	require.False(t, errors.Is(ErrSnapshot, datatree.ErrEncoding))
}

// Four bytes that announce 4 GiB must not cost more memory than what follows.
func TestRestoreAllocatesInProportion(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.ErrorIs(t, New(Config{}).Restore(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})), ErrSnapshot)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
}

func FuzzRestore(f *testing.F) {
	f.Add(snapshotBytes(f, New(Config{})))
	f.Add(snapshotBytes(f, scene(f, Config{}).m))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := New(Config{})
		if m.Restore(bytes.NewReader(b)) != nil {
			return
		}
		again := New(Config{})
		require.NoError(t, again.Restore(bytes.NewReader(snapshotBytes(t, m))))
		require.Equal(t, m.Digest(), again.Digest())
	})
}

// Whatever a client sends: Prepare answers with a transaction that Apply takes, and the reply can be written.
func FuzzPrepare(f *testing.F) {
	f.Add(int32(proto.OpCreate), create("/v/a-", proto.FlagEphemeralSequential).Append(nil))
	f.Add(int32(proto.OpSetData), (&proto.SetDataRequest{Path: "/v"}).Append(nil))
	f.Add(int32(proto.OpDelete), (&proto.DeleteRequest{Path: "/v/e"}).Append(nil))
	f.Add(int32(proto.OpSetACL), (&proto.SetACLRequest{Path: "/v", ACL: acl(1, "ip", "1.2.3.4/8")}).Append(nil))
	f.Add(int32(proto.OpMulti), proto.AppendMulti(nil, []proto.MultiOp{
		{Op: proto.OpDelete, Request: &proto.DeleteRequest{Path: "/v/e", Version: -1}},
		{Op: proto.OpCreateTTL, Request: &proto.CreateTTLRequest{Path: "/v/t", ACL: proto.OpenACL(), Flags: 5, TTL: 9}}}))
	f.Add(int32(proto.OpGetData), (&proto.PathWatchRequest{Path: "/v"}).Append(nil))
	f.Add(int32(proto.OpMultiRead), proto.AppendMulti(nil, nil))
	f.Fuzz(prepareAlone)
}

// TestEveryOpAloneIsRefusedOrAppliesEverywhere sends every op code with every kind of body, whole and cut short, also those that belong
// into a multi only, and those that no client may send (K57, K65).
func TestEveryOpAloneIsRefusedOrAppliesEverywhere(t *testing.T) {
	bodies := [][]byte{nil, {}, {0xff, 0xff, 0xff, 0xff},
		create("/v/a", proto.FlagEphemeral).Append(nil), create("/zookeeper/config", 0).Append(nil), create("v", 0).Append(nil),
		(&proto.CreateTTLRequest{Path: "/v/t", ACL: proto.OpenACL(), Flags: 5, TTL: 9}).Append(nil),
		(&proto.SetDataRequest{Path: "/v", Version: -1}).Append(nil), (&proto.DeleteRequest{Path: "/v/e", Version: -1}).Append(nil),
		(&proto.CheckVersionRequest{Path: "/v", Version: -1}).Append(nil), (&proto.PathWatchRequest{Path: "/v"}).Append(nil),
		(&proto.SetACLRequest{Path: "/v", ACL: proto.OpenACL(), Version: -1}).Append(nil), (&proto.ReconfigRequest{}).Append(nil),
		proto.AppendMulti(nil, []proto.MultiOp{{Op: proto.OpCheck, Request: &proto.CheckVersionRequest{Path: "/v", Version: -1}}}),
		txn.AppendTimeout(nil, 4000)}
	for op := int32(-12); op < 120; op++ {
		for _, b := range bodies {
			prepareAlone(t, op, b)
			prepareAlone(t, op, b[:len(b)/2])
		}
	}
}

// prepareAlone has a request prepared, and what comes of it applied here and on a follower that has it from its bytes.
func prepareAlone(t *testing.T, op int32, payload []byte) {
	h := scene(t, Config{ExtendedTypes: true})
	r := txn.Request{Session: alice, Op: proto.Op(op), Payload: payload, Auth: anyone}
	drafts := h.pipeline(r, r, request(alice, proto.OpCreate, create("/v/last", 0)))
	follower := New(Config{})
	require.NoError(t, follower.Restore(bytes.NewReader(snapshotBytes(t, h.m))))
	for i := range drafts {
		if drafts[i].Refused != txn.NotRefused {
			continue // it gets no zxid
		}
		rec := h.seal(&drafts[i])
		res := h.apply(rec)
		res.AppendReply(nil)
		parsed, _, err := txn.ParseRecord(rec.Bytes)
		require.NoError(t, err)
		_, err = follower.Apply(&parsed)
		require.NoError(t, err)
	}
	require.Equal(t, h.m.Digest(), follower.Digest())
	out, _, code := h.m.Read(proto.Op(op), payload, anyone, nil, nil)
	// Only a multiRead has a body beside an error: the results so far.
	require.True(t, code == proto.OK || len(out) == 0 || proto.Op(op) == proto.OpMultiRead)
}

// Run with -race: a snapshot is written while transactions are applied, and reads go on beside Prepare and Snapshot.
func TestSnapshotIsWrittenWhileTheMachineGoesOn(t *testing.T) {
	h := fullMachine(t)
	want, snap := snapshotBytes(t, h.m), h.m.Snapshot()
	var got bytes.Buffer
	written := make(chan error)
	go func() {
		_, err := snap.WriteTo(&got)
		written <- err
	}()
	for range 500 {
		h.ask(proto.OpCreate, create("/v/n-", proto.FlagEphemeralSequential))
		h.ask(proto.OpSetACL, &proto.SetACLRequest{Path: "/v", ACL: proto.OpenACL(), Version: -1})
		h.do(txn.Request{Session: h.m.sessions.IDs()[2], Op: proto.OpCloseSession})
	}
	require.NoError(t, <-written)
	require.True(t, bytes.Equal(want, got.Bytes()))

	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 2000 {
			h.m.Read(proto.OpGetChildren, (&proto.PathWatchRequest{Path: "/v"}).Append(nil), anyone, nil, nil)
			h.m.SessionTimeout(alice)
		}
	}()
	for range 200 {
		h.pipeline(request(alice, proto.OpCreate, create("/v/p-", proto.FlagEphemeralSequential)), closing(bob))
		h.m.Snapshot()
		h.m.Abandon()
	}
	<-read
}

// A closed session's id does not come again, though the clock of its server is put back and the log before the snapshot is gone.
func TestASnapshotKeepsTheLargestSessionIDOfEachServer(t *testing.T) {
	h := scene(t, Config{})
	mine, other := txn.SessionID(0x07_0000000000aa01), txn.SessionID(-0x7F_0000000000aa01)
	for _, id := range []txn.SessionID{mine, mine - 1, other} {
		h.do(txn.Request{Session: id, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, 4000)})
	}
	h.do(closing(mine))
	before := h.m.Snapshot()
	h.do(txn.Request{Session: mine + 9, Op: proto.OpCreateSession, Payload: txn.AppendTimeout(nil, 4000)})
	var b bytes.Buffer
	_, err := before.WriteTo(&b)
	require.NoError(t, err)
	m := New(Config{})
	require.NoError(t, m.Restore(&b))
	require.Equal(t, mine, m.HighestSession(7))
	require.Equal(t, other, m.HighestSession(txn.ServerID(uint64(other)>>56)))
	require.Zero(t, m.HighestSession(9))
	require.Equal(t, mine+9, h.m.HighestSession(7))
}
