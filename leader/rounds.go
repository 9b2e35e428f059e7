package leader

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// rounds is who waits for a leadership round (§13.1): proof that no other leader was established when the wave began. Everybody who asks
// while one is under way shares the next one.
type rounds struct {
	asks    []ask   // by need
	held    []reply // own edge: answers that wait until this server has applied so far
	waiting []waiting
}

// ask is one question that needs a wave with at least nonce need.
type ask struct {
	conn  zab.ConnID // 0: own edge
	need  uint64
	reply reply
}

// reply is SYNCED or REVALIDATED, one of the two.
type reply struct {
	synced      *zab.Synced
	revalidated *zab.Revalidated
}

func (r reply) zxid() txn.Zxid {
	if r.synced != nil {
		return r.synced.Zxid
	}
	return r.revalidated.Zxid
}

// waiting is a question for a session whose end, or beginning, is not applied here yet: the answer is due when it has been.
type waiting struct {
	conn    zab.ConnID
	owner   zab.ServerID
	ask     zab.Revalidate
	applied txn.Zxid // when it was asked
	until   txn.Zxid
}

func (l *Leader) onSync(conn zab.ConnID, id uint64) {
	if l.phase != zab.Broadcast { // K64
		l.reply(conn, reply{synced: &zab.Synced{ID: id}})
		return
	}
	answer := reply{synced: &zab.Synced{ID: id, Zxid: l.local.Hist.Commit, OK: true}}
	if mutant.On("D8") {
		l.reply(conn, answer)
		return
	}
	l.ask(conn, answer)
}

func (l *Leader) onRevalidate(conn zab.ConnID, owner zab.ServerID, r zab.Revalidate) {
	if l.phase != zab.Broadcast {
		l.reply(conn, reply{revalidated: &zab.Revalidated{ID: r.ID}})
		return
	}
	l.askedFor = append(l.askedFor, r.Session)
	l.fx.Add(zab.AskSession{Conn: conn, Owner: owner, Ask: r})
}

// onSessionState answers a REVALIDATE. Yes is the tracker's word. No needs a round: a deposed leader does not know the sessions
// of its successor. A session that is ending is neither until its end is applied.
func (l *Leader) onSessionState(ev zab.SessionState) {
	owner := l.self
	if ev.Conn != 0 {
		x := l.byConn[ev.Conn]
		if x == nil {
			return
		}
		owner = x.id
	}
	h := l.local.Hist
	answer := reply{revalidated: &zab.Revalidated{ID: ev.Ask.ID, OK: true, Valid: ev.Known, Zxid: h.Commit}}
	switch {
	case ev.Known && ev.Ending:
		l.rounds.waiting = append(l.rounds.waiting, waiting{conn: ev.Conn, owner: owner, ask: ev.Ask, applied: h.Applied, until: h.End.Zxid})
	case ev.Known || mutant.On("R-48"):
		l.reply(ev.Conn, answer)
	case h.Applied < h.Commit:
		// The asker may have applied the createSession already while our own disk is behind: look again when we have it too.
		l.rounds.waiting = append(l.rounds.waiting, waiting{conn: ev.Conn, owner: owner, ask: ev.Ask, applied: h.Applied, until: h.Commit})
	default:
		l.ask(ev.Conn, answer)
	}
}

// ask puts a question to the next wave.
func (l *Leader) ask(conn zab.ConnID, r reply) {
	need := l.pulse.nonce + 1
	if mutant.On("K48") {
		need--
	}
	l.rounds.asks = append(l.rounds.asks, ask{conn: conn, need: need, reply: r})
}

// answer gives out what is proven, begins a round for what waits, and lets go what this server has applied.
func (l *Leader) answer() {
	l.takeProven()
	r := &l.rounds
	// One wave at a time: who asked after the one that others still wait for gets the next, which may be the regular one.
	if len(r.asks) > 0 && r.asks[0].need > l.pulse.nonce {
		l.ping()
	}
	l.takeProven()
	l.letGo()
	l.askAgain()
}

func (l *Leader) takeProven() {
	r := &l.rounds
	n := 0
	for n < len(r.asks) && (n > 0 && r.asks[n].need == r.asks[n-1].need || l.confirmed(r.asks[n].need)) {
		l.reply(r.asks[n].conn, r.asks[n].reply)
		n++
	}
	r.asks = append(r.asks[:0], r.asks[n:]...)
}

// reply sends an answer to a learner, which holds it until it has applied so far, or keeps it for the own edge likewise.
func (l *Leader) reply(conn zab.ConnID, r reply) {
	if conn == 0 {
		l.rounds.held = append(l.rounds.held, r)
		return
	}
	x := l.byConn[conn]
	switch {
	case x == nil:
	case r.synced != nil:
		l.send(x, r.synced)
	default:
		l.send(x, r.revalidated)
	}
}

func (l *Leader) letGo() {
	keep := l.rounds.held[:0]
	for _, h := range l.rounds.held {
		switch {
		case h.zxid() > l.local.Hist.Applied:
			keep = append(keep, h)
		case h.synced != nil:
			l.fx.Add(zab.SyncAnswer{Synced: *h.synced})
		default:
			l.fx.Add(zab.RevalidateAnswer{Revalidated: *h.revalidated})
		}
	}
	l.rounds.held = keep
}

// askAgain repeats the question for sessions whose end or beginning has been applied since. Each repetition needs progress, so that a session whose
// end is still with the state does not keep the turn from ending.
func (l *Leader) askAgain() {
	applied := l.local.Hist.Applied
	keep := l.rounds.waiting[:0]
	for _, c := range l.rounds.waiting {
		switch {
		case c.conn != 0 && l.byConn[c.conn] == nil:
		case applied > c.applied && applied >= c.until:
			l.fx.Add(zab.AskSession{Conn: c.conn, Owner: c.owner, Ask: c.ask})
		default:
			keep = append(keep, c)
		}
	}
	l.rounds.waiting = keep
}
