package proto

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	benchRequest = (&PathWatchRequest{Path: "/bench/some/node/0000000042", Watch: true}).
			Append((&RequestHeader{Xid: 7, Op: OpGetData}).Append(nil))
	benchReply = &GetDataResponse{Data: make([]byte, 1024), Stat: Stat{Czxid: 1, Mzxid: 2, DataLength: 1024}}
)

func decodeGetData(frame []byte) (q PathWatchRequest, err error) {
	r := NewReader(frame)
	var h RequestHeader
	if err = h.Decode(r); err == nil {
		err = q.Decode(r)
	}
	return q, err
}

func TestDecodeGetDataAllocatesOnlyThePath(t *testing.T) {
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := decodeGetData(benchRequest); err != nil {
			t.Fatal(err)
		}
	})
	require.EqualValues(t, 1, allocs)
}

func TestEncodeGetDataReplyDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 2048)
	require.Zero(t, testing.AllocsPerRun(100, func() { appendGetDataReply(buf[:0]) }))
}

func appendGetDataReply(dst []byte) []byte {
	dst, mark := BeginFrame(dst)
	h := ReplyHeader{Xid: 7, Zxid: 99}
	return EndFrame(benchReply.Append(h.Append(dst)), mark)
}

func BenchmarkDecodeGetDataRequest(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeGetData(benchRequest); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeGetDataRequest(b *testing.B) {
	b.ReportAllocs()
	q := PathWatchRequest{Path: "/bench/some/node/0000000042", Watch: true}
	buf := make([]byte, 0, 256)
	for b.Loop() {
		h := RequestHeader{Xid: 7, Op: OpGetData}
		buf = q.Append(h.Append(buf[:0]))
	}
}

func BenchmarkEncodeGetDataReply(b *testing.B) {
	b.ReportAllocs()
	buf := make([]byte, 0, 2048)
	for b.Loop() {
		buf = appendGetDataReply(buf[:0])
	}
}

func BenchmarkDecodeGetDataReply(b *testing.B) {
	b.ReportAllocs()
	frame := appendGetDataReply(nil)[FrameHeaderBytes:]
	for b.Loop() {
		r := NewReader(frame)
		var h ReplyHeader
		var m GetDataResponse
		if h.Decode(r) != nil || m.Decode(r) != nil {
			b.Fatal(r.Err())
		}
	}
}
