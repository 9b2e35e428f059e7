package statemachine

import (
	"errors"
	"fmt"
	"math"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// undecodable stands for ErrMarshalling where the bytes are no request at all: that gets no place in the history,
// except for a multi.
const undecodable proto.ErrCode = 1

// tooLarge stands for a transaction that would be longer than Config.MaxTxnBytes, where that is known before it is made.
const tooLarge proto.ErrCode = 2

// anyVersion as a wanted version matches every version.
const anyVersion = -1

// Prepare turns requests into transactions, one draft for each request in the same order, against the applied state and all
// drafts that are outstanding. A request that fails becomes a txn.Error or a failed txn.Multi: it gets a place in the history
// like any other. Refused are only a transaction that would be too large and bytes that do not decode. wallMillis is the leader's wall clock in milliseconds
// since 1970. The drafts point to reqs and share their payloads. Only the leader calls it, with everything before its own
// proposals applied.
func (m *Machine) Prepare(reqs []txn.Request, wallMillis int64) []txn.Draft {
	m.pending.millis = max(m.pending.millis, m.millis, wallMillis)
	if mutant.On("R-50") {
		m.pending.millis = wallMillis
	}
	drafts := make([]txn.Draft, len(reqs))
	for i := range reqs {
		drafts[i] = m.prepare(&reqs[i])
	}
	return drafts
}

// Abandon forgets everything outstanding: the leader that prepared it leads no more.
func (m *Machine) Abandon() { m.pending = newPending() }

func (m *Machine) prepare(r *txn.Request) txn.Draft {
	t := &txn.Txn{Header: txn.Header{Session: r.Session, Cxid: r.Cxid, Origin: r.Origin, Conn: r.Conn, Time: m.pending.millis, Op: r.Op}}
	m.pending.begin(t.Header)
	m.room = math.MaxInt
	if m.cfg.MaxTxnBytes > 0 {
		m.room = m.cfg.MaxTxnBytes
	}
	body, code := m.body(r)
	switch code {
	case undecodable:
		return txn.RefuseDraft(r, txn.RefusedMalformed)
	case tooLarge:
		m.pending.rollback()
		return txn.RefuseDraft(r, txn.RefusedTooLarge)
	}
	if code != proto.OK {
		m.pending.rollback()
		body = &txn.Error{Code: code}
	}
	t.Body = body
	d := txn.NewDraft(t, r)
	if m.cfg.MaxTxnBytes > 0 && d.Size() > m.cfg.MaxTxnBytes {
		m.pending.rollback()
		return txn.RefuseDraft(r, txn.RefusedTooLarge)
	}
	m.pending.keep(code == proto.OK)
	return d
}

// body decides a request. It leaves the edits of a request that succeeds in pending.
func (m *Machine) body(r *txn.Request) (txn.Body, proto.ErrCode) {
	switch r.Op {
	case proto.OpSetData: // like single, with a request that need not be allocated
		var q proto.SetDataRequest
		if q.Decode(proto.NewReader(r.Payload)) != nil {
			return nil, undecodable
		}
		if code := m.checkSession(r.Session); code != proto.OK {
			return nil, code
		}
		return m.setData(r, &q)
	case proto.OpCreate, proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL, proto.OpDelete:
		q := proto.NewRequest(r.Op)
		if q.Decode(proto.NewReader(r.Payload)) != nil {
			return nil, undecodable
		}
		return m.single(r, q)
	case proto.OpSetACL:
		return m.setACL(r)
	case proto.OpMulti:
		return m.multi(r)
	case proto.OpReconfig:
		return nil, m.reconfig(r)
	case proto.OpDeleteContainer:
		return m.deleteContainer(r)
	case proto.OpCreateSession:
		return m.createSession(r)
	case proto.OpCloseSession:
		return m.closeSession(r)
	case txn.OpSecret:
		return m.secret(r)
	case txn.OpReadmit:
		sid, recovery, ok := txn.ParseReadmit(r.Payload)
		if !ok {
			return nil, proto.ErrMarshalling
		}
		return &txn.Readmit{Server: sid, RecoveryID: recovery}, proto.OK
	}
	return nil, proto.ErrUnimplemented
}

// single is a request that could also be part of a multi, on its own.
func (m *Machine) single(r *txn.Request, q proto.Record) (txn.Body, proto.ErrCode) {
	if code := m.checkKind(r.Op, q); code != proto.OK {
		return nil, code
	}
	if code := m.checkSession(r.Session); code != proto.OK {
		return nil, code
	}
	return m.op(r, r.Op, q)
}

// op decides one operation, alone or within a multi. Session and kind are known to be good.
func (m *Machine) op(r *txn.Request, op proto.Op, q proto.Record) (txn.Body, proto.ErrCode) {
	switch q := q.(type) {
	case *proto.CreateRequest, *proto.CreateTTLRequest:
		c, _ := asCreation(op, q)
		return m.create(r, &c)
	case *proto.DeleteRequest:
		return m.delete(r, q)
	case *proto.SetDataRequest:
		return m.setData(r, q)
	case *proto.CheckVersionRequest:
		return m.check(r, q)
	}
	panic(fmt.Sprintf("statemachine: %T is no write", q))
}

func (m *Machine) delete(r *txn.Request, q *proto.DeleteRequest) (txn.Body, proto.ErrCode) {
	if q.PathNull {
		return nil, proto.ErrMarshalling
	}
	if proto.ValidateForDelete(q.Path) != nil {
		return nil, proto.ErrBadArguments
	}
	parent := m.pending.look(m.tree, proto.Parent(q.Path))
	if !parent.exists {
		return nil, proto.ErrNoNode
	}
	if !m.allowed(parent.acl, proto.PermDelete, r.Auth) {
		return nil, proto.ErrNoAuth
	}
	n := m.pending.look(m.tree, q.Path)
	switch {
	case !n.exists:
		return nil, proto.ErrNoNode
	case q.Version != anyVersion && q.Version != n.version:
		return nil, proto.ErrBadVersion
	case n.childs > 0:
		return nil, proto.ErrNotEmpty
	}
	m.pending.remove(m.tree, q.Path)
	return &txn.Delete{Path: q.Path}, proto.OK
}

func (m *Machine) setData(r *txn.Request, q *proto.SetDataRequest) (txn.Body, proto.ErrCode) {
	n, code := m.target(r, q.Path, proto.PermWrite)
	if code != proto.OK {
		return nil, code
	}
	if !m.fitsQuota(q.Path, 0, len(q.Data)-n.dataLen) {
		return nil, proto.ErrQuotaExceeded
	}
	if q.Version != anyVersion && q.Version != n.version {
		return nil, proto.ErrBadVersion
	}
	e := m.pending.edit(q.Path, &n)
	e.version++
	e.dataLen = len(q.Data)
	return &txn.SetData{Path: q.Path, Data: q.Data, Version: e.version}, proto.OK
}

func (m *Machine) check(r *txn.Request, q *proto.CheckVersionRequest) (txn.Body, proto.ErrCode) {
	n, code := m.target(r, q.Path, proto.PermRead)
	if code != proto.OK {
		return nil, code
	}
	if q.Version != anyVersion && q.Version != n.version {
		return nil, proto.ErrBadVersion
	}
	return &txn.Check{Path: q.Path, Version: q.Version}, proto.OK
}

func (m *Machine) setACL(r *txn.Request) (txn.Body, proto.ErrCode) {
	var q proto.SetACLRequest
	if q.Decode(proto.NewReader(r.Payload)) != nil {
		return nil, undecodable
	}
	if code := m.checkSession(r.Session); code != proto.OK {
		return nil, code
	}
	if proto.ValidatePath(q.Path) != nil {
		return nil, proto.ErrBadArguments
	}
	acl, code := fixACL(q.ACL, r.Auth, &m.room)
	if code != proto.OK {
		return nil, code
	}
	n, code := m.target(r, q.Path, proto.PermAdmin)
	if code != proto.OK {
		return nil, code
	}
	if q.Version != anyVersion && q.Version != n.aversion {
		return nil, proto.ErrBadVersion
	}
	e := m.pending.edit(q.Path, &n)
	e.aversion++
	e.acl = acl
	return &txn.SetACL{Path: q.Path, ACL: acl, Aversion: e.aversion}, proto.OK
}

// target returns the node that an operation is about if the path is well formed, the node there, and the permission given.
func (m *Machine) target(r *txn.Request, path string, want proto.Perm) (znode, proto.ErrCode) {
	if proto.ValidatePath(path) != nil { // a null path arrives as "", which is not one either
		return znode{}, proto.ErrBadArguments
	}
	n := m.pending.look(m.tree, path)
	if !n.exists {
		return znode{}, proto.ErrNoNode
	}
	if !m.allowed(n.acl, want, r.Auth) {
		return znode{}, proto.ErrNoAuth
	}
	return n, proto.OK
}

// multi succeeds also when one of its operations fails: the outcome is then a list of errors.
func (m *Machine) multi(r *txn.Request) (txn.Body, proto.ErrCode) {
	ops, err := proto.DecodeMulti(proto.NewReader(r.Payload))
	switch {
	case errors.Is(err, proto.ErrNullACL):
		return nil, undecodable
	case err != nil || !proto.MultiFits(proto.OpMulti, ops):
		return nil, proto.ErrMarshalling
	}
	if code := m.checkSession(r.Session); code != proto.OK {
		return nil, code
	}
	b := &txn.Multi{Ops: make([]txn.MultiOp, len(ops))}
	for i := range ops {
		var body txn.Body
		code := m.checkKind(ops[i].Op, ops[i].Request)
		if code == proto.OK {
			body, code = m.op(r, ops[i].Op, ops[i].Request)
		}
		if code == tooLarge {
			return nil, code
		}
		if code == proto.ErrMarshalling { // a null where there may be none spoils the whole
			return nil, code
		}
		if code != proto.OK {
			m.pending.rollback()
			failMulti(b, ops, i, code)
			break
		}
		b.Ops[i] = txn.MultiOp{Op: ops[i].Op, Body: body}
	}
	return b, proto.OK
}

// failMulti fills in the results of a multi whose operation at failed.
func failMulti(b *txn.Multi, ops []proto.MultiOp, failed int, code proto.ErrCode) {
	for i := range ops {
		c := proto.OK
		switch {
		case i == failed:
			c = code
		case i > failed:
			c = proto.ErrRuntimeInconsistency
		}
		b.Ops[i] = txn.MultiOp{Op: ops[i].Op, Body: &txn.Error{Code: c}}
	}
}
