package txn

import (
	"encoding/binary"

	"github.com/zkd-project/zkd/proto"
)

// Op codes of requests that only servers make. They never come from a client.
const (
	OpSecret  proto.Op = -1001 // payload: the ensemble's secret; the first txn of a history
	OpReadmit proto.Op = -1002 // payload: AppendReadmit; docs/protocol.md §18.5
)

// Request is a write on its way to the leader, as the client sent it. The leader turns it into a transaction.
//
// Op is a client's op code (proto.OpCreate and so on), proto.OpCreateSession, proto.OpCloseSession, or one of the codes above.
// Payload is the request record behind the header, undecoded; for createSession AppendTimeout's bytes.
// Origin and Conn name the server and its client connection that wait for the outcome: Conn is unique within the life of the
// origin's process and never 0 for a client's request. Auth are the ids that the connection has proven.
// Seq is the write's place among those of its connection, from 1, so that a refusal finds it: clients may use an xid twice. It is 0
// where the connection waits for one thing only.
// Payload and Auth are not changed after the request was made.
type Request struct {
	Session SessionID
	Cxid    int32
	Op      proto.Op
	Origin  ServerID
	Conn    uint64
	Payload []byte
	Auth    []proto.ID
	Seq     uint64
}

// Size is about what the request weighs in memory, in bytes, for bounds on what is pending.
func (r *Request) Size() int {
	n := 96 + len(r.Payload)
	for _, id := range r.Auth {
		n += 32 + len(id.Scheme) + len(id.ID)
	}
	return n
}

// AppendTimeout is the payload of a createSession: the negotiated timeout in milliseconds.
func AppendTimeout(dst []byte, timeoutMillis int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(timeoutMillis))
}

// ParseTimeout reads AppendTimeout's bytes; ok is false for any other length or a timeout that is not positive.
func ParseTimeout(b []byte) (timeoutMillis int32, ok bool) {
	if len(b) != 4 {
		return 0, false
	}
	t := int32(binary.BigEndian.Uint32(b))
	return t, t > 0
}

// AppendReadmit is the payload of OpReadmit.
func AppendReadmit(dst []byte, sid ServerID, recoveryID uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byte(sid)), recoveryID)
}

// ParseReadmit reads AppendReadmit's bytes.
func ParseReadmit(b []byte) (sid ServerID, recoveryID uint64, ok bool) {
	if len(b) != 9 {
		return 0, 0, false
	}
	return ServerID(b[0]), binary.BigEndian.Uint64(b[1:]), true
}
