package leader

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// Few writes under way cost far more each than many, for what costs is a round of frames, fsyncs and wake-ups, whatever is in it. Clients that
// wait for their answers before they write again would fill one round together; but each is answered a moment before or after the others, so
// that their next writes come one by one, and the first of them would begin a round alone. So a leader that has few proposals holds
// requests back (ADR 0021): while a round is under way, and after it until as many have come as it answered, for a millisecond at most.
// Whether those who were answered do come again is found out by trying, and less and less often where they do not. Databases know the
// same as group commit with a delay (commit_siblings of PostgreSQL, binlog_group_commit_sync_no_delay_count of MySQL).
const (
	// gatherCount and gatherBytes are what is not held any longer: such rounds are cheap enough.
	gatherCount = 64
	gatherBytes = 64 << 10
	// gatherRest is for how many rounds at most nothing is held after those who were waited for did not come.
	gatherRestLog = 10
	gatherRest    = 1 << gatherRestLog
)

// gather is the requests that are held back. They count as pending, and are in the order in which they came.
type gather struct {
	held    []txn.Request
	bytes   int
	since   zab.Instant // when the first of them came
	look    zab.Instant // when Step wants to look at them; 0: when something happens. Left where it is when they leave: moving it costs more
	expect  int         // how many there will be if everybody comes again who was answered by the last round
	waited  bool        // they were held with nothing under way
	rest    int         // for so many rounds nothing is held
	failure uint        // how often in a row those who were waited for did not come, gatherRestLog at most: more would shift the rest away
}

// hold takes requests that were let in.
func (l *Leader) hold(reqs []txn.Request) {
	if l.cfg.GatherLimit == 0 {
		l.prepare(reqs)
		return
	}
	g := &l.gather
	if len(g.held) == 0 {
		g.since, g.waited = l.now, false
	}
	g.held = append(g.held, reqs...)
	for i := range reqs {
		g.bytes += reqs[i].Size()
	}
}

// answered notes that all proposals are committed, n of them just now.
func (g *gather) answered(n int) { g.expect = n + len(g.held) }

// release lets the state prepare what is held once there is no use in holding it.
func (l *Leader) release() {
	g := &l.gather
	if g.look <= l.now {
		g.look = 0
	}
	if len(g.held) == 0 {
		return
	}
	if why := l.unfit(); why != txn.NotRefused { // since it was let in
		for i := range g.held {
			l.refuse(&g.held[i], why)
		}
		g.clear()
		return
	}
	if l.keepHolding() {
		return
	}
	reqs := g.held
	g.clear()
	l.prepare(reqs)
}

func (g *gather) clear() { g.held, g.bytes = nil, 0 }

// keepHolding decides, and learns from what became of the last decision.
func (l *Leader) keepHolding() bool {
	g := &l.gather
	idle := l.preparing == 0 && l.pending() == 0
	late := l.now.Sub(g.since) >= l.cfg.GatherLimit
	switch {
	case mutant.On("gather"):
		return true
	case l.drain != nil || len(g.held) >= gatherCount || g.bytes >= gatherBytes:
	case g.rest > 0:
		g.rest--
	case idle && len(g.held) >= g.expect:
		if g.waited {
			g.failure = 0
		}
	case !late:
		g.waited = g.waited || idle
		if g.look == 0 {
			g.look = g.since.Add(l.cfg.GatherLimit)
		}
		return true
	case idle:
		g.failure = min(g.failure+1, gatherRestLog)
		g.rest = 1 << g.failure
	}
	return false
}
