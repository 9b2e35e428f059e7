package proto

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReaderErrorSticks(t *testing.T) {
	r := NewReader([]byte{0, 0, 0, 7, 1, 2})
	require.EqualValues(t, 7, r.Int32())
	require.NoError(t, r.Err())
	require.Equal(t, 2, r.Len())
	require.EqualValues(t, 0, r.Int64()) // 2 bytes left
	first := r.Err()
	require.ErrorIs(t, first, ErrMarshalling)
	require.False(t, r.Bool(), "the two bytes that were left must be gone")
	require.Zero(t, r.Int32())
	require.Nil(t, r.Buffer())
	s, isNull := r.NullString()
	require.Empty(t, s)
	require.False(t, isNull, "an error is no null")
	require.Nil(t, r.Strings())
	require.Nil(t, r.ACLs())
	require.Zero(t, r.Len())
	require.Equal(t, first, r.Err())
}

func TestNullAndEmptyStayDistinct(t *testing.T) {
	var b []byte
	b = AppendBuffer(b, nil)
	b = AppendBuffer(b, []byte{})
	b = AppendStrings(b, nil)
	b = AppendStrings(b, []string{})
	b = AppendACLs(b, nil)
	b = AppendACLs(b, []ACL{})
	b = AppendNullString(b, "", true)
	b = AppendNullString(b, "", false)
	r := NewReader(b)
	require.Nil(t, r.Buffer())
	require.Equal(t, []byte{}, r.Buffer())
	require.Nil(t, r.Strings())
	require.Equal(t, []string{}, r.Strings())
	require.Nil(t, r.ACLs())
	require.Equal(t, []ACL{}, r.ACLs())
	_, isNull := r.NullString()
	require.True(t, isNull)
	_, isNull = r.NullString()
	require.False(t, isNull)
	require.NoError(t, r.Err())
	require.Zero(t, r.Len())
}

func TestEmptyBufferAtTheEndIsNotNull(t *testing.T) {
	b := NewReader(AppendInt32(nil, 0)).Buffer()
	require.NotNil(t, b)
	require.Empty(t, b)
}

func TestBufferAliasesInput(t *testing.T) {
	in := AppendBuffer(nil, []byte("abc"))
	in = append(in, 'd')
	got := NewReader(in).Buffer()
	in[4] = 'X'
	require.Equal(t, "Xbc", string(got))
	_ = append(got, 'Y')
	require.Equal(t, byte('d'), in[7], "an append to the result must not write into the input")
}

func TestNegativeLengths(t *testing.T) {
	for _, n := range []int32{-2, math.MinInt32} {
		r := NewReader(AppendInt32(nil, n))
		require.Nil(t, r.Buffer())
		require.ErrorIs(t, r.Err(), ErrMarshalling)

		r = NewReader(AppendInt32(nil, n))
		_, isNull := r.NullString()
		require.False(t, isNull)
		require.ErrorIs(t, r.Err(), ErrMarshalling)

		r = NewReader(AppendInt32(nil, n)) // a count is just empty
		require.Equal(t, []ACL{}, r.ACLs())
		require.NoError(t, r.Err())
		r = NewReader(AppendInt32(nil, n))
		require.Equal(t, []string{}, r.Strings())
		require.NoError(t, r.Err())
	}
}

func TestAnyByteButZeroIsTrue(t *testing.T) {
	r := NewReader([]byte{0, 1, 2, 255})
	require.Equal(t, [4]bool{false, true, true, true}, [4]bool{r.Bool(), r.Bool(), r.Bool(), r.Bool()})
}

func TestMalformedUTF8(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, NewReader(AppendString(nil, in)).String(), "%x", in)
	}
	f("aé€😀", "aé€😀")
	f("\xff", "\ufffd")
	f("a\xffb", "a\ufffdb")
	f("\x80\x80", "\ufffd\ufffd")
	f("\xc0\x80", "\ufffd\ufffd")
	f("\xc3", "\ufffd")
	f("\xe2\x82", "\ufffd")
	f("\xe2\x82a", "\ufffda")
	f("\xe0\x80\x80", "\ufffd\ufffd\ufffd")
	f("\xed\xa0\x80", "\ufffd")
	f("\xed\xa0\xbd\xed\xb8\x80", "\ufffd\ufffd") // a surrogate pair in CESU-8
	f("\xf0\x9f\x98", "\ufffd")
	f("\xf0\x80\x80\x80", "\ufffd\ufffd\ufffd\ufffd")
	f("\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd")
	f("\ufffd", "\ufffd")
}

// Twenty bytes that claim 2^31-1 elements or bytes must fail before anything is allocated for them.
func TestClaimedSizesAreNotAllocated(t *testing.T) {
	claim := make([]byte, 20)
	copy(claim, AppendInt32(nil, math.MaxInt32))
	reads := map[string]func(r *Reader){
		"buffer":     func(r *Reader) { r.Buffer() },
		"string":     func(r *Reader) { _ = r.String() },
		"strings":    func(r *Reader) { r.Strings() },
		"acls":       func(r *Reader) { r.ACLs() },
		"clientInfo": func(r *Reader) { _ = new(WhoAmIResponse).Decode(r) },
	}
	for name, read := range reads {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewReader(claim)
		read(r)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, r.Err(), ErrMarshalling, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10), name)
	}
}

// The smallest elements decide what count is still possible.
func TestVectorCountAgainstBytesLeft(t *testing.T) {
	nulls := AppendInt32(AppendInt32(AppendInt32(nil, 2), -1), -1)
	r := NewReader(nulls)
	require.Equal(t, []string{"", ""}, r.Strings())
	require.NoError(t, r.Err())

	r = NewReader(nulls[:len(nulls)-1])
	require.Nil(t, r.Strings())
	require.ErrorIs(t, r.Err(), ErrMarshalling)

	acl := AppendACLs(nil, []ACL{{Perms: PermRead, ID: ID{SchemeNull: true, IDNull: true}}})
	require.Len(t, acl, 4+minACLBytes)
	require.Len(t, NewReader(acl).ACLs(), 1)
}
