package quorum

import (
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// onClient answers what this server's own edge asks while there is no role that could: it is certainly not in the history. It reports
// whether a core is there to answer instead.
func (n *Node) onClient(ev zab.Event) bool {
	if n.core != nil {
		return true
	}
	switch ev := ev.(type) {
	case zab.Submit:
		rs := make([]zab.Refusal, len(ev.Requests))
		for i := range ev.Requests {
			rs[i] = zab.RefusalOf(&ev.Requests[i], txn.RefusedNotLeader)
		}
		n.add(zab.Refuse{Refusals: rs})
	case zab.SyncAsked:
		n.add(zab.SyncAnswer{Synced: zab.Synced{ID: ev.ID}})
	case zab.RevalidateAsked:
		n.add(zab.RevalidateAnswer{Revalidated: zab.Revalidated{ID: ev.Revalidate.ID}})
	}
	return false
}

// Status is a picture of this server; it shares nothing with it.
func (n *Node) Status() zab.Status {
	h := n.local.Hist
	s := zab.Status{
		Self: n.cfg.Self, Role: zab.Looking, Accepted: n.local.Hard.Accepted, Current: n.local.Hard.Current, Votable: n.votable(),
		Reason: n.reason, LogEnd: h.End.Zxid, Durable: h.Durable, Commit: h.Commit, Applied: h.Applied,
		DiskLow: n.local.DiskLow, Full: n.local.DiskFull,
	}
	switch {
	case n.stage == ended:
		s.Role = zab.Stopped
	case n.core != nil:
		s.Role, s.Phase, s.Leader, s.Epoch, s.Reason = n.role, n.core.Phase(), n.try.leader, n.core.Established(), ""
		n.core.Status(&s)
	}
	s.Elections, s.LastFailover = n.elections, int64(n.failover)
	s.SyncDiff += n.totals.SyncDiff
	s.SyncTrunc += n.totals.SyncTrunc
	s.SyncSnap += n.totals.SyncSnap
	return s
}

// keepTotals saves the counters of a core that goes.
func (n *Node) keepTotals() {
	var s zab.Status
	n.core.Status(&s)
	n.totals.SyncDiff += s.SyncDiff
	n.totals.SyncTrunc += s.SyncTrunc
	n.totals.SyncSnap += s.SyncSnap
}
