package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// The rows of the table of tricky cases, by number. Each case starts on a fresh tree with
//
//	/v open · /v/e an ephemeral of the caller · /v/ro world:anyone READ · /v/kid with /v/kid/x below · /v/none locks everybody out
//
// and a caller who is bob by digest only where the case says so.

func acl(perms proto.Perm, scheme, id string) []proto.ACL {
	return []proto.ACL{{Perms: perms, ID: proto.ID{Scheme: scheme, ID: id}}}
}

func scene(tb testing.TB, cfg Config) *history {
	h := newHistory(tb, cfg)
	for _, q := range []*proto.CreateRequest{
		create("/v", 0), create("/v/e", proto.FlagEphemeral), create("/v/kid", 0), create("/v/kid/x", 0),
		{Path: "/v/ro", ACL: acl(proto.PermRead, "world", "anyone")},
		{Path: "/v/none", ACL: acl(0, "world", "anyone")},
	} {
		require.Equal(tb, proto.OK, h.ask(proto.OpCreate, q).Err)
	}
	return h
}

func (h *history) read(op proto.Op, q proto.Record, ids ...proto.ID) ([]byte, WatchIntent, proto.ErrCode) {
	return h.m.Read(op, q.Append(nil), append(anyone[:1:1], ids...), nil, nil)
}

