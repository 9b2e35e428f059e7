package proto

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	b := AppendFrame([]byte("x"), &RequestHeader{Xid: 1, Op: OpGetACL}, &GetACLRequest{Path: "/a"})
	b, mark := BeginFrame(b)
	b = EndFrame(append(b, 9, 9), mark)
	require.Equal(t, []byte{'x', 0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 2, '/', 'a', 0, 0, 0, 2, 9, 9}, b)
}

func TestReadFrameHeader(t *testing.T) {
	for _, n := range []int32{0, 1, DefaultMaxFrame} {
		got, err := ReadFrameHeader(AppendInt32(nil, n), DefaultMaxFrame)
		require.NoError(t, err)
		require.EqualValues(t, n, got)
	}
	for _, n := range []int32{-1, -5, DefaultMaxFrame + 1, 0x72756f6b} {
		_, err := ReadFrameHeader(AppendInt32(nil, n), DefaultMaxFrame)
		var size *FrameSizeError
		require.ErrorAs(t, err, &size)
		require.Equal(t, FrameSizeError{Size: int(n), Max: DefaultMaxFrame}, *size)
		require.ErrorIs(t, err, ErrMarshalling)
	}
}
