package txn

import "github.com/zkd-project/zkd/proto"

// Type tells the bodies apart in bytes. Values are frozen: logs and snapshots on disk hold them.
type Type uint8

// The types of a transaction. New ones go at the end.
const (
	TypeInvalid Type = iota
	TypeError
	TypeCreate
	TypeDelete
	TypeSetData
	TypeSetACL
	TypeCheck
	TypeMulti
	TypeCreateSession
	TypeCloseSession
	TypeSecret
	TypeReadmit
	TypeDeleteContainer
	typeEnd
)

var typeNames = [...]string{"invalid", "error", "create", "delete", "setData", "setACL", "check", "multi", "createSession",
	"closeSession", "secret", "readmit", "deleteContainer"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// Header says who asked for a transaction and when it was prepared. (Session, Cxid, Origin, Conn) leads the origin back to the
// client that waits.
type Header struct {
	Session SessionID
	Cxid    int32
	Origin  ServerID
	Conn    uint64
	Time    int64    // wall clock of the leader, milliseconds since 1970, never below the predecessor's
	Op      proto.Op // what was asked; the shape of the reply depends on it
}

// Txn is one transaction: what happens, to the last detail. It is never changed once made.
type Txn struct {
	Header
	Body Body
}

// Body is what a transaction does: one of the types of body.go.
type Body interface {
	Type() Type
}
