package txn

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/proto"
)

// The bodies that nearly every transaction has are written and read without reflection, in the bytes that the library would write
// (ADR 0011; a test holds the two together). ok is false where that is not done.

const headerFields = 8 // of wire, the body included

func appendPlain(dst []byte, t *Txn) (b []byte, ok bool) {
	switch t.Body.(type) {
	case *SetACL, *Check, *Secret, *Readmit, *DeleteContainer:
		return dst, false
	}
	return appendPlainBody(appendHeader(dst, t), t.Body), true
}

func appendPlainBody(dst []byte, body Body) []byte {
	switch b := body.(type) {
	case *Error:
		return msgpack.AppendInt(msgpack.AppendArray(dst, 1), int64(b.Code))
	case *Create:
		dst = msgpack.AppendString(msgpack.AppendArray(dst, 5), b.Path)
		dst = msgpack.AppendBytes(dst, b.Data)
		dst = appendACL(dst, b.ACL)
		dst = msgpack.AppendInt(dst, int64(b.Owner))
		return msgpack.AppendInt(dst, int64(b.ParentCversion))
	case *Delete:
		return msgpack.AppendString(msgpack.AppendArray(dst, 1), b.Path)
	case *SetData:
		dst = msgpack.AppendString(msgpack.AppendArray(dst, 3), b.Path)
		dst = msgpack.AppendBytes(dst, b.Data)
		return msgpack.AppendInt(dst, int64(b.Version))
	case *Check:
		dst = msgpack.AppendString(msgpack.AppendArray(dst, 2), b.Path)
		return msgpack.AppendInt(dst, int64(b.Version))
	case *CreateSession:
		return msgpack.AppendInt(msgpack.AppendArray(dst, 1), int64(b.TimeoutMillis))
	case *CloseSession:
		return msgpack.AppendArray(dst, 0)
	case *Multi:
		return appendMulti(dst, b)
	}
	panic(fmt.Sprintf("txn: no plain form of %T", body))
}

// appendMulti writes the operations; the body of each is bytes of their own. It may nest only what MultiOp allows; anything else is a
// programming error of prepare.
func appendMulti(dst []byte, m *Multi) []byte {
	dst = msgpack.AppendArray(dst, len(m.Ops))
	var body []byte
	for _, op := range m.Ops {
		switch op.Body.(type) {
		case *Error, *Create, *Delete, *SetData, *Check:
			body = appendPlainBody(body[:0], op.Body)
		default:
			panic(fmt.Sprintf("txn: %T inside a multi", op.Body))
		}
		dst = msgpack.AppendInt(msgpack.AppendArray(dst, 3), int64(op.Op))
		dst = msgpack.AppendUint(dst, uint64(op.Body.Type()))
		dst = msgpack.AppendBytes(dst, body)
	}
	return dst
}

func appendHeader(dst []byte, t *Txn) []byte {
	dst = msgpack.AppendArray(dst, headerFields)
	dst = msgpack.AppendUint(dst, uint64(t.Body.Type()))
	dst = msgpack.AppendInt(dst, int64(t.Session))
	dst = msgpack.AppendInt(dst, int64(t.Cxid))
	dst = msgpack.AppendUint(dst, uint64(t.Origin))
	dst = msgpack.AppendUint(dst, t.Conn)
	dst = msgpack.AppendInt(dst, t.Time)
	return msgpack.AppendInt(dst, int64(t.Op))
}

func appendACL(dst []byte, list []proto.ACL) []byte {
	if list == nil {
		return msgpack.AppendNil(dst)
	}
	dst = msgpack.AppendArray(dst, len(list))
	for i := range list {
		dst = msgpack.AppendInt(msgpack.AppendArray(dst, 2), int64(list[i].Perms))
		dst = AppendID(dst, &list[i].ID)
	}
	return dst
}

// AppendID writes an id in the bytes of msgpack.
func AppendID(dst []byte, id *proto.ID) []byte {
	dst = msgpack.AppendArray(dst, 4)
	dst = msgpack.AppendString(dst, id.Scheme)
	dst = msgpack.AppendString(dst, id.ID)
	dst = msgpack.AppendBool(dst, id.SchemeNull)
	return msgpack.AppendBool(dst, id.IDNull)
}

// ReadID reads AppendID's bytes.
func ReadID(r *msgpack.Reader) proto.ID {
	r.Struct(4)
	return proto.ID{Scheme: proto.Word(r.Text()), ID: proto.Word(r.Text()), SchemeNull: r.Bool(), IDNull: r.Bool()}
}