func TestCreateRows(t *testing.T) {
	ttl := func(flags proto.CreateFlags, ttl int64) *proto.CreateTTLRequest {
		return &proto.CreateTTLRequest{Path: "/v/t", ACL: proto.OpenACL(), Flags: flags, TTL: ttl}
	}
	withACL := func(path string, acl []proto.ACL) *proto.CreateRequest {
		return &proto.CreateRequest{Path: path, ACL: acl}
	}
	open := proto.OpenACL()
	for _, c := range []struct {
		row  int
		op   proto.Op
		q    proto.Record
		ext  bool
		want proto.ErrCode
		path string // created
	}{
		{row: 21, op: proto.OpCreate, q: create("/", 0), want: proto.ErrNodeExists},
		{row: 22, op: proto.OpCreate, q: create("v", 0), want: proto.ErrBadArguments},
		{row: 23, op: proto.OpCreate, q: &proto.CreateRequest{PathNull: true, ACL: open}, want: proto.ErrMarshalling},
		{row: 24, op: proto.OpCreate, q: create("/v/", 0), want: proto.ErrBadArguments},
		{row: 25, op: proto.OpCreate, q: create("/v//a", 0), want: proto.ErrNoNode},
		{row: 26, op: proto.OpCreate, q: create("/v/./a", 0), want: proto.ErrNoNode},
		{row: 27, op: proto.OpCreate, q: create("/v/..", 0), want: proto.ErrBadArguments},
		{row: 28, op: proto.OpCreate, q: create("/v/...", 0), path: "/v/..."},
		{row: 29, op: proto.OpCreate, q: create("/v/", proto.FlagPersistentSequential), path: "/v/0000000004"},
		{row: 32, op: proto.OpCreate, q: create("/v/x", 7), want: proto.ErrBadArguments},
		{row: 33, op: proto.OpCreate, q: create("/v/x", proto.FlagContainer), path: "/v/x"},
		{row: 34, op: proto.OpCreateTTL, q: &proto.CreateTTLRequest{PathNull: true, Flags: 5, TTL: -7}, want: proto.ErrUnimplemented},
		{row: 34, op: proto.OpCreate, q: create("/v/t", 5), want: proto.ErrUnimplemented},
		{row: 35, op: proto.OpCreateTTL, q: ttl(5, 0), ext: true, want: proto.ErrBadArguments},
		{row: 35, op: proto.OpCreateTTL, q: ttl(5, 1<<40), ext: true, want: proto.ErrBadArguments},
		{row: 35, op: proto.OpCreateTTL, q: ttl(5, 1<<40-1), ext: true, path: "/v/t"},
		{row: 35, op: proto.OpCreateTTL, q: ttl(6, 1), ext: true, path: "/v/t0000000004"},
		{row: 36, op: proto.OpCreateTTL, q: ttl(0, 1000), ext: true, want: proto.ErrBadArguments},
		{row: 36, op: proto.OpCreateTTL, q: ttl(0, -1), ext: true, want: proto.ErrBadArguments},
		{row: 36, op: proto.OpCreate2, q: create("/v/t", 5), ext: true, want: proto.ErrBadArguments},
		{row: 37, op: proto.OpCreate, q: create("/v/e/x", 0), want: proto.ErrNoChildrenForEphemerals},
		{row: 38, op: proto.OpCreate, q: withACL("/v/e/x", nil), want: proto.ErrInvalidACL},
		{row: 39, op: proto.OpCreate, q: create("/v/e/.", 0), want: proto.ErrBadArguments},
		{row: 40, op: proto.OpCreate, q: create("/v/ro/x", 0), want: proto.ErrNoAuth},
		{row: 41, op: proto.OpCreate, q: withACL("/v/x", acl(31, "auth", "")), want: proto.ErrInvalidACL},
		{row: 43, op: proto.OpCreate, q: withACL("/v/x", []proto.ACL{{Perms: 1, ID: proto.ID{Scheme: "world", IDNull: true}}}),
			want: proto.ErrMarshalling},
		{row: 47, op: proto.OpCreate, q: create("/v/\x01", 0), want: proto.ErrBadArguments},
		{row: 47, op: proto.OpCreate, q: create("/v/\x7f", 0), want: proto.ErrBadArguments},
		{row: 47, op: proto.OpCreate, q: create("/v/\x00", 0), want: proto.ErrBadArguments},
		{row: 47, op: proto.OpCreate, q: create("/v/😀", 0), want: proto.ErrBadArguments},
		// Two lines of the precedence list against each other.
		{op: proto.OpCreate, q: &proto.CreateRequest{Path: "v", ACL: open, Flags: 7}, want: proto.ErrBadArguments},
		{op: proto.OpCreate, q: withACL("/v/no/x", nil), want: proto.ErrInvalidACL},
		{op: proto.OpCreate, q: create("/v/no/..", 0), want: proto.ErrNoNode},
		{op: proto.OpCreate, q: create("/v/ro/..", 0), want: proto.ErrNoAuth},
		{op: proto.OpCreate, q: create("/v/e", 0), want: proto.ErrNodeExists},
		{op: proto.OpCreateContainer, q: create("/v/c", proto.FlagEphemeralSequential), path: "/v/c0000000004"},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "nobody", "x")), want: proto.ErrInvalidACL},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "world", "someone")), want: proto.ErrInvalidACL},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "super", "")), want: proto.ErrInvalidACL},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "ip", "10.0.0.0/8")), path: "/v/x"},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "digest", "a:b")), path: "/v/x"},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "digest", ":x")), path: "/v/x"},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "digest", "a:b::")), path: "/v/x"},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "digest", "a")), want: proto.ErrInvalidACL},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "digest", "a:")), want: proto.ErrInvalidACL},
		{op: proto.OpCreate, q: withACL("/v/x", acl(1, "digest", "a:b:c")), want: proto.ErrInvalidACL},
	} {
		h := scene(t, Config{ExtendedTypes: c.ext})
		before := h.m.LastZxid()
		digest := h.m.Digest()
		res := h.ask(c.op, c.q)
		require.Equal(t, c.want, res.HeaderErr(), "row %d: %+v", c.row, c.q)
		require.Equal(t, before+1, h.m.LastZxid(), "row 45: a zxid is used up")
		if c.want != proto.OK {
			require.Empty(t, res.AppendReply(nil))
			require.Empty(t, res.Events)
			require.Equal(t, digest, h.m.Digest())
			continue
		}
		require.Equal(t, c.path, proto.NewReader(res.AppendReply(nil)).String(), "row %d", c.row)
		stat, ok := h.m.Stat(c.path)
		require.True(t, ok)
		require.Zero(t, stat.EphemeralOwner, "row %d", c.row) // row 44 and the flags of a container
	}
}

