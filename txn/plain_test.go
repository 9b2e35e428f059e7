package txn

import (
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

var edges = []int64{0, 1, -1, 31, 32, -31, -32, -33, 127, 128, -127, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 65535, 65536,
	math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MinInt32 - 1, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MinInt64}

// chooser draws values, with a liking for those at which the encoding changes.
type chooser struct{ *rand.Rand }

func (c chooser) int64() int64 {
	if c.Intn(3) == 0 {
		return int64(c.Uint64()) >> c.Intn(64)
	}
	return edges[c.Intn(len(edges))]
}

func (c chooser) int32() int32 { return int32(c.int64()) }

func (c chooser) length() int {
	lengths := []int{0, 1, 31, 32, 255, 256, 65535, 65536}
	if c.Intn(4) == 0 {
		return lengths[c.Intn(len(lengths))]
	}
	return c.Intn(40)
}

func (c chooser) text() string { return strings.Repeat("x", c.length()) }

func (c chooser) data() []byte {
	if c.Intn(5) == 0 {
		return nil
	}
	b := make([]byte, c.length())
	c.Read(b)
	return b
}

func (c chooser) acl() []proto.ACL {
	if c.Intn(5) == 0 {
		return nil
	}
	list := make([]proto.ACL, []int{0, 1, 2, 15, 16}[c.Intn(5)])
	for i := range list {
		list[i] = proto.ACL{Perms: proto.Perm(c.int32()), ID: proto.ID{Scheme: c.text(), ID: c.text(), SchemeNull: c.Intn(2) == 0, IDNull: c.Intn(2) == 0}}
	}
	return list
}

func (c chooser) nested() Body {
	switch c.Intn(5) {
	case 0:
		return &Error{Code: proto.ErrCode(c.int32())}
	case 1:
		return &Create{Path: c.text(), Data: c.data(), ACL: c.acl(), Owner: SessionID(c.int64()), ParentCversion: c.int32()}
	case 2:
		return &Delete{Path: c.text()}
	case 3:
		return &SetData{Path: c.text(), Data: c.data(), Version: c.int32()}
	default:
		return &Check{Path: c.text(), Version: c.int32()}
	}
}

func (c chooser) body() Body {
	switch c.Intn(9) {
	case 0:
		return &CreateSession{TimeoutMillis: c.int32()}
	case 1:
		return &CloseSession{}
	case 2:
		m := &Multi{Ops: make([]MultiOp, []int{0, 1, 3, 15, 16}[c.Intn(5)])}
		for i := range m.Ops {
			m.Ops[i] = MultiOp{Op: proto.Op(c.int32()), Body: c.nested()}
		}
		return m
	case 3:
		return &SetACL{Path: c.text(), ACL: c.acl(), Aversion: c.int32()}
	default:
		return c.nested()
	}
}

// The plain forms are the library's, byte for byte, and each reads what the other wrote.
func TestPlainFormsAreTheLibrarys(t *testing.T) {
	c := chooser{rand.New(rand.NewSource(1))}
	for range 3000 {
		x := &Txn{Header: Header{Session: SessionID(c.int64()), Cxid: c.int32(), Origin: ServerID(c.int64()), Conn: uint64(c.int64()),
			Time: c.int64(), Op: proto.Op(c.int32())}, Body: c.body()}
		b := appendByLibrary(nil, x)
		require.Equal(t, b, appendPayload(nil, x))
		back, err := decodePayload(b, nil)
		require.NoError(t, err)
		require.Equal(t, x, back)
		slow, err := decodeByLibrary(b)
		require.NoError(t, err)
		require.Equal(t, x, slow)
	}
}

func TestPlainFormsAreUsed(t *testing.T) {
	for _, body := range []Body{&Error{}, &Create{}, &Delete{}, &SetData{}, &Multi{}, &CreateSession{}, &CloseSession{}} {
		b, ok := appendPlain(nil, &Txn{Body: body})
		require.True(t, ok, "%T", body)
		_, ok = decodePlain(b, nil)
		require.True(t, ok, "%T", body)
	}
	set := &Txn{Body: &SetData{Path: "/a", Data: make([]byte, 1024)}}
	b := appendPayload(nil, set)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = decodePayload(b, nil) }), 2.0, "the txn with its body, the path")
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { b = appendPayload(b[:0], set) }), 0.0)
	c := appendPayload(nil, &Txn{Body: &Create{Path: "/a", Data: make([]byte, 1024), ACL: proto.OpenACL()}})
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = decodePayload(c, nil) }), 2.0, "the txn with its body, the path")
}

// What is read without the library is what the library reads.
func FuzzPlainAgainstLibrary(f *testing.F) {
	for _, b := range bodies() {
		rec := sealed(f, b, Record{})
		f.Add(rec.Payload())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := decodePlain(b, nil)
		if !ok {
			return
		}
		want, err := decodeByLibrary(b)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
