package leader

import (
	"fmt"
	"math"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/zab"
)

// pulse is what a leader knows of life: the waves of pings it sends and when each voter was heard.
type pulse struct {
	began   zab.Instant
	next    zab.Instant // regular wave
	nonce   uint64      // of the last wave; growing, never reused (K48)
	heard   map[zab.ServerID]zab.Instant
	shifted time.Duration // how far stalls in a row have moved deadlines
	awake   zab.Instant   // end of the last stall
	// extended: this step found a stall and put the sessions' deadlines off; what the tracker said before it does not hold.
	extended bool
	warned   bool // about the disk

	// After a stall longer than the silence that others tolerate this server may have been deposed without knowing (L6): it is
	// suspect until a quorum has answered a wave that began after the stall.
	suspect      bool
	suspectNonce uint64
	suspectUntil zab.Instant
}

func (p *pulse) start(now zab.Instant) {
	*p = pulse{began: now, next: now, awake: now, heard: map[zab.ServerID]zab.Instant{}}
}

// established: from now on silence counts (L1).
func (p *pulse) established(l *Leader) {
	for _, id := range l.voters {
		if x := l.byID[id]; x != nil && x.counts() {
			p.heard[id] = l.now
		}
	}
}

// wake looks at how late this step is. Time in which the own loop did not run is nobody's silence, but a long stall makes this
// leader doubt itself (L6), and sessions get the time back.
func (l *Leader) wake() {
	p := &l.pulse
	p.extended = false
	late := l.now.Sub(l.due)
	if late <= l.cfg.HbInterval {
		p.shifted = 0
		return
	}
	shift := min(late, l.cfg.HbTimeout-p.shifted)
	// After a stall there is at least one ping interval left to read what lies in the sockets.
	floor := l.now.Add(l.cfg.PingInterval() - l.cfg.Silence())
	if shift <= 0 {
		floor = math.MinInt64
	}
	p.shifted += shift
	p.awake = l.now
	for _, id := range l.voters {
		if t, ok := p.heard[id]; ok {
			p.heard[id] = min(l.now, max(floor, t.Add(shift)))
		}
	}
	for _, x := range l.learners {
		x.heard = min(l.now, max(floor, x.heard.Add(shift)))
	}
	l.waitFrom = min(l.now, l.waitFrom.Add(shift))
	if l.phase != zab.Broadcast {
		return
	}
	if !mutant.On("R-47") {
		l.fx.Add(zab.Extend{Nanos: int64(late)})
		p.extended = true
	}
	if late > l.cfg.HbTimeout {
		p.suspect, p.suspectNonce, p.suspectUntil = true, p.nonce+1, l.now.Add(l.cfg.HbTimeout)
		p.next = l.now
	}
}

// pace sends the regular wave when it is due.
func (l *Leader) pace() {
	if l.now >= l.pulse.next {
		l.ping()
		l.askDigest()
		l.tellBehind()
		if left := l.counterLeft(); l.phase == zab.Broadcast && (left == 0 || l.soft() && l.pending()+l.preparing == 0) {
			l.beginDrain(0, whyCounter)
		}
	}
}

// soft: it is time for a new epoch at a quiet moment.
func (l *Leader) soft() bool {
	end := l.local.Hist.End.Zxid
	return end.Epoch() == l.epoch && end.Counter() >= l.cfg.CounterSoft
}

// tellBehind says when a learner in step falls far behind, and when it has come back (§17). Nothing else follows from it: it stays connected and
// counts with what it has acked.
func (l *Leader) tellBehind() {
	for _, x := range l.learners {
		lag := int64(0)
		if x.synced && !x.gone {
			lag = l.lag(x)
		}
		switch limit := int64(l.cfg.FallBehind); {
		case !x.behind && lag > limit:
			x.behind = true
			l.note(zab.Note{Level: zab.Warn, Message: zab.NoteBehind, Peer: x.id, Zxid: x.match, Bytes: lag, Reason: fmt.Sprintf("it lacks %d bytes", lag)})
		case x.behind && lag <= limit/2:
			x.behind = false
			l.note(zab.Note{Message: zab.NoteInStep, Peer: x.id, Zxid: x.match})
		}
	}
}

// ping sends a wave to everybody who said who it is.
func (l *Leader) ping() {
	p := &l.pulse
	p.nonce++
	p.next = l.now.Add(l.cfg.PingInterval())
	named := l.doubts.named()
	for _, x := range l.learners {
		if x.gone || x.info == nil {
			continue
		}
		if x.upToDate {
			x.commitTold = l.local.Hist.Commit
		}
		l.send(x, &zab.Ping{Tick: uint64(l.now.Sub(p.began) / l.cfg.TickTime), Nonce: p.nonce, Commit: l.local.Hist.Commit,
			DigestZxid: named.zxid, Digest: named.digest})
	}
}