func TestRow30And31SequenceNumbers(t *testing.T) {
	h := newHistory(t, Config{})
	h.ask(proto.OpCreate, create("/s", 0))
	name := func(flags proto.CreateFlags) string {
		res := h.ask(proto.OpCreate, create("/s/n-", flags))
		return res.Txn.Body.(*txn.Create).Path
	}
	require.Equal(t, "/s/n-0000000000", name(proto.FlagPersistentSequential))
	h.ask(proto.OpCreate, create("/s/plain", 0))
	require.Equal(t, "/s/n-0000000002", name(proto.FlagPersistentSequential), "row 30")
	h.ask(proto.OpDelete, &proto.DeleteRequest{Path: "/s/plain", Version: -1})
	require.Equal(t, "/s/n-0000000003", name(proto.FlagEphemeralSequential), "row 31")
	require.Equal(t, proto.ErrNodeExists, h.ask(proto.OpCreate, create("/s/n-0000000003", 0)).Err)
	require.Equal(t, "/s/n-0000000004", name(proto.FlagPersistentSequential), "a failed create uses none")
}

func TestRow42DuplicatesAreStoredOnce(t *testing.T) {
	h := newHistory(t, Config{})
	a, b := acl(1, "world", "anyone")[0], acl(3, "world", "anyone")[0]
	h.ask(proto.OpCreate, &proto.CreateRequest{Path: "/x", ACL: []proto.ACL{b, a, b, a}})
	require.Equal(t, []proto.ACL{b, a}, h.m.tree.Get("/x").ACL())
}

func TestRow46TruncatedBodies(t *testing.T) {
	h := scene(t, Config{})
	for _, op := range []proto.Op{proto.OpCreate, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL, proto.OpDelete, proto.OpSetData,
		proto.OpSetACL, proto.OpMulti, proto.OpReconfig} {
		if op != proto.OpMulti { // no zxid for these
			d := h.m.Prepare([]txn.Request{{Session: alice, Op: op, Payload: []byte{0, 0, 0}}}, 1000)
			require.Equal(t, txn.RefusedMalformed, d[0].Refused, "%v", op)
			continue
		}
		res := h.do(txn.Request{Session: alice, Op: op, Payload: []byte{0, 0, 0}})
		require.Equal(t, proto.ErrMarshalling, res.HeaderErr(), "%v", op)
		require.Empty(t, res.AppendReply(nil))
	}
	for _, op := range []proto.Op{proto.OpGetData, proto.OpExists, proto.OpGetACL, proto.OpGetChildren, proto.OpGetChildren2,
		proto.OpGetAllChildrenNumber, proto.OpMultiRead} {
		for _, payload := range [][]byte{{0, 0, 0}, {0xff, 0xff, 0xff, 0xff, 0}} { // the second is a null path
			_, w, code := h.m.Read(op, payload, anyone, nil, nil)
			require.Equal(t, proto.ErrMarshalling, code, "%v", op)
			require.Zero(t, w)
		}
	}
}

func TestReadRows(t *testing.T) {
	path := func(p string) *proto.PathWatchRequest { return &proto.PathWatchRequest{Path: p, Watch: true} }
	h := scene(t, Config{})
	for _, c := range []struct {
		row   int
		op    proto.Op
		path  string
		want  proto.ErrCode
		watch WatchIntent
	}{
		{48, proto.OpGetData, "v", proto.ErrNoNode, WatchIntent{}},
		{48, proto.OpGetData, "/v/", proto.ErrNoNode, WatchIntent{}},
		{49, proto.OpExists, "/v\x00", proto.ErrBadArguments, WatchIntent{}},
		{50, proto.OpExists, "", proto.OK, WatchIntent{WatchData, ""}},
		{51, proto.OpExists, "/v/none", proto.ErrNoAuth, WatchIntent{}},
		{52, proto.OpGetACL, "/v/none", proto.ErrNoAuth, WatchIntent{}},
		{77, proto.OpExists, "/v/no", proto.ErrNoNode, WatchIntent{WatchExist, "/v/no"}},
		{77, proto.OpExists, "/v/\xff", proto.ErrNoNode, WatchIntent{WatchExist, "/v/\ufffd"}},
		{78, proto.OpGetData, "/v/no", proto.ErrNoNode, WatchIntent{}},
		{78, proto.OpGetChildren, "/v/no", proto.ErrNoNode, WatchIntent{}},
		{0, proto.OpGetData, "/v/none", proto.ErrNoAuth, WatchIntent{}},
		{0, proto.OpGetChildren2, "/v/none", proto.ErrNoAuth, WatchIntent{}},
		{0, proto.OpGetData, "/v", proto.OK, WatchIntent{WatchData, "/v"}},
		{0, proto.OpGetChildren, "/v", proto.OK, WatchIntent{WatchChild, "/v"}},
		{0, proto.OpGetChildren2, "", proto.OK, WatchIntent{WatchChild, ""}},
		{0, proto.OpGetACL, "", proto.OK, WatchIntent{}},
		{0, proto.OpSync, "", proto.ErrUnimplemented, WatchIntent{}},
	} {
		out, w, code := h.read(c.op, path(c.path))
		require.Equal(t, c.want, code, "row %d: %v %q", c.row, c.op, c.path)
		require.Equal(t, c.watch, w, "row %d: %v %q", c.row, c.op, c.path)
		require.Equal(t, code == proto.OK, len(out) > 0)
		_, w, _ = h.read(c.op, &proto.PathWatchRequest{Path: c.path})
		require.Zero(t, w, "no watch was asked for")
	}
	_, _, code := h.read(proto.OpGetData, path("/v/none"), proto.ID{Scheme: "super"})
	require.Equal(t, proto.OK, code)
}

