package leader

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// drain is a handover under way. It belongs to this leadership and dies with it.
type drain struct {
	target zab.ServerID // 0: nobody else can lead, the own history is brought to an end as far as possible
	why    string
	stop   bool // a graceful stop: this server leaves, whatever becomes of it
	alone  bool // without a target, this server leads again in a new epoch
	until  zab.Instant
	// raise is an epoch that somebody has promised elsewhere: this server promises it as well before it leaves, so that its next epoch
	// is above it. raiseID is the disk operation.
	raise   txn.Epoch
	raiseID uint64
}

// stuck: voters that have promised more than this epoch and can therefore not follow.
type stuck struct {
	accepted    txn.Epoch // the largest promise
	since, last zab.Instant
}

// Why leadership is handed over.
const (
	whyStop    = "stopping"
	whyOrder   = "ordered"
	whyDisk    = "the disk is low"
	whyCounter = "a new epoch: the counter of this one is nearly used up"
	whyStuck   = "a new epoch: a voter has promised a later one elsewhere"
)

// reepochDelay is how long a stuck voter keeps coming before this leader gives itself a new epoch; who has not come for several times
// as long is not stuck any more.
const reepochDelay = 2 * time.Second

// onStuck remembers a voter that was turned away for its promise, and helps it when it keeps coming (§16.3): a handover to oneself is a
// new epoch, above all that was promised.
func (l *Leader) onStuck(id zab.ServerID, accepted txn.Epoch) {
	if mutant.On("R-13") || !l.cfg.Members.Voter(id) || accepted <= l.epoch || accepted >= txn.MaxEpoch {
		return
	}
	if l.stuck.accepted == 0 || l.now.Sub(l.stuck.last) > 5*reepochDelay {
		l.stuck = stuck{since: l.now}
	}
	l.stuck.accepted, l.stuck.last = max(l.stuck.accepted, accepted), l.now
	if l.phase == zab.Broadcast && l.drain == nil && l.now.Sub(l.stuck.since) >= reepochDelay && l.local.MayReepoch(l.now) {
		l.startDrain(&drain{why: whyStuck, alone: true, raise: l.stuck.accepted})
	}
}

// beginDrain stops taking writes and looks for a successor: want, or the best that is in step (§16.1). A stop goes on without one.
func (l *Leader) beginDrain(want zab.ServerID, why string) {
	stop := why == whyStop
	if d := l.drain; d != nil {
		if stop && !d.stop {
			d.stop, d.why = true, why
			if d.target == 0 {
				d.target = l.successor(0)
			}
		}
		return
	}
	if l.phase != zab.Broadcast {
		switch why {
		case whyStop:
			l.quit(zab.ByeRole, zab.Leave{Reason: "stopping", Stopped: true})
		case whyOrder:
			l.note(zab.Note{Level: zab.Warn, Message: zab.NoteHandover, Peer: want, Reason: why + ", but this server has no quorum yet"})
		}
		return
	}
	target := l.successor(want)
	if target == 0 && !stop && why != whyCounter {
		l.note(zab.Note{Level: zab.Warn, Message: zab.NoteHandover, Peer: want, Reason: why + ", but nobody can take over"})
		return
	}
	l.startDrain(&drain{target: target, why: why, stop: stop, alone: target == 0})
}

func (l *Leader) startDrain(d *drain) {
	d.until = l.now.Add(l.cfg.HandoverLimit)
	l.drain = d
	l.note(zab.Note{Message: zab.NoteHandover, Peer: d.target, Zxid: l.local.Hist.End.Zxid, Reason: d.why})
}

// parked is requests that came while this server drains, in the order in which they came.
type parked struct {
	from *learner // nil: of this server's own clients
	reqs []txn.Request
}

// park keeps requests until it is clear whether this server goes on leading; false if there is no room. A client that is refused comes again at once,
// hundreds of times while a slow disk finishes what is outstanding. If leadership does end, nothing is said: their connections are closed
// with all that has something under way.
func (l *Leader) park(from *learner, reqs []txn.Request) bool {
	if l.drain == nil || len(l.parked) >= l.cfg.MaxPending || l.parkedBytes >= l.cfg.MaxPendingBytes {
		return false
	}
	l.parked = append(l.parked, parked{from, reqs})
	for i := range reqs {
		l.parkedBytes += reqs[i].Size()
	}
	return true
}

