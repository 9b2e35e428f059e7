package proto

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func createOp(op Op, flags CreateFlags) MultiOp {
	return MultiOp{Op: op, Request: &CreateRequest{Path: "/a", Data: []byte("x"), ACL: OpenACL(), Flags: flags}}
}

var everyWrite = []MultiOp{
	createOp(OpCreate, FlagEphemeral),
	createOp(OpCreate2, FlagPersistent),
	createOp(OpCreateContainer, FlagPersistent),
	{Op: OpCreateTTL, Request: &CreateTTLRequest{Path: "/t", ACL: OpenACL(), Flags: FlagPersistentTTL, TTL: 5}},
	{Op: OpDelete, Request: &DeleteRequest{Path: "/d", Version: 3}},
	{Op: OpSetData, Request: &SetDataRequest{Path: "/s", Data: []byte{}, Version: -1}},
	{Op: OpCheck, Request: &CheckVersionRequest{Path: "/c", Version: 4}},
}

var everyRead = []MultiOp{
	{Op: OpGetData, Request: &PathWatchRequest{Path: "/g"}},
	{Op: OpGetChildren, Request: &PathWatchRequest{PathNull: true, Watch: true}},
}

func TestMultiRoundTrip(t *testing.T) {
	for _, ops := range [][]MultiOp{nil, everyWrite, everyRead} {
		r := NewReader(AppendMulti(nil, ops))
		got, err := DecodeMulti(r)
		require.NoError(t, err)
		require.Equal(t, ops, got)
		require.Zero(t, r.Len())
	}
}

func TestMultiKinds(t *testing.T) {
	mixed := []MultiOp{everyWrite[0], everyRead[0]}
	require.True(t, MultiFits(OpMulti, everyWrite))
	require.False(t, MultiFits(OpMultiRead, everyWrite))
	require.True(t, MultiFits(OpMultiRead, everyRead))
	require.False(t, MultiFits(OpMulti, everyRead))
	require.False(t, MultiFits(OpMulti, mixed))
	require.False(t, MultiFits(OpMultiRead, mixed))
	require.True(t, MultiFits(OpMulti, nil))
	require.True(t, MultiFits(OpMultiRead, nil))
}

func TestContainerFlagSettlesTheKind(t *testing.T) {
	for _, op := range []Op{OpCreate, OpCreate2, OpCreateContainer} {
		got, err := DecodeMulti(NewReader(AppendMulti(nil, []MultiOp{createOp(op, FlagContainer)})))
		require.NoError(t, err)
		require.Equal(t, []MultiOp{createOp(OpCreateContainer, FlagContainer)}, got)
	}
}

func TestMultiIsRefusedAsAWhole(t *testing.T) {
	whole := AppendMulti(nil, everyWrite[:1])
	nested := MultiHeader{Type: OpMulti, Err: -1}
	tests := map[string][]byte{
		"no trailer":       whole[:len(whole)-9],
		"half a trailer":   whole[:len(whole)-1],
		"nothing at all":   nil,
		"op not allowed":   AppendMulti(nil, []MultiOp{{Op: OpExists, Request: &PathWatchRequest{Path: "/"}}}),
		"setACL":           AppendMulti(nil, []MultiOp{{Op: OpSetACL, Request: &SetACLRequest{Path: "/"}}}),
		"multi in a multi": multiEnd.Append(nested.Append(nil)),
		"error op":         multiEnd.Append((&MultiHeader{Type: OpError}).Append(nil)),
		"flags 7":          AppendMulti(nil, []MultiOp{createOp(OpCreate, 7)}),
		"flags -1":         AppendMulti(nil, []MultiOp{createOp(OpCreate2, -1)}),
		"create null":      AppendMulti(nil, []MultiOp{{Op: OpCreate, Request: &CreateRequest{PathNull: true, ACL: OpenACL()}}}),
		"createTTL null":   AppendMulti(nil, []MultiOp{{Op: OpCreateTTL, Request: &CreateTTLRequest{PathNull: true, Flags: 5}}}),
		"delete null":      AppendMulti(nil, []MultiOp{{Op: OpDelete, Request: &DeleteRequest{PathNull: true}}}),
		"setData null":     AppendMulti(nil, []MultiOp{{Op: OpSetData, Request: &SetDataRequest{PathNull: true}}}),
		"check null":       AppendMulti(nil, []MultiOp{{Op: OpCheck, Request: &CheckVersionRequest{PathNull: true}}}),
		"mixed":            AppendMulti(nil, []MultiOp{createOp(OpCreate, 0), {Op: OpGetData, Request: &PathWatchRequest{Path: "/"}}}),
		"create2 flags 5":  AppendMulti(nil, []MultiOp{createOp(OpCreate2, 5)}),
		"null list":        AppendMulti(nil, []MultiOp{{Op: OpCreate, Request: &CreateRequest{Path: "/"}}}),
	}
	for name, body := range tests {
		ops, err := DecodeMulti(NewReader(body))
		require.ErrorIs(t, err, ErrMarshalling, name)
		require.Nil(t, ops, name)
	}
}

// The parser looks at the type while done is false, at done for the end, and at nothing else.
func TestMultiHeaderFieldsThatAreIgnored(t *testing.T) {
	body := (&MultiHeader{Type: OpDelete, Err: 77}).Append(nil)
	body = (&DeleteRequest{Path: "/d"}).Append(body)
	body = (&MultiHeader{Type: OpCreate, Done: true, Err: 5}).Append(body)
	ops, err := DecodeMulti(NewReader(body))
	require.NoError(t, err)
	require.Equal(t, []MultiOp{{Op: OpDelete, Request: &DeleteRequest{Path: "/d"}}}, ops)
}

func TestMultiResultsRoundTrip(t *testing.T) {
	stat := Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7, EphemeralOwner: 8,
		DataLength: 9, NumChildren: 10, Pzxid: 11}
	results := []MultiResult{
		{Op: OpCreate, Path: "/a0000000001"},
		{Op: OpCreate2, Path: "/b", Stat: stat},
		{Op: OpDelete},
		{Op: OpSetData, Stat: stat},
		{Op: OpCheck},
		{Op: OpGetData, Data: []byte("v"), Stat: stat},
		{Op: OpGetData, Stat: stat},
		{Op: OpGetChildren, Children: []string{"x", "y"}},
		{Op: OpGetChildren, Children: []string{}},
		{Op: OpError, Err: OK},
		{Op: OpError, Err: ErrRuntimeInconsistency},
	}
	for _, want := range [][]MultiResult{nil, results} {
		r := NewReader(AppendMultiResults(nil, want))
		got, err := DecodeMultiResults(r)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Zero(t, r.Len())
	}
}

func TestMultiResultsAsTheyAreWritten(t *testing.T) {
	got, err := DecodeMultiResults(NewReader(AppendMultiResults(nil, []MultiResult{
		{Op: OpCreateContainer, Path: "/c"},
		{Op: OpCreateTTL, Path: "/t"},
		{Op: OpSetData, Err: ErrNoNode},
	})))
	require.NoError(t, err)
	require.Equal(t, []MultiResult{
		{Op: OpCreate2, Path: "/c"},
		{Op: OpCreate2, Path: "/t"},
		{Op: OpError, Err: ErrNoNode},
	}, got)
	require.Panics(t, func() { AppendMultiResults(nil, []MultiResult{{Op: OpPing}}) })

	bad := multiEnd.Append((&MultiHeader{Type: OpPing}).Append(nil))
	_, err = DecodeMultiResults(NewReader(bad))
	require.ErrorIs(t, err, ErrMarshalling)
}
