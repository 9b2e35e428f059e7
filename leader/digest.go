package leader

import (
	"fmt"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// doubts is the comparison of states (I-17). Each wave of pings names a zxid and the digest of this server's state there; who has applied
// it compares, and says so in its next answer. When somebody differs, that zxid is contested: the waves go on naming it until it is clear
// who is wrong.
//
//	a quorum differs from this server  ─▶ this server is: it serves nobody any more, marks its disk, tells the others and ends
//	a quorum agrees with it            ─▶ those who differ are: BYE(diverged)
//	neither, for ProposalStall         ─▶ nobody knows: both sides end and build their state anew from their files (ADR 0012)
type doubts struct {
	lately    [8]mark // what the last waves named, by turns
	n         int
	contested mark // zxid 0: nothing is
	since     zab.Instant

	oddID uint64 // this server is the odd one out: the disk operation that says so
}

type mark struct {
	zxid   txn.Zxid // 0: none
	digest uint64
}

// named is what a wave says.
func (d *doubts) named() mark {
	if d.contested.zxid != 0 || d.n == 0 {
		return d.contested
	}
	return d.lately[(d.n-1)%len(d.lately)]
}

// askDigest asks the state for the digest that the next wave names: by then the others will have applied it too.
func (l *Leader) askDigest() {
	if applied := l.local.Hist.Applied; l.phase == zab.Broadcast && len(l.learners) > 0 && applied != 0 && l.doubts.contested.zxid == 0 {
		l.fx.Add(zab.AskDigest{At: applied})
	}
}

func (l *Leader) onStateDigest(ev zab.StateDigest) {
	d := &l.doubts
	if !ev.Known || d.n > 0 && d.lately[(d.n-1)%len(d.lately)].zxid == ev.At {
		return
	}
	d.lately[d.n%len(d.lately)] = mark{ev.At, ev.Digest}
	d.n++
}

// onDigest hears what a learner found at a zxid that a wave has named.
func (l *Leader) onDigest(x *learner, theirs mark) {
	d := &l.doubts
	if theirs.zxid == 0 || theirs.zxid == x.agreed || theirs == x.differs {
		return
	}
	own := d.contested
	for i := 0; i < len(d.lately) && own.zxid != theirs.zxid; i++ {
		own = d.lately[i]
	}
	switch {
	case own.zxid != theirs.zxid: // too long ago
	case own.digest == theirs.digest:
		x.agreed = max(x.agreed, own.zxid)
	default:
		x.differs = theirs
		l.note(zab.Note{Level: zab.Alarm, Message: zab.NoteDiverged, Peer: x.id, Zxid: own.zxid,
			Reason: fmt.Sprintf("digest %#x there, %#x here", theirs.digest, own.digest)})
		if d.contested.zxid == 0 {
			d.contested, d.since = own, l.now
		}
	}
}

// judge decides who is wrong, as soon as that is clear.
func (l *Leader) judge() {
	d := &l.doubts
	if d.oddID != 0 {
		l.oddOut()
		return
	}
	if d.contested.zxid == 0 {
		return
	}
	z := d.contested.zxid
	if l.quorum(false, func(x *learner) bool { return x.counts() && x.differs.zxid == z }) {
		l.note(zab.Note{Level: zab.Alarm, Message: zab.NoteDiverged, Zxid: z,
			Reason: fmt.Sprintf("a quorum has another state than this leader, whose digest is %#x: it serves nobody any more", d.contested.digest)})
		l.fx.Add(zab.Freeze{Reason: "the state of this leader is not that of a quorum"})
		h := l.local.Hard.Doubted(l.cfg.Seed, l.now)
		h.Diverged = true
		d.oddID = l.local.SaveHard(l.now, h)
		return
	}
	if l.quorum(true, func(x *learner) bool { return x.counts() && x.agreed >= z }) {
		for _, x := range l.learners {
			if x.differs.zxid != 0 {
				l.drop(x, zab.ByeDiverged, fmt.Sprintf("its digest at %v is %#x, a quorum has another", x.differs.zxid, x.differs.digest))
			}
		}
		d.contested = mark{}
		return
	}
	if l.now.Sub(d.since) >= l.cfg.ProposalStall {
		l.broken("states differ at %v, and neither this leader's (digest %#x) nor another is that of a quorum; start this server again: it builds its "+
			"state anew from its files", z, d.contested.digest)
	}
}

// oddOut: the disk knows. The others are told, and when they have heard it the process ends.
func (l *Leader) oddOut() {
	if d := &l.doubts; l.local.IsDone(d.oddID) {
		why := fmt.Sprintf("the state of this leader is not that of a quorum at %v", d.contested.zxid)
		l.quit(zab.ByeOddOut, zab.Leave{Reason: why, Fatal: why + "; start it again: it sets its files aside and takes the new leader's state"})
	}
}