// unpark takes them in when the handover was given up.
func (l *Leader) unpark() {
	list := l.parked
	l.parked, l.parkedBytes = nil, 0
	for _, w := range list {
		if w.from == nil || !w.from.gone {
			l.admit(w.from, w.reqs)
		}
	}
}

// raised reports whether the promise that the next epoch must be above is on disk.
func (l *Leader) raised(d *drain) bool {
	h := l.local.Hard
	if d.stop || h.Accepted >= d.raise {
		return true
	}
	if d.raiseID == 0 {
		h.Accepted, h.AcceptedLeader = d.raise, l.self
		d.raiseID = l.local.SaveHard(l.now, h)
	}
	return false
}

// successor is want if it may lead now, otherwise the voter with the most of the history; a voter short of disk only if there is no
// other. A server that does not count is never one.
func (l *Leader) successor(want zab.ServerID) zab.ServerID {
	var best *learner
	for _, x := range l.learners {
		if x.gone || !x.upToDate || !x.counts() || x.differs.zxid != 0 || want != 0 && x.id != want || l.lag(x) > int64(l.cfg.LagForHandover) {
			continue
		}
		if best == nil || best.diskLow && !x.diskLow || best.diskLow == x.diskLow && x.match >= best.match {
			best = x
		}
	}
	if best == nil {
		return 0
	}
	return best.id
}

// drainOn finishes a handover when everything outstanding is committed and the successor has it all, or gives it up.
func (l *Leader) drainOn() {
	d := l.drain
	if d == nil {
		return
	}
	if d.target != 0 && l.byID[d.target] == nil { // it is gone
		d.target = l.successor(0)
		if d.target == 0 && !d.stop {
			d.until = l.now // given up below
		}
	}
	h := l.local.Hist
	quiet := l.preparing == 0 && h.Commit == h.End.Zxid && h.Applied == h.Commit
	ready := d.target == 0 && (d.stop || d.alone)
	if x := l.byID[d.target]; x != nil {
		ready = x.counts() && x.match == h.End.Zxid
	}
	switch {
	case quiet && ready:
		if l.raised(d) {
			if d.why == whyStuck {
				l.local.Reepoched(l.now)
			}
			l.handOver(d)
		}
	case l.now < d.until:
	case d.stop:
		l.quit(zab.ByeDrain, zab.Leave{Reason: "stopping, with work unfinished", Stopped: true})
	default:
		l.drain = nil
		l.note(zab.Note{Level: zab.Warn, Message: zab.NoteHandover, Peer: d.target, Reason: fmt.Sprintf("given up after %v", l.cfg.HandoverLimit)})
		l.unpark()
	}
}

// handOver names the successor to everybody and leaves. Without one and not stopping, this server designates itself: that is a new
// epoch, which is what a used-up counter needs.
func (l *Leader) handOver(d *drain) {
	target := d.target
	if target == 0 && !d.stop {
		target = l.self
	}
	if target != 0 {
		for _, x := range l.learners {
			if !x.gone && x.upToDate {
				l.send(x, &zab.Handover{Target: target, Epoch: l.epoch, Last: l.local.Hist.End.Zxid})
			}
		}
	}
	reason := "handed over"
	if target == 0 {
		reason = "stopping"
	}
	l.quit(zab.ByeDrain, zab.Leave{Reason: reason, Designated: target, Stopped: d.stop})
}

// onDisk: a leader short of space lets somebody else lead, if there is one that is not (§18.6).
func (l *Leader) onDisk(ev zab.Disk) {
	if !(ev.Low || ev.Full) || l.phase != zab.Broadcast || l.drain != nil {
		return
	}
	if x := l.byID[l.successor(0)]; x != nil && !x.diskLow {
		l.beginDrain(x.id, whyDisk)
	}
}
