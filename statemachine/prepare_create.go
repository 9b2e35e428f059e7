package statemachine

import (
	"fmt"
	"math"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// creation is what the two create requests have in common.
type creation struct {
	op proto.Op
	proto.CreateTTLRequest
}

func asCreation(op proto.Op, q proto.Record) (creation, bool) {
	switch q := q.(type) {
	case *proto.CreateRequest:
		return creation{op, proto.CreateTTLRequest{Path: q.Path, PathNull: q.PathNull, Data: q.Data, ACL: q.ACL, Flags: q.Flags}}, true
	case *proto.CreateTTLRequest:
		return creation{op, *q}, true
	}
	return creation{}, false
}

// checkKind holds a create's flags and time to live against the op. That comes even before the session; other operations
// have nothing to check there.
func (m *Machine) checkKind(op proto.Op, q proto.Record) proto.ErrCode {
	c, ok := asCreation(op, q)
	switch {
	case !ok:
		return proto.OK
	case !c.Flags.Valid():
		return proto.ErrBadArguments
	case c.Flags.TTL() && !m.cfg.ExtendedTypes:
		return proto.ErrUnimplemented
	case c.Flags.TTL() != (c.op == proto.OpCreateTTL):
		return proto.ErrBadArguments
	case c.Flags.TTL() && (c.TTL < 1 || c.TTL > proto.MaxTTL):
		return proto.ErrBadArguments
	}
	return proto.OK
}

// owner is what the new node will store.
func (c *creation) owner(session txn.SessionID) txn.SessionID {
	switch {
	case c.op == proto.OpCreateContainer:
		return txn.OwnerContainer
	case c.Flags.TTL():
		return txn.SessionID(txn.OwnerTTLMask | c.TTL)
	case c.Flags.Ephemeral():
		return session
	}
	return 0
}

func (m *Machine) create(r *txn.Request, c *creation) (txn.Body, proto.ErrCode) {
	if isSession(c.owner(r.Session)) && !m.knows(r.Session) {
		return nil, proto.ErrSessionExpired
	}
	if c.PathNull {
		return nil, proto.ErrMarshalling
	}
	if proto.ValidateForCreate(c.Path) != nil {
		return nil, proto.ErrBadArguments
	}
	acl, code := fixACL(c.ACL, r.Auth, &m.room)
	if code != proto.OK {
		return nil, code
	}
	parentPath := proto.Parent(c.Path)
	parent := m.pending.look(m.tree, parentPath)
	if !parent.exists {
		return nil, proto.ErrNoNode
	}
	if !m.allowed(parent.acl, proto.PermCreate, r.Auth) {
		return nil, proto.ErrNoAuth
	}
	path := c.Path
	if c.Flags.Sequential() {
		path = fmt.Sprintf("%s%010d", path, parent.cversion)
	}
	switch {
	case proto.ValidatePath(path) != nil || path == datatree.LimitsOfNothing:
		return nil, proto.ErrBadArguments
	case m.pending.look(m.tree, path).exists:
		return nil, proto.ErrNodeExists
	case isSession(parent.owner):
		return nil, proto.ErrNoChildrenForEphemerals
	case !m.fitsQuota(path, 1, len(c.Data)):
		return nil, proto.ErrQuotaExceeded
	}
	b := &txn.Create{Path: path, Data: c.Data, ACL: acl, Owner: c.owner(r.Session), ParentCversion: nextCversion(parent.cversion)}
	m.pending.create(parentPath, &parent, b)
	return b, proto.OK
}

// nextCversion counts a create. At the end of the numbers it stands still, as in ZooKeeper.
func nextCversion(c int32) int32 {
	if c == math.MaxInt32 {
		return c
	}
	return c + 1
}