func TestReadReplies(t *testing.T) {
	h := scene(t, Config{})
	get := func(op proto.Op, q proto.Record, into proto.Record, ids ...proto.ID) {
		t.Helper()
		out, _, code := h.read(op, q, ids...)
		require.Equal(t, proto.OK, code)
		r := proto.NewReader(out)
		require.NoError(t, into.Decode(r))
		require.Zero(t, r.Len())
	}
	stat, _ := h.m.Stat("/v")
	var data proto.GetDataResponse
	get(proto.OpGetData, &proto.PathWatchRequest{Path: "/v"}, &data)
	require.Equal(t, proto.GetDataResponse{Data: []byte("x"), Stat: stat}, data)
	get(proto.OpGetData, &proto.PathWatchRequest{Path: "/v/ro"}, &data)
	require.Nil(t, data.Data, "null stays null")
	get(proto.OpGetData, &proto.PathWatchRequest{Path: "/zookeeper"}, &data)
	require.Equal(t, []byte{}, data.Data)
	var exists proto.ExistsResponse
	get(proto.OpExists, &proto.PathWatchRequest{Path: "/v"}, &exists)
	require.Equal(t, stat, exists.Stat)
	var kids proto.GetChildren2Response
	get(proto.OpGetChildren2, &proto.PathWatchRequest{Path: "/v"}, &kids)
	require.Equal(t, proto.GetChildren2Response{Children: []string{"e", "kid", "none", "ro"}, Stat: stat}, kids)
	var names proto.GetChildrenResponse
	get(proto.OpGetChildren, &proto.PathWatchRequest{Path: "/v/kid/x"}, &names)
	require.Equal(t, []string{}, names.Children)
	var number proto.GetAllChildrenNumberResponse
	get(proto.OpGetAllChildrenNumber, &proto.GetAllChildrenNumberRequest{Path: "/v"}, &number)
	require.EqualValues(t, 5, number.TotalNumber)
	get(proto.OpGetAllChildrenNumber, &proto.GetAllChildrenNumberRequest{Path: "/"}, &number)
	require.EqualValues(t, 9, number.TotalNumber)
	get(proto.OpGetAllChildrenNumber, &proto.GetAllChildrenNumberRequest{Path: ""}, &number)
	require.EqualValues(t, 10, number.TotalNumber)
	var who proto.WhoAmIResponse
	get(proto.OpWhoAmI, &proto.PathWatchRequest{}, &who, proto.ID{Scheme: "digest", ID: "bob:abc"}, proto.ID{Scheme: "super"})
	require.Equal(t, []proto.ClientInfo{{AuthScheme: "ip", User: "127.0.0.1"}, {AuthScheme: "digest", User: "bob"}, {AuthScheme: "super"}},
		who.ClientInfo) // row 91

	eph := func(prefix string, null bool) []string {
		q := proto.GetEphemeralsRequest{PrefixPath: prefix, PrefixPathNull: null}
		out, code := h.m.ReadEphemerals(alice, q.Append(nil), nil)
		require.Equal(t, proto.OK, code)
		var res proto.GetEphemeralsResponse
		require.NoError(t, res.Decode(proto.NewReader(out)))
		return res.Ephemerals
	}
	h.ask(proto.OpCreate, create("/eph", 1))
	require.Equal(t, []string{"/eph", "/v/e"}, eph("", true))
	require.Equal(t, []string{"/eph", "/v/e"}, eph(" / ", false))
	require.Equal(t, []string{"/eph"}, eph("/e", false))
	require.Equal(t, []string{}, eph("/e ", false))
}

