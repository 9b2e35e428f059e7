package proto

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever the bytes are, a decoder must not panic; what it accepts must survive encode and decode unchanged.

func FuzzRequest(f *testing.F) {
	for _, v := range loadVectors(f) {
		if req := v.Decoded.Request; req != nil && req.RawText == nil && req.Record == "" && !strings.Contains(v.Request, "...") {
			b, err := hex.DecodeString(v.Request)
			require.NoError(f, err)
			f.Add(b[FrameHeaderBytes:])
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := NewReader(frame)
		var h RequestHeader
		if h.Decode(r) != nil {
			return
		}
		require.Equal(t, frame[:8], h.Append(nil))
		if h.Op == OpMulti || h.Op == OpMultiRead {
			fuzzMulti(t, r)
		} else if NewRequest(h.Op) != nil {
			fuzzRecord(t, r, func() Record { return NewRequest(h.Op) })
		}
	})
}

func fuzzMulti(t *testing.T, r *Reader) {
	ops, err := DecodeMulti(r)
	if err != nil {
		require.ErrorIs(t, err, ErrMarshalling)
		return
	}
	again, err := DecodeMulti(NewReader(AppendMulti(nil, ops)))
	require.NoError(t, err)
	require.Equal(t, ops, again)
}

func fuzzRecord(t *testing.T, r *Reader, fresh func() Record) {
	m := fresh()
	if err := m.Decode(r); err != nil {
		require.ErrorIs(t, err, ErrMarshalling)
		require.Equal(t, err, r.Err())
		return
	}
	again := fresh()
	rest := NewReader(m.Append(nil))
	require.NoError(t, again.Decode(rest))
	require.Zero(t, rest.Len())
	require.Equal(t, m, again)
}

func FuzzResponse(f *testing.F) {
	for _, v := range loadVectors(f) {
		b, err := hex.DecodeString(v.Response)
		require.NoError(f, err)
		if len(b) > 20 && v.Decoded.Request != nil && v.Decoded.Response[0].RawText == nil {
			f.Add(int32(v.Decoded.Request.Type), b[20:])
		}
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		if NewResponse(Op(op)) != nil {
			fuzzRecord(t, NewReader(body), func() Record { return NewResponse(Op(op)) })
		}
		results, err := DecodeMultiResults(NewReader(body))
		if err != nil {
			require.ErrorIs(t, err, ErrMarshalling)
			return
		}
		again, err := DecodeMultiResults(NewReader(AppendMultiResults(nil, results)))
		require.NoError(t, err)
		require.Equal(t, results, again)
	})
}

func FuzzConnect(f *testing.F) {
	f.Add(new(ConnectRequest).Append(nil))
	f.Add((&ConnectResponse{Passwd: make([]byte, PasswordBytes), HasReadOnly: true}).Append(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		fuzzRecord(t, NewReader(frame), func() Record { return new(ConnectRequest) })
		fuzzRecord(t, NewReader(frame), func() Record { return new(ConnectResponse) })
		fuzzRecord(t, NewReader(frame), func() Record { return new(ReplyHeader) })
	})
}

// Every record with every field set: what a fuzzer may not reach, and fields that Append or Decode forgot.
func TestEveryRecordRoundTrips(t *testing.T) {
	records := []Record{new(ConnectRequest), new(ConnectResponse), new(RequestHeader), new(ReplyHeader), new(MultiHeader)}
	for op := OpCloseSession; op <= OpWhoAmI; op++ {
		for _, m := range []Record{NewRequest(op), NewResponse(op)} {
			if m != nil {
				records = append(records, m)
			}
		}
	}
	require.Greater(t, len(records), 40)
	for _, m := range records {
		n := int64(1)
		fill(reflect.ValueOf(m).Elem(), &n)
		again := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Record)
		b := m.Append(nil)
		r := NewReader(b)
		require.NoError(t, again.Decode(r), "%T", m)
		require.Zero(t, r.Len(), "%T", m)
		require.Equal(t, m, again)
		require.Equal(t, "xyz"+string(b), string(m.Append([]byte("xyz"))), "%T must append", m)
		for cut := range b {
			if lastByteOptional(m) && cut == len(b)-1 {
				continue
			}
			short := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Record)
			require.ErrorIs(t, short.Decode(NewReader(b[:cut])), ErrMarshalling, "%T cut at %d", m, cut)
		}
	}
}

func lastByteOptional(m Record) bool {
	switch m.(type) {
	case *ConnectRequest, *ConnectResponse:
		return true
	}
	return false
}

// fill sets every field below v to a value of its own, except those named …Null.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(string(bytes.Repeat([]byte("s"), int(*n))))
	case reflect.Uint8:
		v.SetUint(uint64(*n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if !strings.HasSuffix(v.Type().Field(i).Name, "Null") {
				fill(v.Field(i), n)
			}
		}
	}
}
