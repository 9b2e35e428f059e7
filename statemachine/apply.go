package statemachine

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// ErrOrder is returned by Apply for a zxid that is not above the last one.
var ErrOrder = errors.New("zxid is not above the last applied one")

// Event is what happened to a path, for watches. NodeDeleted stands for the deletion in the data and in the child table: first
// data and recursive watches of the path, then its child watches except on connections that were told by the first step.
type Event = datatree.Event

// Result is what one transaction did here.
type Result struct {
	Zxid   txn.Zxid
	Txn    *txn.Txn      // shared: do not change it
	Err    proto.ErrCode // of the request; of a multi that failed, the code of the operation that did
	Events []Event       // in the order in which a client must get them; the slice is the caller's

	stat    proto.Stat          // of the node that a single operation left behind
	results []proto.MultiResult // of a multi
}

// Foresee looks up what the next records to be applied are about. It changes nothing: where Apply would wait for memory once for each, here the
// processor waits for many at once, since no lookup depends on another.
func (m *Machine) Foresee(recs []txn.Record) {
	for i := range recs {
		_, _ = recs[i].Txn() // Apply finds the error again
	}
	for i := range recs {
		if t, err := recs[i].Txn(); err == nil {
			m.foresee(t.Body)
		}
	}
}

func (m *Machine) foresee(body txn.Body) {
	switch b := body.(type) {
	case *txn.SetData:
		m.tree.Get(b.Path)
	case *txn.Create:
		m.tree.Get(b.Path)
	case *txn.Delete:
		m.tree.Get(b.Path)
	case *txn.Multi:
		for i := range b.Ops {
			m.foresee(b.Ops[i].Body)
		}
	}
}

// Apply carries out a committed transaction. Its errors are broken invariants (an order that cannot be, a payload of another
// version, a transaction that does not fit the state): the state is then undefined and the server must stop.
func (m *Machine) Apply(rec *txn.Record) (Result, error) {
	res, err := m.carryOut(rec, nil)
	if err == nil {
		m.marks.add(rec.Zxid, m.tree.Digest())
	}
	return res, err
}

// Replay is Apply of some records where nobody wants to know the results, nor the digest before Settle.
func (m *Machine) Replay(recs []txn.Record) error {
	for i := range recs {
		res, err := m.carryOut(&recs[i], m.spare[:0])
		m.spare = res.Events
		if err != nil {
			return err
		}
	}
	return nil
}

// carryOut appends the events to events.
func (m *Machine) carryOut(rec *txn.Record, events datatree.Events) (Result, error) {
	if rec.Zxid <= m.zxid {
		return Result{}, fmt.Errorf("apply %v after %v: %w", rec.Zxid, m.zxid, ErrOrder)
	}
	t, err := rec.Txn()
	if err != nil {
		return Result{}, err
	}
	res := Result{Zxid: rec.Zxid, Txn: t, Events: events}
	if err := m.apply(&res); err != nil {
		return Result{}, fmt.Errorf("apply %v: %w", rec.Zxid, err)
	}
	if err := m.pending.applied(&t.Header); err != nil {
		return Result{}, fmt.Errorf("apply %v: %w", rec.Zxid, err)
	}
	m.zxid = rec.Zxid
	m.millis = max(m.millis, t.Time)
	return res, nil
}

func (m *Machine) apply(res *Result) (err error) {
	switch b := res.Txn.Body.(type) {
	case *txn.Error:
		res.Err = b.Code
	case *txn.Multi:
		return m.applyMulti(res, b)
	case *txn.CreateSession:
		m.sessions.Add(res.Txn.Session, b.TimeoutMillis)
	case *txn.CloseSession:
		m.sessions.Remove(res.Txn.Session)
		res.Events, err = m.tree.DeleteOwned(res.Zxid, res.Txn.Session, res.Events)
	case *txn.Secret:
		m.sessions.SetSecret(b.Secret)
	case *txn.Readmit:
	case *txn.DeleteContainer:
		if b.Gone {
			res.Events, err = m.tree.Delete(res.Zxid, b.Path, res.Events)
		}
	default:
		res.stat, err = m.applyOp(res, b)
	}
	return err
}

// applyOp carries out one operation on the tree and returns the Stat that it leaves behind.
func (m *Machine) applyOp(res *Result, body txn.Body) (stat proto.Stat, err error) {
	switch b := body.(type) {
	case *txn.Create:
		stat, res.Events, err = m.tree.Create(res.Zxid, res.Txn.Time, b, res.Events)
	case *txn.Delete:
		res.Events, err = m.tree.Delete(res.Zxid, b.Path, res.Events)
	case *txn.SetData:
		stat, res.Events, err = m.tree.SetData(res.Zxid, res.Txn.Time, b, res.Events)
	case *txn.SetACL:
		stat, err = m.tree.SetACL(b)
	case *txn.Check:
	default:
		return stat, fmt.Errorf("%w: body %T", datatree.ErrUnfit, body)
	}
	return stat, err
}

func (m *Machine) applyMulti(res *Result, b *txn.Multi) error {
	res.results = make([]proto.MultiResult, len(b.Ops))
	failed := b.Failed()
	for i, op := range b.Ops {
		r := &res.results[i]
		r.Op = op.Op
		if failed {
			e, bad := op.Body.(*txn.Error)
			if !bad {
				return fmt.Errorf("%w: a multi that is half an error", datatree.ErrUnfit)
			}
			r.Op, r.Err = proto.OpError, e.Code
			if e.Code != proto.OK && res.Err == proto.OK {
				res.Err = e.Code
			}
			continue
		}
		if c, ok := op.Body.(*txn.Create); ok {
			r.Path = c.Path
		}
		var err error
		if r.Stat, err = m.applyOp(res, op.Body); err != nil {
			return err
		}
	}
	return nil
}

// HeaderErr is the code for the reply's header. It is OK for a multi of which an operation failed: the body tells.
func (r *Result) HeaderErr() proto.ErrCode {
	if r.results != nil {
		return proto.OK
	}
	return r.Err
}

// AppendReply appends the reply's record, without the header, for the op that was asked: nothing if HeaderErr is not OK, or if
// the op has no reply record.
func (r *Result) AppendReply(dst []byte) []byte {
	if r.HeaderErr() != proto.OK {
		return dst
	}
	switch r.Txn.Op {
	case proto.OpCreate:
		return proto.AppendString(dst, r.Txn.Body.(*txn.Create).Path)
	case proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL:
		return r.stat.Append(proto.AppendString(dst, r.Txn.Body.(*txn.Create).Path))
	case proto.OpSetData, proto.OpSetACL:
		return r.stat.Append(dst)
	case proto.OpMulti:
		return proto.AppendMultiResults(dst, r.results)
	}
	return dst
}
