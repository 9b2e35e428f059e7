package txn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

var acl = []proto.ACL{{Perms: proto.PermAll, ID: proto.ID{Scheme: "world", ID: "anyone"}}}

func bodies() []Body {
	return []Body{
		&Error{Code: proto.ErrNoNode},
		&Create{Path: "/a", Data: []byte("x"), ACL: acl, Owner: 77, ParentCversion: 3},
		&Create{Path: "/null", ACL: acl, Owner: OwnerContainer},
		&Create{Path: "/empty", Data: []byte{}, ACL: acl, Owner: SessionID(OwnerTTLMask | 5)},
		&Delete{Path: "/a"},
		&SetData{Path: "/a", Data: []byte{}, Version: -1},
		&SetACL{Path: "/a", ACL: acl, Aversion: 4},
		&Check{Path: "/a", Version: 9},
		&Multi{Ops: []MultiOp{}},
		&Multi{Ops: []MultiOp{
			{Op: proto.OpCreate2, Body: &Create{Path: "/b", ACL: acl, ParentCversion: 1}},
			{Op: proto.OpCheck, Body: &Check{Path: "/b", Version: 1}},
			{Op: proto.OpDelete, Body: &Delete{Path: "/b"}},
			{Op: proto.OpSetData, Body: &SetData{Path: "/b", Version: 1}},
		}},
		&Multi{Ops: []MultiOp{{Op: proto.OpDelete, Body: &Error{}}, {Op: proto.OpDelete, Body: &Error{Code: proto.ErrNotEmpty}}}},
		&CreateSession{TimeoutMillis: 4000},
		&CloseSession{},
		&Secret{Secret: []byte("0123456789abcdef")},
		&Readmit{Server: 3, RecoveryID: 1<<63 + 1},
		&DeleteContainer{Path: "/c", Gone: true},
	}
}

func sealed(t testing.TB, b Body, prev Record) Record {
	t.Helper()
	d := NewDraft(&Txn{Header: Header{Session: -5, Cxid: 7, Origin: 2, Conn: 1 << 40, Time: 1700000000000, Op: proto.OpCreate}, Body: b}, &Request{})
	zxid := prev.Zxid + 1
	if prev.Zxid == 0 {
		zxid = MakeZxid(1, 1)
	}
	return d.Seal(zxid, prev.Zxid, prev.Chain)
}

func TestEveryBodySurvivesItsBytes(t *testing.T) {
	var prev Record
	for _, b := range bodies() {
		rec := sealed(t, b, prev)
		got, rest, err := ParseRecord(append(append([]byte{}, rec.Bytes...), "rest"...))
		require.NoError(t, err)
		require.Equal(t, "rest", string(rest))
		require.True(t, got.Links(prev.Zxid, prev.Chain))
		require.False(t, got.Links(prev.Zxid, prev.Chain+1))
		back, err := got.Txn()
		require.NoError(t, err)
		require.Equal(t, rec.txn, back)
		require.Equal(t, rec.Bytes[RecordOverhead:], appendPayload(nil, back), "the encoding is canonical")
		prev = rec
	}
}

func TestNoFlippedBitPassesForARecord(t *testing.T) {
	rec := sealed(t, &SetData{Path: "/a", Data: []byte("hello"), Version: 1}, Record{})
	for i := range rec.Bytes {
		for bit := range 8 {
			b := append([]byte{}, rec.Bytes...)
			b[i] ^= 1 << bit
			_, _, err := ParseRecord(b)
			require.Error(t, err, "byte %d bit %d", i, bit)
		}
	}
}

func TestZxidOrder(t *testing.T) {
	z := MakeZxid
	for _, c := range []struct {
		z, prev Zxid
		want    bool
	}{
		{z(1, 1), 0, true}, {z(1, 2), z(1, 1), true}, {z(1, 3), z(1, 1), false}, {z(2, 1), z(1, 9), true},
		{z(2, 2), z(1, 9), false}, {z(1, 1), z(1, 1), false}, {z(1, 1), z(2, 1), false}, {z(0, 1), 0, false}, {z(1, 0), 0, false},
	} {
		require.Equal(t, c.want, c.z.Follows(c.prev), "%v after %v", c.z, c.prev)
	}
	require.Equal(t, "4:17", z(4, 17).String())
	back, err := ParseZxid("4:17")
	require.NoError(t, err)
	require.Equal(t, z(4, 17), back)
}

func FuzzParseRecord(f *testing.F) {
	for _, b := range bodies() {
		rec := sealed(f, b, Record{})
		f.Add(rec.Bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, rest, err := ParseRecord(b)
		if err != nil {
			return
		}
		require.Equal(t, len(b), len(rec.Bytes)+len(rest))
		_, _ = rec.Txn()
	})
}

// FuzzDecodePayload skips the checksum that would shield the decoder from the fuzzer.
func FuzzDecodePayload(f *testing.F) {
	for _, b := range bodies() {
		rec := sealed(f, b, Record{})
		f.Add(rec.Payload())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodePayload(b, nil)
		if err != nil {
			return
		}
		again, err := decodePayload(appendPayload(nil, got), nil)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