func TestRow53MaskedACL(t *testing.T) {
	h := newHistory(t, Config{})
	bob := proto.ID{Scheme: "digest", ID: "bob:hash"}
	list := []proto.ACL{{Perms: proto.PermAdmin, ID: bob}, {Perms: proto.PermRead, ID: proto.AnyoneID}}
	h.ask(proto.OpCreate, &proto.CreateRequest{Path: "/x", ACL: list})
	var got proto.GetACLResponse
	out, _, _ := h.read(proto.OpGetACL, &proto.GetACLRequest{Path: "/x"}, bob)
	require.NoError(t, got.Decode(proto.NewReader(out)))
	require.Equal(t, list, got.ACL)
	out, _, _ = h.read(proto.OpGetACL, &proto.GetACLRequest{Path: "/x"})
	require.NoError(t, got.Decode(proto.NewReader(out)))
	require.Equal(t, "bob:x", got.ACL[0].ID.ID)
	require.Equal(t, "bob:hash", h.m.tree.Get("/x").ACL()[0].ID.ID)
}

func TestSetAndDeleteRows(t *testing.T) {
	set := func(path string, version int32) *proto.SetDataRequest {
		return &proto.SetDataRequest{Path: path, Version: version}
	}
	del := func(path string, version int32) *proto.DeleteRequest {
		return &proto.DeleteRequest{Path: path, Version: version}
	}
	setACL := func(path string, acl []proto.ACL, version int32) *proto.SetACLRequest {
		return &proto.SetACLRequest{Path: path, ACL: acl, Version: version}
	}
	open := proto.OpenACL()
	for _, c := range []struct {
		row  int
		op   proto.Op
		q    proto.Record
		want proto.ErrCode
	}{
		{54, proto.OpSetData, set("/v/ro", 9), proto.ErrNoAuth},
		{55, proto.OpSetData, set("", -1), proto.ErrBadArguments},
		{55, proto.OpSetData, set("v", -1), proto.ErrBadArguments},
		{55, proto.OpSetData, &proto.SetDataRequest{PathNull: true}, proto.ErrBadArguments},
		{57, proto.OpDelete, del("/v/kid", 9), proto.ErrBadVersion},
		{57, proto.OpDelete, del("/v/kid", 0), proto.ErrNotEmpty},
		{58, proto.OpDelete, del("/v/none", -1), proto.OK},
		{59, proto.OpDelete, del("/", 9), proto.ErrBadArguments},
		{60, proto.OpDelete, del("/zookeeper/config", -1), proto.ErrBadArguments},
		{61, proto.OpDelete, del("v", -1), proto.ErrBadArguments},
		{61, proto.OpDelete, del("", -1), proto.ErrBadArguments},
		{62, proto.OpSetACL, setACL("/v", open, 1), proto.ErrBadVersion},
		{62, proto.OpSetACL, setACL("/v", open, 0), proto.OK},
		{63, proto.OpSetACL, setACL("/v/no", nil, -1), proto.ErrInvalidACL},
		{66, proto.OpSetData, set("/zookeeper/config", -1), proto.ErrNoAuth},
		{67, proto.OpReconfig, &proto.ReconfigRequest{}, proto.ErrReconfigDisabled},
		{0, proto.OpDelete, &proto.DeleteRequest{PathNull: true}, proto.ErrMarshalling},
		{0, proto.OpDelete, del("//", -1), proto.ErrNoNode},
		{0, proto.OpDelete, del("/v/no/x", -1), proto.ErrNoNode},
		{0, proto.OpDelete, del("/v/ro/x", -1), proto.ErrNoAuth},
		{0, proto.OpDelete, del("/v\x00", -1), proto.ErrBadArguments},
		{0, proto.OpDelete, del("/v/e", -2), proto.ErrBadVersion},
		{0, proto.OpSetData, set("/v/no", -1), proto.ErrNoNode},
		{0, proto.OpSetData, set("/v", -2), proto.ErrBadVersion},
		{0, proto.OpSetACL, setACL("/v/", nil, -1), proto.ErrBadArguments},
		{0, proto.OpSetACL, setACL("/v/no", open, -1), proto.ErrNoNode},
		{0, proto.OpSetACL, setACL("/v/ro", open, 9), proto.ErrNoAuth},
		{0, proto.OpCheck, &proto.CheckVersionRequest{Path: "/v"}, proto.ErrUnimplemented},
		{0, proto.OpDeleteContainer, set("/v", 0), proto.ErrBadArguments},
	} {
		h := scene(t, Config{})
		require.Equal(t, c.want, h.ask(c.op, c.q).Err, "row %d: %v %+v", c.row, c.op, c.q)
	}
	h := scene(t, Config{SkipACL: true})
	require.Equal(t, proto.OK, h.ask(proto.OpSetData, set("/v/ro", 0)).Err)
}

