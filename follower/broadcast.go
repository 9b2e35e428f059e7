package follower

import (
	"fmt"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// onRecords appends what continues the history. A server without space closes before it writes half a batch (§18.6).
func (f *Follower) onRecords(recs []txn.Record, commit txn.Zxid) {
	if f.stage < stageRecords {
		f.protocol("records before the sync header was carried out")
		return
	}
	if f.local.DiskFull {
		f.quit(zab.ByeRole, zab.Leave{Reason: "no space on disk", Full: true})
		return
	}
	if err := f.local.Append(f.now, recs); err != nil {
		f.gap(err.Error())
		return
	}
	f.learnCommit(commit)
}

// learnCommit notes what the leader has committed. Only apply gives it an effect.
func (f *Follower) learnCommit(z txn.Zxid) { f.commit = max(f.commit, z) }

// onUpToDate: a quorum follows this leader. This server serves as soon as it has applied what was committed by then.
func (f *Follower) onUpToDate(p *zab.UpToDate) {
	if f.stage != stageAcked || p.Epoch != f.epoch {
		f.protocol("UPTODATE out of place")
		return
	}
	f.stage, f.open = stageUpToDate, p.Commit
	f.learnCommit(p.Commit)
}

// apply hands on what is committed and durable here. The commit that is named may be ahead of what has come: never more than this
// history's end. Before UPTODATE it means nothing: this log may not be a prefix of the leader's yet.
func (f *Follower) apply() {
	if f.stage < stageUpToDate && !mutant.On("R-69") {
		return
	}
	h := f.local.Hist
	h.Commit = max(h.Commit, min(f.commit, h.End.Zxid))
	if recs := h.TakeApplicable(); len(recs) > 0 {
		f.fx.Add(zab.Apply{Records: recs})
		if f.local.Hard.Recovering && f.readmitID == 0 {
			f.lookForReadmit(recs)
		}
	}
	if f.stage == stageUpToDate && h.Applied >= f.open {
		f.stage = stageServing
		f.local.Initialize(f.now)
		f.fx.Add(zab.Serve{Role: f.role(), Leader: f.leader, Epoch: f.epoch})
		f.note(zab.Note{Message: zab.NoteSynced, Peer: f.leader, Zxid: h.Applied, Mode: f.mode})
	}
}

// lookForReadmit: the record with this server's own recoveryId, committed by a quorum without it, durable and applied, ends the
// recovery.
func (f *Follower) lookForReadmit(recs []txn.Record) {
	for i := range recs {
		if recs[i].Type() != txn.TypeReadmit {
			continue
		}
		t, err := recs[i].Txn()
		if err != nil {
			f.fatal(zab.ExitBrokenInvariant, "committed record cannot be read: %v", err)
			return
		}
		if body, ok := t.Body.(*txn.Readmit); ok && body.Server == f.self && (body.RecoveryID == f.local.Hard.RecoveryID || mutant.On("R-74-id")) {
			h := f.local.Hard
			h.Recovering, h.RecoveryID = false, 0
			f.readmitID = f.local.SaveHard(f.now, h)
			return
		}
	}
}

// ack says how far the disk has come, once per turn and cumulatively. Nothing is acked before NEWLEADER (K04): the stage says so.
func (f *Follower) ack() {
	if f.stage < stageAcked && !(mutant.On("R-33") && f.stage >= stageRecords) || f.leaveID != 0 {
		return
	}
	if f.readmitID != 0 && f.local.IsDone(f.readmitID) {
		f.readmitID = 0
		f.note(zab.Note{Message: zab.NoteReadmitted, Zxid: f.local.Hist.Applied})
	}
	durable := f.local.Hist.Durable
	if mutant.On("O7") {
		durable = f.local.Hist.End.Zxid
	}
	if durable == f.acked && f.votable() == f.ackedAs {
		return
	}
	if durable < f.acked || f.local.Hard.Current != f.epoch {
		f.fatal(zab.ExitBrokenInvariant, "ACK of %v behind %v, epoch %d", durable, f.acked, f.local.Hard.Current)
		return
	}
	f.acked, f.ackedAs = durable, f.votable()
	f.send(&zab.Ack{Kind: zab.AckPropose, Epoch: f.epoch, Durable: durable, Votable: f.ackedAs})
}

// onPing answers with what this server's clients touched. Durable is for the leader's window only, and says nothing while this log may
// not be a prefix of the leader's.
func (f *Follower) onPing(p *zab.Ping) {
	f.learnCommit(p.Commit)
	f.nonce = p.Nonce
	f.named(p)
	f.pong()
}

func (f *Follower) pong() {
	f.said = f.now
	h := f.local.Hist
	pong := &zab.Pong{Nonce: f.nonce, Touches: f.touches, DiskLow: f.local.DiskLow, DiskFull: f.local.DiskFull, DigestZxid: f.digests.own.zxid, Digest: f.digests.own.digest}
	f.touches = nil
	if mutant.On("K61") {
		pong.Touches = nil
	}
	if f.stage >= stageRecords {
		pong.Durable, pong.Applied = h.Durable, h.Applied
		pong.LagBytes, _ = h.BytesAfter(h.Applied)
		f.shown = h.Durable
	}
	f.send(pong)
}

// showProgress answers the last ping once more when the disk has come on before NEWLEADER: acks must not be sent yet (K04), and without
// either a long stream would wait for the next ping after every window.
func (f *Follower) showProgress() {
	if f.stage >= stageRecords && f.stage < stageAcked && f.local.Hist.Durable > f.shown {
		f.pong()
	}
}

// onProgress: bytes that are no packet yet are a sign of life, and the leader is to see one too: its pings wait behind them, for longer than
// it would wait for an answer if the line is slow (R-44, K53).
func (f *Follower) onProgress() {
	f.heard, f.moved = f.now, f.now
	if f.stage >= stageHeader && f.now.Sub(f.said) >= f.cfg.PingInterval() {
		f.pong()
	}
}

// String tells where this follower stands, for dumps.
func (f *Follower) String() string {
	h := f.local.Hist
	return fmt.Sprintf("follower %d of %d %v epoch %d hard %+v end %+v durable %v commit %v applied %v table %v", f.self, f.leader, f.stage, f.epoch,
		f.local.Hard, h.End, h.Durable, h.Commit, h.Applied, h.Table.Ends)
}

// lagTxns counts what the leader has called committed and this server has not applied, as far as its own log shows how much that is.
func (f *Follower) lagTxns() int64 {
	h := f.local.Hist
	n := h.Table.Between(h.Applied, min(f.commit, h.End.Zxid))
	if f.commit > h.End.Zxid && f.commit.Epoch() == h.End.Zxid.Epoch() {
		n += int64(f.commit - h.End.Zxid)
	}
	return n
}
