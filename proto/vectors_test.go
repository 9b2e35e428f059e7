package proto

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every recorded frame must decode to the recorded values and encode to the recorded bytes again.
func TestVectorRequests(t *testing.T) {
	tested := 0
	for _, v := range loadVectors(t) {
		req := v.Decoded.Request
		if req == nil || req.RawText != nil || strings.Contains(v.Request, "...") {
			continue
		}
		tested++
		t.Run(v.Name, func(t *testing.T) {
			frames := splitFrames(t, v.Request)
			require.Len(t, frames, 1)
			if req.Record != "" {
				checkRecord(t, new(ConnectRequest), frames[0], req.Body)
				return
			}
			checkRequest(t, req, frames[0])
		})
	}
	require.Greater(t, tested, 190)
}

func checkRequest(t *testing.T, want *vectorFrame, frame []byte) {
	r := NewReader(frame)
	var h RequestHeader
	require.NoError(t, h.Decode(r))
	require.Equal(t, RequestHeader{Xid: want.Xid, Op: want.Type}, h)
	if want.Op != "" { // unknown codes have no name there
		require.Equal(t, want.Op, h.Op.String())
	}
	require.Equal(t, frame[:8], h.Append(nil))
	body := frame[8:]
	switch {
	case strings.Contains(string(want.Body), "undecodable_hex"):
		require.ErrorIs(t, NewRequest(h.Op).Decode(r), ErrMarshalling)
	case h.Op == OpMulti || h.Op == OpMultiRead:
		checkMultiRequest(t, want.Body, body)
	case NewRequest(h.Op) == nil:
		require.True(t, len(body) == 0 || !h.Op.Known(), "a known op with a body must have a record")
	default:
		checkRecord(t, NewRequest(h.Op), body, want.Body)
	}
}

func TestVectorResponses(t *testing.T) {
	tested := 0
	for _, v := range loadVectors(t) {
		if len(v.Decoded.Response) == 0 || v.Decoded.Response[0].RawText != nil {
			continue
		}
		tested++
		t.Run(v.Name, func(t *testing.T) {
			frames := splitFrames(t, v.Response)
			require.Len(t, frames, len(v.Decoded.Response))
			for i, want := range v.Decoded.Response {
				if want.Record != "" {
					checkRecord(t, new(ConnectResponse), frames[i], want.Body)
					continue
				}
				op := OpNotification
				if want.Kind != "notification" {
					op = v.Decoded.Request.Type
				}
				checkReply(t, op, want, frames[i])
			}
		})
	}
	require.Greater(t, tested, 190)
}

func checkReply(t *testing.T, op Op, want vectorFrame, frame []byte) {
	r := NewReader(frame)
	var h ReplyHeader
	require.NoError(t, h.Decode(r))
	require.Equal(t, want.Header.Xid, h.Xid)
	require.EqualValues(t, *want.Header.Err, h.Err)
	require.Equal(t, frame[:16], h.Append(nil))
	body := frame[16:]
	switch {
	case len(want.Body) == 0:
		require.Empty(t, body)
	case op == OpMulti || op == OpMultiRead:
		checkMultiResults(t, want.Body, body)
	default:
		checkRecord(t, NewResponse(op), body, want.Body)
	}
}

// checkRecord decodes frame into m, compares m with the recorded JSON and encodes it again. Bytes behind the record, which
// one request has on purpose, are not part of that.
func checkRecord(t *testing.T, m Record, frame []byte, want json.RawMessage) {
	r := NewReader(frame)
	require.NoError(t, m.Decode(r))
	require.Equal(t, recorded(t, want), plain(reflect.ValueOf(m).Elem()))
	used := frame[:len(frame)-r.Len()]
	require.Equal(t, used, m.Append(nil))
	if r.Len() > 0 {
		require.Equal(t, "junk", string(frame[len(used):]))
	}
}

type vectorMulti struct {
	Ops     []vectorMultiOp `json:"ops"`
	Results []vectorMultiOp `json:"results"`
}

type vectorMultiOp struct {
	Header struct {
		Type Op      `json:"type"`
		Err  ErrCode `json:"err"`
	} `json:"header"`
	Body json.RawMessage `json:"body"`
}

