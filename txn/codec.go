package txn

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/proto"
)

// ErrPayload is returned for a payload that is not a transaction this version knows.
var ErrPayload = errors.New("payload is not a transaction")

// wire is a transaction on its way through msgpack: one array, the type first so that a reader knows what the last element is.
type wire[B any] struct {
	Type    Type
	Session SessionID
	Cxid    int32
	Origin  ServerID
	Conn    uint64
	Time    int64
	Op      proto.Op
	Body    B
}

// wireFields is the array header that every payload starts with: msgpack's fixarray of 8.
const wireFields = 0x98

// wireOp is one operation of a multi; its body is nested msgpack.
type wireOp struct {
	Op   proto.Op
	Type Type
	Body []byte
}

func appendPayload(dst []byte, t *Txn) []byte {
	if b, ok := appendPlain(dst, t); ok {
		return b
	}
	return appendByLibrary(dst, t)
}

// appendByLibrary takes every body, those of appendPlain too: they are its twin in a test.
func appendByLibrary(dst []byte, t *Txn) []byte {
	switch b := t.Body.(type) {
	case *Error:
		return appendWire(dst, t, *b)
	case *Create:
		return appendWire(dst, t, *b)
	case *Delete:
		return appendWire(dst, t, *b)
	case *SetData:
		return appendWire(dst, t, *b)
	case *SetACL:
		return appendWire(dst, t, *b)
	case *Check:
		return appendWire(dst, t, *b)
	case *Multi:
		return appendWire(dst, t, multiToWire(b))
	case *CreateSession:
		return appendWire(dst, t, *b)
	case *CloseSession:
		return appendWire(dst, t, *b)
	case *Secret:
		return appendWire(dst, t, *b)
	case *Readmit:
		return appendWire(dst, t, *b)
	case *DeleteContainer:
		return appendWire(dst, t, *b)
	}
	panic(fmt.Sprintf("txn: unknown body %T", t.Body))
}

func appendWire[B any](dst []byte, t *Txn, body B) []byte {
	return msgpack.Append(dst, &wire[B]{Type: t.Body.Type(), Session: t.Session, Cxid: t.Cxid, Origin: t.Origin, Conn: t.Conn,
		Time: t.Time, Op: t.Op, Body: body})
}

// multiToWire may nest only what MultiOp allows; anything else is a programming error of prepare.
func multiToWire(m *Multi) []wireOp {
	ops := make([]wireOp, len(m.Ops))
	for i, op := range m.Ops {
		w := wireOp{Op: op.Op, Type: op.Body.Type()}
		switch op.Body.(type) {
		case *Error, *Create, *Delete, *SetData, *Check:
			w.Body = msgpack.Append(nil, op.Body)
		default:
			panic(fmt.Sprintf("txn: %T inside a multi", op.Body))
		}
		ops[i] = w
	}
	return ops
}

func decodePayload(b []byte, d *Decoder) (*Txn, error) {
	if t, ok := decodePlain(b, d); ok {
		return t, nil
	}
	return decodeByLibrary(b)
}

func decodeByLibrary(b []byte) (*Txn, error) {
	if len(b) < 2 || b[0] != wireFields {
		return nil, ErrPayload
	}
	switch t := Type(b[1]); t {
	case TypeError:
		return decodeWire[Error](b)
	case TypeCreate:
		return decodeWire[Create](b)
	case TypeDelete:
		return decodeWire[Delete](b)
	case TypeSetData:
		return decodeWire[SetData](b)
	case TypeSetACL:
		return decodeWire[SetACL](b)
	case TypeCheck:
		return decodeWire[Check](b)
	case TypeMulti:
		return decodeMulti(b)
	case TypeCreateSession:
		return decodeWire[CreateSession](b)
	case TypeCloseSession:
		return decodeWire[CloseSession](b)
	case TypeSecret:
		return decodeWire[Secret](b)
	case TypeReadmit:
		return decodeWire[Readmit](b)
	case TypeDeleteContainer:
		return decodeWire[DeleteContainer](b)
	default:
		return nil, fmt.Errorf("%w: type %d", ErrPayload, t)
	}
}

// body ties a struct to its pointer, which is the Body.
type body[B any] interface {
	*B
	Body
}

func decodeWire[B any, P body[B]](b []byte) (*Txn, error) {
	var w wire[B]
	if err := msgpack.Decode(b, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	t := header(&w)
	t.Body = P(&w.Body)
	return t, nil
}

func header[B any](w *wire[B]) *Txn {
	return &Txn{Header: Header{Session: w.Session, Cxid: w.Cxid, Origin: w.Origin, Conn: w.Conn, Time: w.Time, Op: w.Op}}
}

func decodeMulti(b []byte) (*Txn, error) {
	var w wire[[]wireOp]
	if err := msgpack.Decode(b, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	m := &Multi{Ops: make([]MultiOp, len(w.Body))}
	for i, op := range w.Body {
		var nested Body
		switch op.Type {
		case TypeError:
			nested = &Error{}
		case TypeCreate:
			nested = &Create{}
		case TypeDelete:
			nested = &Delete{}
		case TypeSetData:
			nested = &SetData{}
		case TypeCheck:
			nested = &Check{}
		default:
			return nil, fmt.Errorf("%w: type %d inside a multi", ErrPayload, op.Type)
		}
		if err := msgpack.Decode(op.Body, nested); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPayload, err)
		}
		m.Ops[i] = MultiOp{Op: op.Op, Body: nested}
	}
	t := header(&w)
	t.Body = m
	return t, nil
}
