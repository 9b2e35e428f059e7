package statemachine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// auth entries multiply with what the connection has proven. The product is refused before it is made, alone and in a multi, and
// leaves nothing behind.
func TestACLThatMultiplies(t *testing.T) {
	var ids []proto.ID
	for i := range 200 {
		ids = append(ids, proto.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:0123456789abcdef0123456789abc=", i)})
	}
	var list []proto.ACL
	for i := range 5000 {
		list = append(list, proto.ACL{Perms: proto.Perm(i), ID: proto.ID{Scheme: "auth"}})
	}
	var ops []proto.MultiOp
	for i := range 5000 {
		ops = append(ops, proto.MultiOp{Op: proto.OpCreate, Request: &proto.CreateRequest{Path: fmt.Sprintf("/m%d", i), ACL: list[:1]}})
	}
	h := newHistory(t, Config{MaxTxnBytes: 2 << 20})
	multi := txn.Request{Session: alice, Op: proto.OpMulti, Payload: proto.AppendMulti(nil, ops), Auth: ids}
	for name, r := range map[string]txn.Request{
		"create": request(alice, proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: list}, ids...),
		"setACL": request(alice, proto.OpSetACL, &proto.SetACLRequest{Path: "/", ACL: list, Version: -1}, ids...),
		"multi":  multi,
	} {
		allocs := testing.AllocsPerRun(1, func() { require.Equal(t, txn.RefusedTooLarge, h.pipeline(r)[0].Refused, name) })
		require.Less(t, allocs, 200_000.0, name)
		require.Empty(t, h.m.pending.changes, name)
	}
	require.Equal(t, proto.OK, h.do(request(alice, proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: list[:10]}, ids...)).Err)
}

// A multiRead cannot ask for more than clients can take: what is too much is not read.
func TestMultiReadIsBounded(t *testing.T) {
	h := newHistory(t, Config{})
	q := create("/big", 0)
	q.Data = make([]byte, 1<<20)
	require.Equal(t, proto.OK, h.do(request(alice, proto.OpCreate, q)).Err)
	var ops []proto.MultiOp
	for range 1000 {
		ops = append(ops, proto.MultiOp{Op: proto.OpGetData, Request: &proto.PathWatchRequest{Path: "/big"}})
	}
	out, _, code := h.m.Read(proto.OpMultiRead, proto.AppendMulti(nil, ops), anyone, nil, nil)
	require.Equal(t, proto.OK, code)
	require.Less(t, len(out), maxMultiRead+2<<20)
	results, err := proto.DecodeMultiResults(proto.NewReader(out))
	require.NoError(t, err)
	require.Len(t, results, len(ops))
	require.Equal(t, proto.OK, results[16].Err)
	require.Equal(t, proto.ErrThrottledOp, results[17].Err)
	require.Equal(t, proto.ErrThrottledOp, results[999].Err)
}