func TestRow64SetACLChangesAversionOnly(t *testing.T) {
	h := scene(t, Config{})
	want, _ := h.m.Stat("/v")
	want.Aversion++
	res := h.ask(proto.OpSetACL, &proto.SetACLRequest{Path: "/v", ACL: proto.OpenACL(), Version: -1})
	require.Empty(t, res.Events)
	require.Equal(t, want.Append(nil), res.AppendReply(nil))
	got, _ := h.m.Stat("/v")
	require.Equal(t, want, got)
}

func TestMultiRows(t *testing.T) {
	type ops = []proto.MultiOp
	del := func(path string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpDelete, Request: &proto.DeleteRequest{Path: path, Version: -1}}
	}
	mk := func(op proto.Op, path string, flags proto.CreateFlags) proto.MultiOp {
		return proto.MultiOp{Op: op, Request: create(path, flags)}
	}
	check := func(path string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpCheck, Request: &proto.CheckVersionRequest{Path: path, Version: 0}}
	}
	read := proto.MultiOp{Op: proto.OpGetData, Request: &proto.PathWatchRequest{Path: "/v"}}
	const bad, rest = proto.ErrNoNode, proto.ErrRuntimeInconsistency
	for _, c := range []struct {
		row   int
		ops   ops
		err   proto.ErrCode
		codes []proto.ErrCode
		kinds []proto.Op
	}{
		{68, ops{mk(1, "/v/1", 0), del("/v/no"), del("/v/e")}, 0, []proto.ErrCode{0, bad, rest}, []proto.Op{-1, -1, -1}},
		{69, nil, 0, nil, nil},
		{70, ops{mk(1, "/v/1", 0), read}, proto.ErrMarshalling, nil, nil},
		{70, ops{read}, proto.ErrMarshalling, nil, nil},
		{70, ops{mk(1, "/v/1", 9)}, proto.ErrMarshalling, nil, nil},
		{72, ops{mk(proto.OpCreate2, "/v/1", 0)}, 0, []proto.ErrCode{0}, []proto.Op{15}},
		{73, ops{mk(proto.OpCreateContainer, "/v/1", 4)}, 0, []proto.ErrCode{0}, []proto.Op{15}},
		{73, ops{mk(proto.OpCreate, "/v/1", 5), del("/v/e")}, proto.ErrMarshalling, nil, nil},
		{75, ops{check("/v/none")}, 0, []proto.ErrCode{proto.ErrNoAuth}, []proto.Op{-1}},
		{0, ops{check("/v"), mk(1, "/v/e/x", 0)}, 0, []proto.ErrCode{0, proto.ErrNoChildrenForEphemerals}, []proto.Op{-1, -1}},
		{0, ops{mk(1, "/v/1", 1), mk(1, "/v/1/2", 0)}, 0, []proto.ErrCode{0, proto.ErrNoChildrenForEphemerals}, []proto.Op{-1, -1}},
		{0, ops{del("/v/e"), mk(1, "/v/e", 0), mk(1, "/v/e/x", 2), check("/v/e")}, 0, []proto.ErrCode{0, 0, 0, 0}, []proto.Op{2, 1, 1, 13}},
	} {
		h := scene(t, Config{})
		digest, zxid := h.m.Digest(), h.m.LastZxid()
		res := h.do(txn.Request{Session: alice, Op: proto.OpMulti, Payload: proto.AppendMulti(nil, c.ops), Auth: anyone})
		require.Equal(t, c.err, res.HeaderErr(), "row %d", c.row)
		require.Equal(t, zxid+1, h.m.LastZxid())
		require.Empty(t, h.m.pending.changes)
		if c.err != proto.OK {
			continue
		}
		results, err := proto.DecodeMultiResults(proto.NewReader(res.AppendReply(nil)))
		require.NoError(t, err)
		var codes []proto.ErrCode
		var kinds []proto.Op
		for _, r := range results {
			codes, kinds = append(codes, r.Err), append(kinds, r.Op)
		}
		require.Equal(t, c.codes, codes, "row %d", c.row)
		require.Equal(t, c.kinds, kinds, "row %d", c.row)
		if len(kinds) > 0 && kinds[0] == proto.OpError {
			require.Equal(t, digest, h.m.Digest(), "row %d: no trace", c.row)
			require.Empty(t, res.Events)
			require.NotEqual(t, proto.OK, res.Err)
		}
	}
}

