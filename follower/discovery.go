package follower

import (
	"fmt"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func (f *Follower) onDialed(ev zab.Dialed) {
	if f.stage != stageDial || ev.Peer != f.leader {
		return
	}
	f.conn, f.stage, f.retry = ev.Conn, stageInfo, zab.Never
	f.heard, f.moved = f.now, f.now
	h := f.local.Hard
	f.send(&zab.FollowerInfo{Observer: f.observer, Accepted: h.Accepted, AcceptedLeader: h.AcceptedLeader, Current: h.Current,
		ConfigVersion: f.cfg.Members.Version, Votable: f.votable(), RecoveryID: h.RecoveryID})
}

// votable: quorum lets a fresh server into this role only in a founding or as RECOVERING, so what is left to ask is this.
func (f *Follower) votable() bool { return !f.local.Hard.Recovering && !f.observer }

// onDialFailed tries again soon: the leader may not have heard yet that it was elected.
func (f *Follower) onDialFailed(ev zab.DialFailed) {
	if f.stage != stageDial || ev.Peer != f.leader {
		return
	}
	f.retry = f.now.Add(f.backoff)
	f.backoff = min(2*f.backoff, f.cfg.ConnectMax)
}

func (f *Follower) checkDial() {
	switch {
	case f.now >= f.began.Add(f.cfg.ConnectLimit):
		f.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("server %d cannot be reached", f.leader), Unreachable: true})
	case f.now >= f.retry:
		f.retry = zab.Never
		f.fx.Add(zab.Dial{Peer: f.leader})
	}
}

// onLeaderInfo promises the epoch, to one leader only. The same promise may be given again (D7); a promise to somebody else
// is not a reason to stay away, but it is no vote.
func (f *Follower) onLeaderInfo(p *zab.LeaderInfo) {
	h := f.local.Hard
	floor := h.Accepted
	if f.observer {
		floor = h.Current // it promises nothing (§14)
	}
	switch {
	case f.stage != stageInfo || p.Epoch == 0 || p.Epoch > txn.MaxEpoch:
		f.protocol("LEADERINFO out of place")
		return
	case f.local.Initialized && p.ClusterID != h.ClusterID:
		f.quit(zab.ByeWrongCluster, zab.Leave{Reason: fmt.Sprintf("leader %d is of cluster %x, not %x", f.leader, p.ClusterID, h.ClusterID)})
		return
	case p.Epoch < floor || mutant.On("D7") && p.Epoch == h.Accepted:
		f.quit(zab.ByeEpochTooOld, zab.Leave{Reason: fmt.Sprintf("epoch %d of leader %d is older than %d", p.Epoch, f.leader, floor)})
		return
	}
	f.epoch, f.stage = p.Epoch, stagePromise
	want := h
	want.ClusterID = p.ClusterID
	if !f.observer && (p.Epoch > h.Accepted || mutant.On("R-22")) {
		want.Accepted, want.AcceptedLeader = p.Epoch, f.leader
	}
	if want != h {
		f.opID = f.local.SaveHard(f.now, want)
	}
}

// promised sends ACKEPOCH when the promise is on disk, and everything that was on its way to the disk before (O2, O12).
func (f *Follower) promised() {
	if !f.local.Idle() && !mutant.On("O2") {
		return
	}
	h, hist := f.local.Hard, f.local.Hist
	if mutant.On("O2") && h.Accepted < f.epoch {
		h.Accepted, h.AcceptedLeader = f.epoch, f.leader
	}
	if hist.Durable != hist.End.Zxid {
		f.fatal(zab.ExitBrokenInvariant, "an idle disk holds %v of a history that ends at %v", hist.Durable, hist.End.Zxid)
		return
	}
	f.stage = stageHeader
	f.send(&zab.AckEpoch{
		Epoch:         f.epoch,
		Vote:          f.votable() && h.Accepted == f.epoch && h.AcceptedLeader == f.leader,
		Current:       h.Current,
		Last:          hist.End,
		Table:         hist.Table.Clone(),
		MinRestorable: hist.Applied,
	})
}
