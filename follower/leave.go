package follower

import (
	"fmt"

	"github.com/zkd-project/zkd/zab"
)

func (f *Follower) onHandover(p *zab.Handover) {
	if f.stage < stageUpToDate || p.Epoch != f.epoch {
		f.protocol("HANDOVER out of place")
		return
	}
	f.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("handover to server %d", p.Target), Designated: p.Target})
}

// onBye: the leader closes. If it has seen this server ack more than it still has, this server's memory is not to be trusted (§18.5):
// it says so on disk before it does anything else.
func (f *Follower) onBye(p *zab.Bye) {
	why := "the leader closed: " + p.Why()
	switch p.Code {
	case zab.ByeDiverged:
		f.diverged(why)
		return
	case zab.ByeOddOut:
		if f.stage == stageFenced {
			f.stage = stageUpToDate // cleared; it serves again under the next leader
		}
	}
	if p.Code != zab.ByeLostAcked || f.local.Hard.Recovering {
		f.lost(why)
		return
	}
	h := f.local.Hard.Doubted(f.cfg.Seed, f.now)
	f.note(zab.Note{Level: zab.Alarm, Message: zab.NoteRecovering, Zxid: f.local.Hist.End.Zxid, Reason: why})
	f.leaveID, f.leaveWhy = f.local.SaveHard(f.now, h), zab.Leave{Reason: why}
}

// lost ends the role because the leader is lost. Only an established leader is worth an attempt to rejoin without an election (§5.7).
func (f *Follower) lost(why string) {
	f.quit(zab.ByeRole, zab.Leave{Reason: why, Lost: f.stage >= stageUpToDate})
}

// protocol ends the role because the leader said something that does not fit.
func (f *Follower) protocol(why string) {
	f.note(zab.Note{Level: zab.Warn, Message: zab.NoteRefused, Peer: f.leader, Reason: why})
	f.quit(zab.ByeProtocol, zab.Leave{Reason: why})
}

func (f *Follower) quit(code zab.ByeCode, leave zab.Leave) {
	if f.leave != nil {
		return
	}
	if f.stage == stageFenced && f.leaveID == 0 && !leave.Stopped {
		// No verdict will come. Memory is what may be wrong, so it is made anew from the disk.
		f.fx.Add(zab.Fatal{Code: zab.ExitBrokenInvariant, Dump: f.String(),
			Reason: "the leader is lost and nobody has said whose state is wrong (" + leave.Reason + "); start it again: it builds its state anew from its files"})
	}
	if f.conn != 0 {
		f.fx.Add(zab.Close{Conn: f.conn, Bye: zab.Bye{Code: code, Text: leave.Reason, Accepted: f.local.Hard.Accepted}})
	}
	f.leave = &leave
}

// fatal ends the process: what was found is for people to look at.
func (f *Follower) fatal(code int, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	f.fx.Add(zab.Fatal{Code: code, Reason: reason, Dump: f.String()})
	f.quit(zab.ByeRole, zab.Leave{Reason: reason})
}