// What most transactions are is one piece of memory with its body.
type (
	createTxn struct {
		Txn
		body Create
	}
	setDataTxn struct {
		Txn
		body SetData
	}
)

// decodePlain reads what appendPlain writes. The data of a znode aliases b. d may be nil.
func decodePlain(b []byte, d *Decoder) (t *Txn, ok bool) {
	r := msgpack.NewReader(b)
	r.Struct(headerFields)
	kind := Type(r.Uint(8))
	h := Header{Session: SessionID(r.Int(64)), Cxid: int32(r.Int(32)), Origin: ServerID(r.Uint(8)), Conn: r.Uint(64),
		Time: r.Int(64), Op: proto.Op(r.Int(32))}
	switch kind {
	case TypeCreate:
		c := d.create()
		c.Header, c.Body, t = h, &c.body, &c.Txn
		if d == nil {
			readCreate(&r, &c.body)
		} else {
			readJoined(&r, &c.body)
		}
	case TypeSetData:
		s := d.setData()
		s.Header, s.Body, t = h, &s.body, &s.Txn
		readSetData(&r, &s.body)
	default:
		t = &Txn{Header: h, Body: readBody(&r, kind)}
	}
	return t, r.Whole()
}

func readCreate(r *msgpack.Reader, c *Create) {
	r.Struct(5)
	c.Path, c.Data, c.ACL, c.Owner, c.ParentCversion = r.String(), r.Bytes(), readACL(r), SessionID(r.Int(64)), int32(r.Int(32))
}

// readJoined is readCreate with path and data in one string besides.
func readJoined(r *msgpack.Reader, c *Create) {
	r.Struct(5)
	path := r.Text()
	c.Data = r.Bytes()
	var b strings.Builder
	b.Grow(len(path) + len(c.Data))
	b.Write(path)
	b.Write(c.Data)
	c.payload = b.String()
	c.Path = c.payload[:len(path)]
	c.ACL, c.Owner, c.ParentCversion = readACL(r), SessionID(r.Int(64)), int32(r.Int(32))
}

func readSetData(r *msgpack.Reader, s *SetData) {
	r.Struct(3)
	s.Path, s.Data, s.Version = r.String(), r.Bytes(), int32(r.Int(32))
}

func readBody(r *msgpack.Reader, kind Type) Body {
	switch kind {
	case TypeError:
		r.Struct(1)
		return &Error{Code: proto.ErrCode(r.Int(32))}
	case TypeCreate:
		c := &Create{}
		readCreate(r, c)
		return c
	case TypeDelete:
		r.Struct(1)
		return &Delete{Path: r.String()}
	case TypeSetData:
		s := &SetData{}
		readSetData(r, s)
		return s
	case TypeCreateSession:
		r.Struct(1)
		return &CreateSession{TimeoutMillis: int32(r.Int(32))}
	case TypeCloseSession:
		r.Struct(0)
		return &CloseSession{}
	case TypeMulti:
		return readMulti(r)
	}
	r.Fail()
	return nil
}

func readMulti(r *msgpack.Reader) *Multi {
	n, room := r.List() // nil is none, as for decodeMulti
	m := &Multi{Ops: make([]MultiOp, 0, room)}
	for i := 0; i < n && !r.Failed(); i++ {
		r.Struct(3)
		op, kind := proto.Op(r.Int(32)), Type(r.Uint(8))
		nested := msgpack.NewReader(r.Bytes())
		m.Ops = append(m.Ops, MultiOp{Op: op, Body: readNested(&nested, kind)})
		if !nested.Whole() {
			r.Fail()
		}
	}
	return m
}

func readNested(r *msgpack.Reader, kind Type) Body {
	switch kind {
	case TypeCheck:
		r.Struct(2)
		return &Check{Path: r.String(), Version: int32(r.Int(32))}
	case TypeError, TypeCreate, TypeDelete, TypeSetData:
		return readBody(r, kind)
	}
	r.Fail()
	return nil
}

// The list that nearly every znode has. All transactions that are read share it.
var (
	openACL      = proto.OpenACL()
	openACLBytes = appendACL(nil, openACL)
)

func readACL(r *msgpack.Reader) []proto.ACL {
	if r.Skip(openACLBytes) {
		return openACL[:len(openACL):len(openACL)]
	}
	n, room := r.List()
	if n < 0 {
		return nil
	}
	list := make([]proto.ACL, 0, room)
	for i := 0; i < n && !r.Failed(); i++ {
		r.Struct(2)
		list = append(list, proto.ACL{Perms: proto.Perm(r.Int(32)), ID: ReadID(r)})
	}
	return list
}
