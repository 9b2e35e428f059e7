package leader

import (
	"math"
	"slices"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// onRequests takes forwarded writes. Everybody forwards for its own clients only.
func (l *Leader) onRequests(x *learner, p *zab.Requests) {
	for i := range p.Requests {
		if p.Requests[i].Origin != x.id {
			l.drop(x, zab.ByeProtocol, "a request for somebody else's client")
			return
		}
	}
	l.admit(x, p.Requests)
}

// admit lets requests in as far as the bounds reach. What does not get in is refused with a definite code before it has a zxid, so it is
// certainly not in the history (§17). x is nil for this server's own clients.
func (l *Leader) admit(x *learner, reqs []txn.Request) {
	if len(reqs) == 0 {
		return
	}
	why := l.closed()
	if why == txn.RefusedTransferring && l.park(x, reqs) {
		return
	}
	n := 0
	if why == txn.NotRefused {
		n = l.room(reqs)
		why = txn.RefusedPendingFull
	}
	if n > 0 {
		l.hold(reqs[:n:n])
	}
	if n < len(reqs) {
		l.refuseAll(x, reqs[n:], why)
	}
}

// closed tells why no request at all is taken now.
func (l *Leader) closed() txn.Refusal {
	why := l.unfit()
	if why != txn.RefusedNotLeader && (l.drain != nil || l.counterLeft() == 0) {
		return txn.RefusedTransferring
	}
	return why
}

// unfit tells why not even a request that was let in may be proposed.
func (l *Leader) unfit() txn.Refusal {
	switch {
	case l.phase != zab.Broadcast || l.doubts.oddID != 0:
		return txn.RefusedNotLeader
	case l.local.DiskFull || !l.quorumHasRoom():
		return txn.RefusedDiskFull
	}
	return txn.NotRefused
}

// quorumHasRoom: a full follower leaves rather than take a record. If this leader cannot do without it, a write would end the service, reads
// and all; refused, it costs no more than itself (§18.6).
func (l *Leader) quorumHasRoom() bool {
	full := slices.ContainsFunc(l.learners, func(x *learner) bool { return !x.gone && x.diskFull })
	return !full || l.quorum(true, func(x *learner) bool { return x.counts() && !x.diskFull })
}

// room is how many of the requests fit under the bounds.
func (l *Leader) room(reqs []txn.Request) int {
	if mutant.On("admission") {
		return len(reqs)
	}
	count := l.cfg.MaxPending - l.outstanding()
	count = min(count, l.counterLeft())
	bytes := l.cfg.MaxPendingBytes - l.batchBytes - l.preparingBytes - l.gather.bytes
	n := 0
	for n < len(reqs) && n < count && bytes > 0 {
		bytes -= reqs[n].Size()
		n++
	}
	return n
}

// counterLeft is how many zxids this epoch can still give out. checkLimits ends the epoch when none is left.
func (l *Leader) counterLeft() int {
	if mutant.On("R-63") {
		return math.MaxInt32
	}
	used := uint32(0)
	if end := l.local.Hist.End.Zxid; end.Epoch() == l.epoch {
		used = end.Counter()
	}
	if used >= l.cfg.CounterHard {
		return 0
	}
	return max(0, int(l.cfg.CounterHard-used)-l.preparing-len(l.gather.held))
}

func (l *Leader) prepare(reqs []txn.Request) {
	l.preparing += len(reqs)
	for i := range reqs {
		l.preparingBytes += reqs[i].Size()
	}
	l.fx.Add(zab.Prepare{Requests: reqs})
}

// refuse answers one request at its origin; if that is not connected any more, its clients are not either.
func (l *Leader) refuse(r *txn.Request, why txn.Refusal) {
	if r.Conn == 0 {
		return // made by this leader; nobody waits
	}
	list := []zab.Refusal{zab.RefusalOf(r, why)}
	if r.Origin == l.self {
		l.fx.Add(zab.Refuse{Refusals: list})
	} else if x := l.byID[r.Origin]; x != nil {
		l.send(x, &zab.Refused{Refusals: list})
	}
}

func (l *Leader) refuseAll(x *learner, reqs []txn.Request, why txn.Refusal) {
	list := make([]zab.Refusal, len(reqs))
	for i := range reqs {
		list[i] = zab.RefusalOf(&reqs[i], why)
	}
	if x == nil {
		l.fx.Add(zab.Refuse{Refusals: list})
	} else {
		l.send(x, &zab.Refused{Refusals: list})
	}
}

// onExpired proposes the end of sessions whose time is up, only while a quorum was in contact a moment ago: a deposed leader must not
// revoke anything. What does not fit now comes again, for the tracker goes on naming it.
func (l *Leader) onExpired(ev zab.Expired) {
	if l.closed() != txn.NotRefused || (l.pulse.suspect || !l.inContact()) && !mutant.On("R-46") {
		return
	}
	if l.pulse.extended && !mutant.On("R-46") {
		return // who is silent by the deadlines of now will be named again
	}
	reqs := make([]txn.Request, 0, len(ev.Sessions))
	for _, id := range ev.Sessions {
		if !slices.Contains(l.askedFor, id) { // the tracker had named it before the claim was read
			reqs = append(reqs, txn.Request{Session: id, Op: proto.OpCloseSession, Origin: l.self})
		}
	}
	if n := l.room(reqs); n > 0 {
		l.prepare(reqs[:n:n])
	}
}
