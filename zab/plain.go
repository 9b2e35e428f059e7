package zab

import (
	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// The packets that come with every write are written and read without reflection, in the bytes that the library would write (ADR 0011; a
// test holds the two together). ok is false where that is not done.

func appendPlain(dst []byte, p Packet) (b []byte, ok bool) {
	switch p := p.(type) {
	case *Requests:
		return appendRequests(msgpack.AppendArray(dst, 1), p.Requests), true
	case *Ack:
		dst = msgpack.AppendUint(msgpack.AppendArray(dst, 5), uint64(p.Kind))
		dst = msgpack.AppendUint(dst, uint64(p.Epoch))
		dst = msgpack.AppendUint(dst, uint64(p.Durable))
		dst = msgpack.AppendUint(dst, p.Chain)
		return msgpack.AppendBool(dst, p.Votable), true
	case *Commit:
		return msgpack.AppendUint(msgpack.AppendArray(dst, 1), uint64(p.Commit)), true
	}
	return dst, false
}

const requestFields = 8

func appendRequests(dst []byte, reqs []txn.Request) []byte {
	if reqs == nil {
		return msgpack.AppendNil(dst)
	}
	dst = msgpack.AppendArray(dst, len(reqs))
	for i := range reqs {
		q := &reqs[i]
		dst = msgpack.AppendInt(msgpack.AppendArray(dst, requestFields), int64(q.Session))
		dst = msgpack.AppendInt(dst, int64(q.Cxid))
		dst = msgpack.AppendInt(dst, int64(q.Op))
		dst = msgpack.AppendUint(dst, uint64(q.Origin))
		dst = msgpack.AppendUint(dst, q.Conn)
		dst = msgpack.AppendBytes(dst, q.Payload)
		dst = msgpack.AppendUint(appendIDs(dst, q.Auth), q.Seq)
	}
	return dst
}

func appendIDs(dst []byte, ids []proto.ID) []byte {
	if ids == nil {
		return msgpack.AppendNil(dst)
	}
	dst = msgpack.AppendArray(dst, len(ids))
	for i := range ids {
		dst = txn.AppendID(dst, &ids[i])
	}
	return dst
}

// decodePlain reads what appendPlain writes. Payloads of requests alias body.
func decodePlain(t PacketType, body []byte) (p Packet, ok bool) {
	r := msgpack.NewReader(body)
	switch t {
	case TypeRequests:
		r.Struct(1)
		p = &Requests{Requests: readRequests(&r)}
	case TypeAck:
		r.Struct(5)
		p = &Ack{Kind: AckKind(r.Uint(8)), Epoch: txn.Epoch(r.Uint(32)), Durable: txn.Zxid(r.Uint(64)), Chain: r.Uint(64), Votable: r.Bool()}
	case TypeCommit:
		r.Struct(1)
		p = &Commit{Commit: txn.Zxid(r.Uint(64))}
	default:
		return nil, false
	}
	return p, r.Whole()
}

func readRequests(r *msgpack.Reader) []txn.Request {
	n, room := r.List()
	if n < 0 {
		return nil
	}
	reqs := make([]txn.Request, 0, room)
	var auth []proto.ID
	var authBytes []byte // that auth was read from
	for i := 0; i < n && !r.Failed(); i++ {
		r.Struct(requestFields)
		q := txn.Request{Session: txn.SessionID(r.Int(64)), Cxid: int32(r.Int(32)), Op: proto.Op(r.Int(32)),
			Origin: txn.ServerID(r.Uint(8)), Conn: r.Uint(64), Payload: r.Bytes()}
		if authBytes == nil || !r.Skip(authBytes) { // a batch comes from few connections: what stood in the last request serves again
			authBytes = r.Rest()
			auth = readIDs(r)
			authBytes = authBytes[:len(authBytes)-len(r.Rest())]
		}
		q.Auth, q.Seq = auth, r.Uint(64)
		reqs = append(reqs, q)
	}
	return reqs
}

func readIDs(r *msgpack.Reader) []proto.ID {
	n, room := r.List()
	if n < 0 {
		return nil
	}
	ids := make([]proto.ID, 0, room)
	for i := 0; i < n && !r.Failed(); i++ {
		ids = append(ids, txn.ReadID(r))
	}
	return ids
}