func checkMultiRequest(t *testing.T, want json.RawMessage, body []byte) {
	var m vectorMulti
	require.NoError(t, json.Unmarshal(want, &m))
	r := NewReader(body)
	ops, err := DecodeMulti(r)
	if strings.Contains(t.Name(), "mixed_kinds") {
		require.ErrorIs(t, err, ErrMarshalling)
		return
	}
	require.NoError(t, err)
	require.Zero(t, r.Len())
	require.Len(t, ops, len(m.Ops))
	for i, op := range m.Ops {
		require.Equal(t, op.Header.Type, ops[i].Op)
		require.Equal(t, recorded(t, op.Body), plain(reflect.ValueOf(ops[i].Request).Elem()))
	}
	require.Equal(t, body, AppendMulti(nil, ops))
}

func checkMultiResults(t *testing.T, want json.RawMessage, body []byte) {
	var m vectorMulti
	require.NoError(t, json.Unmarshal(want, &m))
	r := NewReader(body)
	results, err := DecodeMultiResults(r)
	require.NoError(t, err)
	require.Zero(t, r.Len())
	require.Len(t, results, len(m.Results))
	for i, res := range m.Results {
		require.Equal(t, res.Header.Type, results[i].Op)
		require.Equal(t, res.Header.Err, results[i].Err)
		all := plain(reflect.ValueOf(&results[i]).Elem()).(map[string]any)
		if fields, ok := recorded(t, res.Body).(map[string]any); ok {
			for k, v := range fields {
				require.Equal(t, v, all[k], k)
			}
		}
	}
	require.Equal(t, body, AppendMultiResults(nil, results))
}

func splitFrames(t *testing.T, hexFrames string) [][]byte {
	t.Helper()
	b, err := hex.DecodeString(hexFrames)
	require.NoError(t, err)
	var frames [][]byte
	for len(b) > 0 {
		n, err := ReadFrameHeader(b, DefaultMaxFrame)
		require.NoError(t, err)
		frames = append(frames, b[FrameHeaderBytes:FrameHeaderBytes+n])
		b = b[FrameHeaderBytes+n:]
	}
	return frames
}

// recorded turns the JSON of a body into plain values: numbers as json.Number, bytes as hexadecimal strings.
func recorded(t *testing.T, body json.RawMessage) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return unwrap(v)
}

func unwrap(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = unwrap(v[i])
		}
	case map[string]any:
		if x, ok := v["value"]; ok {
			return x
		}
		if x, ok := v["text"]; ok {
			return hex.EncodeToString([]byte(x.(string)))
		}
		if x, ok := v["hex"]; ok {
			return x
		}
		delete(v, "name") // of an error code
		for k := range v {
			v[k] = unwrap(v[k])
		}
	}
	return v
}

// plain turns a decoded record into the same values.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Int32, reflect.Int64:
		return json.Number(strconv.FormatInt(v.Int(), 10))
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		if b, ok := v.Interface().([]byte); ok {
			return hex.EncodeToString(b)
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(v.Index(i))
		}
		return list
	case reflect.Struct:
		return plainStruct(v)
	}
	return v.Interface()
}

func plainStruct(v reflect.Value) map[string]any {
	fields := map[string]any{}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch {
		case v.Type().Field(i).Anonymous:
			for k, x := range plainStruct(v.Field(i)) {
				fields[k] = x
			}
		case strings.HasSuffix(name, "Null"):
			if v.Field(i).Bool() {
				fields[jsonName(strings.TrimSuffix(name, "Null"))] = nil
			}
		case name == "HasReadOnly":
			if !v.Field(i).Bool() {
				fields["readOnly"] = nil
			}
		default:
			fields[jsonName(name)] = plain(v.Field(i))
		}
	}
	return fields
}

func jsonName(field string) string {
	switch field {
	case "ID", "ACL", "TTL":
		return strings.ToLower(field)
	case "SessionID":
		return "sessionId"
	case "CurConfigID":
		return "curConfigId"
	}
	return strings.ToLower(field[:1]) + field[1:]
}