func TestRow71MultiRead(t *testing.T) {
	h := scene(t, Config{})
	payload := proto.AppendMulti(nil, []proto.MultiOp{
		{Op: proto.OpGetData, Request: &proto.PathWatchRequest{Path: "/v", Watch: true}},
		{Op: proto.OpGetData, Request: &proto.PathWatchRequest{Path: "/v/no"}},
		{Op: proto.OpGetData, Request: &proto.PathWatchRequest{Path: "/v/none"}},
		{Op: proto.OpGetChildren, Request: &proto.PathWatchRequest{Path: "/v/kid"}},
	})
	out, w, code := h.m.Read(proto.OpMultiRead, payload, anyone, nil, nil)
	require.Equal(t, proto.OK, code)
	require.Zero(t, w)
	got, err := proto.DecodeMultiResults(proto.NewReader(out))
	require.NoError(t, err)
	stat, _ := h.m.Stat("/v")
	require.Equal(t, []proto.MultiResult{
		{Op: proto.OpGetData, Data: []byte("x"), Stat: stat},
		{Op: proto.OpError, Err: proto.ErrNoNode},
		{Op: proto.OpError, Err: proto.ErrNoAuth},
		{Op: proto.OpGetChildren, Children: []string{"x"}},
	}, got)
	_, _, code = h.m.Read(proto.OpMultiRead, proto.AppendMulti(nil, []proto.MultiOp{
		{Op: proto.OpDelete, Request: &proto.DeleteRequest{Path: "/v"}}}), anyone, nil, nil)
	require.Equal(t, proto.ErrMarshalling, code, "row 70")
}

func TestRow89EventsOfAnEndingSession(t *testing.T) {
	h := scene(t, Config{})
	res := h.do(txn.Request{Session: alice, Op: proto.OpCloseSession})
	require.Equal(t, []Event{
		{Type: proto.EventNodeDeleted, Path: "/v/e", ACL: proto.OpenACL()},
		{Type: proto.EventNodeChildrenChanged, Path: "/v", ACL: proto.OpenACL()},
	}, []Event(res.Events))
	_, open := h.m.SessionTimeout(alice)
	require.False(t, open)
	require.Equal(t, proto.ErrSessionExpired, h.ask(proto.OpCreate, create("/late", 0)).Err)
	require.Equal(t, proto.ErrSessionExpired, h.do(txn.Request{Session: alice, Op: proto.OpCloseSession}).Err)
}

func TestRow92AuthExpandsToWhatWasProven(t *testing.T) {
	h := newHistory(t, Config{})
	bob, super := proto.ID{Scheme: "digest", ID: "bob:x"}, proto.ID{Scheme: "super"}
	h.ask(proto.OpCreate, &proto.CreateRequest{Path: "/x", ACL: acl(9, "auth", "whatever")}, super, bob)
	require.Equal(t, []proto.ACL{{Perms: 9, ID: bob}}, h.m.tree.Get("/x").ACL())
}
