package follower

import (
	"fmt"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// digests compares this server's state with its leader's, at zxids that the leader names in its pings (I-17).
//
//	PING(z, d) ─▶ applied z? ─▶ ask the state ─▶ equal: say so in the next PONG
//	                                          └▶ not: serve nobody, say so at once, wait for the verdict
//
// Whose state is wrong only the leader can find out, from the others' answers: BYE(diverged) says that it is this one, BYE(leader's state
// diverged) that it is not. The log is not in doubt, so a fenced server goes on storing and acking it.
type digests struct {
	theirs mark // named by the leader, not compared yet
	asked  bool // the state has been asked
	own    mark // last compared
	agreed txn.Zxid
}

type mark struct {
	zxid   txn.Zxid // 0: none
	digest uint64
}

// named takes a digest of the leader; while one waits to be compared, others are passed over.
func (f *Follower) named(p *zab.Ping) {
	d := &f.digests
	if f.stage >= stageUpToDate && p.DigestZxid != 0 && d.theirs.zxid == 0 && d.own.zxid != p.DigestZxid {
		d.theirs, d.asked = mark{p.DigestZxid, p.Digest}, false
	}
}

// compareDigest asks the state once it has come so far.
func (f *Follower) compareDigest() {
	if d := &f.digests; d.theirs.zxid != 0 && !d.asked && f.local.Hist.Applied >= d.theirs.zxid && f.leaveID == 0 {
		d.asked = true
		f.fx.Add(zab.AskDigest{At: d.theirs.zxid})
	}
}

func (f *Follower) onStateDigest(ev zab.StateDigest) {
	d := &f.digests
	theirs := d.theirs
	if theirs.zxid != ev.At {
		return
	}
	d.theirs = mark{}
	switch {
	case !ev.Known: // it has gone on too far since
	case ev.Digest == theirs.digest:
		d.own, d.agreed = mark{ev.At, ev.Digest}, max(d.agreed, ev.At)
	default:
		d.own = mark{ev.At, ev.Digest}
		f.fence(theirs.digest)
		f.pong()
	}
}

// fence takes this server away from its clients at once: nothing is answered from a state that may be wrong.
func (f *Follower) fence(theirs uint64) {
	if f.stage == stageFenced {
		return
	}
	d := f.digests.own
	why := fmt.Sprintf("digest %#x here, %#x at leader %d, both at %v", d.digest, theirs, f.leader, d.zxid)
	f.note(zab.Note{Level: zab.Alarm, Message: zab.NoteDiverged, Peer: f.leader, Zxid: d.zxid,
		Reason: why + "; nobody is served until the leader has heard the others"})
	if f.stage == stageServing {
		f.fx.Add(zab.Freeze{Reason: why})
	}
	f.stage = stageFenced
}

// diverged is the verdict: this state is not the ensemble's. The disk says so before the process ends; the next start sets the history aside,
// and comes back as RECOVERING.
func (f *Follower) diverged(why string) {
	h := f.local.Hard
	if !f.observer { // nobody re-admits an observer, and it counts nowhere
		h = h.Doubted(f.cfg.Seed, f.now)
	}
	h.Diverged = true
	f.note(zab.Note{Level: zab.Alarm, Message: zab.NoteRecovering, Zxid: f.digests.own.zxid, Reason: why})
	f.leaveID, f.leaveWhy = f.local.SaveHard(f.now, h), zab.Leave{Reason: why}
}

// leaveNow ends the role when the disk has what leaving waited for.
func (f *Follower) leaveNow() {
	if f.local.Hard.Diverged {
		f.fatal(zab.ExitBrokenInvariant, "%s; start it again: it sets its files aside and takes the leader's state", f.leaveWhy.Reason)
		return
	}
	f.quit(zab.ByeRole, f.leaveWhy)
}