func (l *Leader) onPong(x *learner, p *zab.Pong) {
	if p.Nonce > l.pulse.nonce {
		l.drop(x, zab.ByeProtocol, "an answer to a ping that was never sent")
		return
	}
	x.nonce = max(x.nonce, p.Nonce)
	x.diskLow, x.diskFull = p.DiskLow, p.DiskFull
	l.onDigest(x, mark{p.DigestZxid, p.Digest})
	if x.end.Zxid != 0 && !x.synced {
		// Before the ack of NEWLEADER this is all there is to open the window with; nothing is counted from it.
		if mutant.On("R-68") {
			l.acked[x.id] = max(l.acked[x.id], min(p.Durable, x.sent))
		}
		before := x.windowBytes
		x.release(min(p.Durable, x.sent))
		if x.windowBytes != before {
			l.waitFrom = l.now
		}
	}
	if len(p.Touches) > 0 {
		l.fx.Add(zab.TouchSessions{From: x.id, Touches: p.Touches})
	}
}

// confirmed: a quorum has answered this wave or a later one, so no other leader was established when it began.
func (l *Leader) confirmed(nonce uint64) bool {
	return l.pulse.nonce >= nonce && l.quorum(true, func(x *learner) bool { return x.counts() && x.nonce >= nonce })
}

// inContact reports whether a quorum was heard within the silence that is tolerated.
func (l *Leader) inContact() bool {
	since := l.now.Add(-l.cfg.Silence())
	return l.cfg.Members.Satisfied(func(id zab.ServerID) bool {
		t, ok := l.pulse.heard[id]
		return id == l.self || ok && t > since
	})
}

// checkLimits is where a leader finds out that it should not lead, and learners that they are too slow.
func (l *Leader) checkLimits() {
	l.checkDisk()
	if l.phase == zab.Broadcast {
		l.checkQuorum()
	} else {
		l.checkPatience()
	}
	if l.leave == nil {
		l.checkLearners()
	}
}

// checkPatience bounds discovery and synchronisation.
func (l *Leader) checkPatience() {
	limit := l.cfg.EpochWait
	if l.phase == zab.Synchronization {
		limit = l.cfg.NewLeaderWait()
	}
	if l.now.Sub(l.waitFrom) >= limit {
		l.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("no quorum in %v for %v", l.phase, limit)})
	}
}

func (l *Leader) checkQuorum() {
	p := &l.pulse
	if p.suspect && l.confirmed(p.suspectNonce) {
		p.suspect = false
		for _, x := range l.learners { // the others get as much time from now
			x.heard = l.now
		}
	}
	switch {
	case p.suspect && l.now >= p.suspectUntil: // L6
		l.quit(zab.ByeRole, zab.Leave{Reason: "no quorum answered after a stall of this server"})
	case p.suspect:
	case !l.inContact() && !mutant.On("L1"): // L1
		l.quit(zab.ByeRole, zab.Leave{Reason: "lost contact with a quorum"})
	case len(l.batches) > 0 && l.now.Sub(max(l.batches[0].at, p.awake)) >= l.cfg.ProposalStall: // L2
		l.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("the proposals up to %v find no quorum", l.batches[0].last)})
	}
}

// checkDisk: a leader that cannot write must not keep the ensemble hostage (L3).
func (l *Leader) checkDisk() {
	asked, waiting := l.local.OldestPending()
	if !waiting {
		l.pulse.warned = false
		return
	}
	took := l.now.Sub(max(asked, l.pulse.awake))
	switch {
	case took >= l.cfg.DiskStall:
		l.quit(zab.ByeRole, zab.Leave{Reason: fmt.Sprintf("own disk has not answered for %v", took)})
	case took >= l.cfg.DiskWarn && !l.pulse.warned:
		l.pulse.warned = true
		l.note(zab.Note{Level: zab.Warn, Message: zab.NoteDiskStall, Zxid: l.local.Hist.Durable})
	}
}

// checkLearners cuts off who says nothing and who does not get its records to disk; the others are not held up.
func (l *Leader) checkLearners() {
	for _, x := range l.learners {
		switch {
		case x.gone:
		case !l.pulse.suspect && l.now.Sub(x.heard) >= l.cfg.Silence():
			l.drop(x, zab.ByeSlow, "silent")
		case x.synced && len(x.window) > 0 && l.now.Sub(max(x.window[0].at, l.pulse.awake)) >= l.cfg.ProposalStall:
			l.drop(x, zab.ByeSlow, fmt.Sprintf("%v is not acked", x.window[0].last))
		}
	}
}
