package sim

import (
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// primaryOrder holds the next record of the one history against the one before it: counters of an epoch have no gap and begin at 1 (I-4),
// and no smaller epoch follows a larger one (I-5).
func (c *checks) primaryOrder(n *node, last, z txn.Zxid) {
	first := z.Epoch() > last.Epoch()
	switch {
	case z.Epoch() < last.Epoch():
		c.w.violate("I-5", n.id, z, "applied behind %v, of a larger epoch", last)
	case first && z.Counter() != 1, !first && z.Counter() != last.Counter()+1:
		c.w.violate("I-4", n.id, z, "applied behind %v: the counter has a gap", last)
	}
}

// onDiskFailed: a call of the disk failed. In the middle of one of the writer's operations nothing that this process says counts any
// more; a snapshot that is written beside the loop may fail (K63).
func (c *checks) onDiskFailed(n *node, path string, err error) {
	if b := c.book(n); b.doing != nil && n.up && b.failed == "" {
		b.failed = path + ": " + err.Error()
		c.w.count("failed-disk")
	}
}

// onSaid: something leaves a process, for a peer or a client (I-43).
func (c *checks) onSaid(n *node, what any) {
	if b := c.book(n); b.failed != "" {
		c.w.violate("I-43", n.id, 0, "%T leaves after a failed disk: %s", what, b.failed)
	}
}

// onQueued and onCompleted keep which operations the disk owes to the core.
func (c *checks) onQueued(n *node, id uint64) {
	b := c.book(n)
	b.owed = append(b.owed, owed{id, b.roles})
}

func (c *checks) onCompleted(n *node, id uint64) {
	b := c.book(n)
	for i := range b.owed {
		if b.owed[i].id == id { // and everything before it
			b.owed = b.owed[i+1:]
			return
		}
	}
}

// operationID is the number by which a disk operation's completion is told.
func operationID(fx zab.Effect) uint64 {
	switch op := fx.(type) {
	case zab.Append:
		return op.ID
	case zab.SaveHardState:
		return op.ID
	case zab.Truncate:
		return op.ID
	case zab.InstallSnapshot:
		return op.ID
	case zab.Initialize:
		return op.ID
	}
	return 0
}

// owed is a disk operation whose completion the core has not been told, and which role asked for it.
type owed struct {
	id   uint64
	role int
}

// onRole: the log barrier stands between two roles: a new one begins when the disk owes nothing to an old one (R-1, I-50).
func (c *checks) onRole(n *node, role zab.Role) {
	b := c.book(n)
	if role != zab.Looking && len(b.owed) > 0 {
		c.w.violate("I-50", n.id, 0, "becomes %v while the disk owes %d operations of what it was before", role, len(b.owed))
	}
	b.roles++
}

// onVote: a server that has not come past the barrier has no vote.
func (c *checks) onVote(n *node, note *zab.Notification) {
	b := c.book(n)
	if note.State == zab.Looking && note.Vote.Leader != 0 && len(b.owed) > 0 && b.owed[0].role < b.roles {
		c.w.violate("I-50", n.id, note.Vote.Zxid, "votes while the disk owes operations of its last role")
	}
}

// onCalm: from now on only a minority is in trouble, and no trouble of a minority changes who leads (I-48).
func (c *checks) onCalm(on bool) {
	c.calm = 0
	if l := c.w.leader(); on && l != nil {
		c.calm = l.id
	}
}

// watchCalm looks after a turn whether the one that has to lead still does.
func (c *checks) watchCalm(n *node, st *zab.Status) {
	if c.calm == n.id && (st.Role != zab.Leading || st.Epoch == 0) {
		c.w.violate("I-48", n.id, 0, "leads no more (%s), and only a minority was in trouble", st.Reason)
	}
}
