package follower

import (
	"fmt"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/zab"
)

// onDiff: the stream goes on behind the end of this history. That both really have it shows in the chain (D5).
func (f *Follower) onDiff(p *zab.Diff) {
	h := f.local.Hist
	switch {
	case f.stage != stageHeader:
		f.protocol("DIFF out of place")
	case f.forked(p.From):
	case p.From.Zxid != h.End.Zxid:
		f.gap(fmt.Sprintf("DIFF from %v, the history ends at %v", p.From.Zxid, h.End.Zxid))
	default:
		f.mode = "DIFF"
		f.stats.diff++
		if mutant.On("O5") {
			f.claim()
		}
		f.stage = stageRecords
	}
}

// onTrunc cuts what the leader does not have. What was applied or known as committed is never cut: a leader that asks for it shows that
// the ensemble has lost something, and people must look.
func (f *Follower) onTrunc(p *zab.Trunc) {
	h := f.local.Hist
	switch {
	case f.stage != stageHeader:
		f.protocol("TRUNC out of place")
	case p.To.Zxid > h.End.Zxid:
		f.gap(fmt.Sprintf("TRUNC to %v, the history ends at %v", p.To.Zxid, h.End.Zxid))
	case f.undoes(p.To):
	case f.forked(p.To):
	case f.unknown(p.To):
		f.reject("no record at the point to cut to")
	default:
		f.mode = "TRUNC"
		f.stats.trunc++
		f.local.Truncate(f.now, p.To)
		f.stage = stageRecords
	}
}

// undoes handles a common point below what cannot be undone. It reports whether it did.
func (f *Follower) undoes(common zab.Position) bool {
	h := f.local.Hist
	switch {
	case common.Zxid >= max(h.Applied, h.Commit) || mutant.On("R-31"):
		return false
	case !f.local.Hard.Recovering:
		f.fatal(zab.ExitTruncation, "leader %d of epoch %d has this history only up to %v, but %v is committed here", f.leader, f.epoch,
			common.Zxid, max(h.Applied, h.Commit))
	default:
		f.reject("applied more than that")
	}
	return true
}

// forked: both sides have this zxid and what it stands for differs (S15, I-10). Files are left as they are.
func (f *Follower) forked(p zab.Position) bool {
	chain, ok := f.local.Hist.ChainAt(p.Zxid)
	if !ok || chain == p.Chain {
		return false
	}
	f.fatal(zab.ExitBrokenInvariant, "this history and that of leader %d differ at %v: chain %x and %x", f.leader, p.Zxid, chain, p.Chain)
	return true
}

func (f *Follower) unknown(p zab.Position) bool {
	_, ok := f.local.Hist.ChainAt(p.Zxid)
	return !ok
}

// onSnapBegin lets a snapshot come in. It must not take this server back behind what it shares with the leader nor behind what
// it has applied, for what lies between may have been acked.
func (f *Follower) onSnapBegin(p *zab.SnapBegin) {
	h := f.local.Hist
	switch {
	case f.stage != stageHeader:
		f.protocol("SNAPBEGIN out of place")
	case p.CommonKnown && f.undoesBySnap(p):
	case p.CommonKnown && p.At.Zxid < p.Common && !mutant.On("R-67"):
		f.reject(fmt.Sprintf("snapshot at %v is below the common point %v", p.At.Zxid, p.Common))
	case p.At.Zxid <= h.Applied && !f.local.Hard.Recovering:
		f.reject(fmt.Sprintf("snapshot at %v is not above what is applied", p.At.Zxid))
	default:
		f.mode = "SNAP"
		if mutant.On("R-29") {
			h.Rebase(p.At, p.Size, p.Table)
		}
		f.stage = stageReceive
		f.fx.Add(zab.ReceiveSnapshot{Conn: f.conn, Begin: *p})
	}
}

// undoesBySnap is R-31 for a snapshot, which would undo silently what a TRUNC would undo openly. A RECOVERING server may be taken
// anywhere by a snapshot: that is what it is for.
func (f *Follower) undoesBySnap(p *zab.SnapBegin) bool {
	if f.local.Hard.Recovering {
		return false
	}
	return f.undoes(zab.Position{Zxid: p.Common})
}

