package statemachine

import (
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// Faded returns requests to delete the containers and the znodes with a time to live whose time is over at nowMillis, in the order
// of their paths; see the tree's Faded for neverUsed. They have no session. Prepare looks again before it deletes. It may run
// beside reads.
func (m *Machine) Faded(nowMillis int64, neverUsed time.Duration) []txn.Request {
	due := m.tree.Faded(nowMillis, neverUsed)
	reqs := make([]txn.Request, len(due))
	for i, f := range due {
		reqs[i] = txn.Request{Op: proto.OpDeleteContainer, Payload: proto.AppendInt64(proto.AppendString(nil, f.Path), int64(f.Mzxid))}
	}
	return reqs
}

// deleteContainer is the sweeper's, which has no session: a client has no business with it. The node stays if anything happened
// to it since the sweeper looked.
func (m *Machine) deleteContainer(r *txn.Request) (txn.Body, proto.ErrCode) {
	if r.Session != 0 {
		return nil, proto.ErrBadArguments
	}
	q := proto.NewReader(r.Payload)
	path, mzxid := q.String(), txn.Zxid(q.Int64())
	if q.Err() != nil {
		return nil, proto.ErrMarshalling
	}
	if proto.ValidateForDelete(path) != nil {
		return nil, proto.ErrBadArguments
	}
	n, touched := m.tree.Get(path), m.pending.changes[path] != nil
	gone := !touched && n != nil && n.Mzxid() == mzxid && n.NumChildren() == 0 && n.Owner() != 0 && !n.Ephemeral()
	if gone {
		m.pending.remove(m.tree, path)
	}
	return &txn.DeleteContainer{Path: path, Gone: gone}, proto.OK
}
