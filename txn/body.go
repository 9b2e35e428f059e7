package txn

import "github.com/zkd-project/zkd/proto"

// Owner values of a znode that is not owned by a session; they are what disks and digests hold.
const (
	OwnerContainer SessionID = -1 << 63       // 0x8000000000000000
	OwnerTTLMask   int64     = -0x1 << 56     // 0xFF in the top byte: the low 40 bits are a TTL in milliseconds
	MaxTTL         int64     = 0xFF_FFFF_FFFF // milliseconds
)

// Error is a request that was refused with a code. It has a place in the history so that its reply has one.
type Error struct{ Code proto.ErrCode }

// Create makes a znode. Path is final, suffix included.
type Create struct {
	Path string
	Data []byte // nil is null, which clients tell from empty
	ACL  []proto.ACL
	// Owner is the session for an ephemeral, OwnerContainer, a TTL (OwnerTTLMask), or 0.
	Owner SessionID
	// ParentCversion is the parent's count of child creates after this one (the raw cversion).
	ParentCversion int32

	payload string // Path and then Data, if a Decoder has made them one
}

// TakePayload gives away Path and then Data as one string, if a Decoder has made one: whoever calls is the only one who gets it, and may keep
// its memory as his own. "" otherwise.
func (c *Create) TakePayload() string {
	p := c.payload
	c.payload = ""
	return p
}

// Delete removes a znode. Its parent's pzxid moves.
type Delete struct{ Path string }

// SetData replaces a znode's data. Version is the one after it.
type SetData struct {
	Path    string
	Data    []byte
	Version int32
}

// SetACL replaces a znode's ACL. Aversion is the one after it.
type SetACL struct {
	Path     string
	ACL      []proto.ACL
	Aversion int32
}

// Check was a version check inside a multi, and held.
type Check struct {
	Path    string
	Version int32
}

// MultiOp is one operation of a Multi. Op shapes its result; Body is Create, Delete, SetData, Check, or Error.
type MultiOp struct {
	Op   proto.Op
	Body Body
}

// Multi is all or nothing. If any Body is an Error then all are, and nothing is applied: Code 0 before the one that failed,
// its code there, ErrRuntimeInconsistency behind it.
type Multi struct{ Ops []MultiOp }

// Failed reports whether the multi applies nothing.
func (m *Multi) Failed() bool {
	for _, op := range m.Ops {
		if _, bad := op.Body.(*Error); bad {
			return true
		}
	}
	return false
}

// CreateSession opens a session. TimeoutMillis > 0.
type CreateSession struct{ TimeoutMillis int32 }

// CloseSession ends the header's session; its ephemerals go with it, found by owner when it is applied.
type CloseSession struct{}

// Secret gives the ensemble its secret, from which session passwords are computed. It is the first txn of a history.
type Secret struct{ Secret []byte }

// Readmit lets the member count again (docs/protocol.md §18.5). It changes nothing in the tree.
type Readmit struct {
	Server     ServerID
	RecoveryID uint64
}

// DeleteContainer removes an empty container or an expired TTL znode if it is still empty; Gone says that it was removed.
type DeleteContainer struct {
	Path string
	Gone bool
}

// Type tells which body it is.
func (*Error) Type() Type           { return TypeError }
func (*Create) Type() Type          { return TypeCreate }
func (*Delete) Type() Type          { return TypeDelete }
func (*SetData) Type() Type         { return TypeSetData }
func (*SetACL) Type() Type          { return TypeSetACL }
func (*Check) Type() Type           { return TypeCheck }
func (*Multi) Type() Type           { return TypeMulti }
func (*CreateSession) Type() Type   { return TypeCreateSession }
func (*CloseSession) Type() Type    { return TypeCloseSession }
func (*Secret) Type() Type          { return TypeSecret }
func (*Readmit) Type() Type         { return TypeReadmit }
func (*DeleteContainer) Type() Type { return TypeDeleteContainer }