// reject says what cannot be done and waits for another header.
func (f *Follower) reject(reason string) {
	h := f.local.Hist
	f.note(zab.Note{Level: zab.Warn, Message: zab.NoteRefused, Peer: f.leader, Zxid: h.End.Zxid, Reason: reason})
	f.stage, f.rejected = stageHeader, true
	f.send(&zab.SyncReject{Reason: reason, Last: h.End, MinRestorable: h.Applied})
}

// gap: the stream does not continue where this history ends. Going on would leave a hole.
func (f *Follower) gap(why string) {
	f.note(zab.Note{Level: zab.Warn, Message: zab.NoteRefused, Peer: f.leader, Zxid: f.local.Hist.End.Zxid, Reason: why})
	f.quit(zab.ByeSyncGap, zab.Leave{Reason: why, Lost: f.stage >= stageUpToDate})
}

// onSnapshotReceived installs it. Nothing is applied meanwhile: before UPTODATE nothing ever is.
func (f *Follower) onSnapshotReceived(ev zab.SnapshotReceived) {
	if f.stage != stageReceive || ev.Conn != f.conn {
		return
	}
	f.heard, f.moved = f.now, f.now
	f.stage = stageInstall
	f.stats.snap++
	f.opID = f.local.Install(f.now, f.conn, ev.Begin)
}

// onNewLeader: the initial history is complete. Three steps follow, each upon the completion of the one before: history durable,
// Ec durable, ACK.
func (f *Follower) onNewLeader(p *zab.NewLeader) {
	h := f.local.Hist
	switch {
	case f.stage != stageRecords || p.Epoch != f.epoch:
		f.protocol("NEWLEADER out of place")
	case p.End.Zxid != h.End.Zxid:
		f.gap(fmt.Sprintf("NEWLEADER at %v, the history ends at %v", p.End.Zxid, h.End.Zxid))
	case f.forked(p.End):
	default:
		f.stage, f.end = stageNewLeader, p.End
	}
}

// onDisk goes on where a completion allows it.
func (f *Follower) onDisk() {
	for f.leave == nil && f.leaveID == 0 {
		before := f.stage
		switch f.stage {
		case stagePromise:
			if f.local.IsDone(f.opID) || mutant.On("O2") {
				f.promised()
			}
		case stageInstall:
			if f.local.IsDone(f.opID) {
				f.installed()
			}
		case stageNewLeader: // O5
			if f.local.Hist.Durable >= f.end.Zxid {
				f.claim()
			}
		case stageClaim: // O6
			if f.local.IsDone(f.opID) || mutant.On("O6") {
				f.ackNewLeader()
			}
		}
		if f.stage == before {
			return
		}
	}
}

func (f *Follower) installed() {
	f.stage, f.moved = stageRecords, f.now
	held := f.held
	f.held = nil
	for _, p := range held {
		if f.leave == nil {
			f.take(p)
		}
	}
}

// claim writes Ec = e. An observer's Ea is only kept from being overtaken.
func (f *Follower) claim() {
	h := f.local.Hard
	if h.Accepted < f.epoch {
		if !f.observer {
			f.fatal(zab.ExitBrokenInvariant, "epoch %d is about to be current, but %d is accepted", f.epoch, h.Accepted)
			return
		}
		h.Accepted, h.AcceptedLeader = f.epoch, f.leader
	}
	h.Current = f.epoch
	f.stage = stageClaim
	if h != f.local.Hard {
		f.opID = f.local.SaveHard(f.now, h)
	}
}

func (f *Follower) ackNewLeader() {
	h := f.local.Hist
	if h.Durable < f.end.Zxid || f.local.Hard.Current != f.epoch && !mutant.On("O6") { // I-13
		f.fatal(zab.ExitBrokenInvariant, "ACK of NEWLEADER with %v of %v durable and epoch %d", h.Durable, f.end.Zxid, f.local.Hard.Current)
		return
	}
	f.stage, f.moved = stageAcked, f.now
	if mutant.On("R-74") && f.local.Hard.Recovering {
		hard := f.local.Hard
		hard.Recovering, hard.RecoveryID = false, 0
		f.readmitID = f.local.SaveHard(f.now, hard)
	}
	f.acked, f.ackedAs = f.end.Zxid, f.votable()
	f.send(&zab.Ack{Kind: zab.AckNewLeader, Epoch: f.epoch, Durable: f.end.Zxid, Chain: f.end.Chain, Votable: f.ackedAs})
}
