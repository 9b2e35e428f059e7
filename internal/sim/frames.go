package sim

import (
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// onFrame sees every packet as it leaves, and holds what it claims against the books.
func (c *checks) onFrame(e *end, epoch txn.Epoch, pk zab.Packet) {
	n, b := e.n, c.book(e.n)
	c.onSaid(n, pk)
	if n.own != nil {
		c.onForeign(e, pk)
	}
	switch pk := pk.(type) {
	case *zab.Notify:
		c.onNotify(n, b, &pk.Notification)
	case *zab.LeaderInfo:
		if b.hard.Accepted != pk.Epoch || b.hard.AcceptedLeader != n.id {
			c.w.violate("I-12", n.id, 0, "LEADERINFO(%d) with Ea = %d, %d durable (O1)", pk.Epoch, b.hard.Accepted, b.hard.AcceptedLeader)
		}
		c.promise(pk.Epoch, n.id, n.id, !b.hard.Recovering)
	case *zab.AckEpoch:
		c.onAckEpoch(e, b, pk)
	case *zab.Ack:
		c.acked(e, pk.Durable)
		c.onAck(e, b, pk)
	case *zab.Pong:
		c.acked(e, pk.Durable)
	case *zab.NewLeader:
		if b.hard.Current != pk.Epoch {
			c.w.violate("I-12", n.id, pk.End.Zxid, "NEWLEADER(%d) with Ec = %d durable (O3)", pk.Epoch, b.hard.Current)
		}
		if got := len(c.promises[pk.Epoch][n.id]); 2*got <= c.w.voters() {
			c.w.violate("I-7", n.id, pk.End.Zxid, "NEWLEADER(%d) with the promises of %d of %d voters (R-22)", pk.Epoch, got, c.w.voters())
		}
		c.books[e.peer.id].newLead[e.c.id] = *pk
	case *zab.Diff:
		c.startsAt(e, pk.From.Zxid)
	case *zab.Trunc:
		c.startsAt(e, pk.To.Zxid)
	case *zab.SnapBegin:
		c.startsAt(e, pk.At.Zxid)
	case *zab.Propose:
		c.contiguous(e, pk.Records)
		c.announced(n, epoch, pk.Commit)
	case *zab.Inform:
		c.contiguous(e, pk.Records)
		c.announced(n, epoch, pk.Commit)
	case *zab.Commit:
		c.announced(n, epoch, pk.Commit)
	case *zab.Ping:
		c.announced(n, epoch, pk.Commit)
	case *zab.UpToDate:
		if c.leaders[pk.Epoch] != n.id {
			c.w.violate("I-21", n.id, pk.Commit, "UPTODATE(%d) from a leader that is not established", pk.Epoch)
		}
		c.announced(n, epoch, pk.Commit)
	}
}

// onNotify: a vote for oneself states what is durable, and who is not votable has none (I-24).
func (c *checks) onNotify(n *node, b *book, note *zab.Notification) {
	v := note.Vote
	if v.Leader != 0 && b.hard.Recovering {
		c.w.violate("I-24", n.id, v.Zxid, "a vote from a server that is recovering")
		return
	}
	if v.Leader == n.id && note.State == zab.Looking && (v.Epoch != b.hard.Current || v.Zxid != tip(b.log).Zxid) {
		// The notification may have waited in its slot while the disk went on; it must never claim more.
		if v.Epoch > b.hard.Current || v.Epoch == b.hard.Current && v.Zxid > tip(b.log).Zxid {
			c.w.violate("I-12", n.id, v.Zxid, "votes for itself with (%d, %v), durable is (%d, %v)", v.Epoch, v.Zxid, b.hard.Current, tip(b.log).Zxid)
		}
	}
}

// promise notes who promised an epoch to whom; two would-be leaders of one epoch must not both have a quorum (I-7).
func (c *checks) promise(e txn.Epoch, to, from zab.ServerID, counts bool) {
	if !counts {
		return
	}
	if c.promises[e] == nil {
		c.promises[e] = map[zab.ServerID]map[zab.ServerID]bool{}
	}
	if c.promises[e][to] == nil {
		c.promises[e][to] = map[zab.ServerID]bool{}
	}
	c.promises[e][to][from] = true
	quorums := 0
	for _, leader := range sorted(c.promises[e]) {
		if 2*len(c.promises[e][leader]) > c.w.voters() {
			quorums++
		}
	}
	if quorums > 1 {
		c.w.violate("I-7", to, 0, "two would-be leaders have a quorum's promise of epoch %d", e)
	}
}

func (c *checks) onAckEpoch(e *end, b *book, a *zab.AckEpoch) {
	n := e.n
	if a.Vote {
		if b.hard.Accepted != a.Epoch || b.hard.AcceptedLeader != e.peer.id {
			c.w.violate("I-12", n.id, 0, "promises epoch %d to %d with Ea = %d, %d durable (O2)", a.Epoch, e.peer.id, b.hard.Accepted, b.hard.AcceptedLeader)
			return
		}
		c.promise(a.Epoch, e.peer.id, n.id, !b.hard.Recovering && !c.w.observer(n.id))
	}
	if a.Current != b.hard.Current || a.Last != tip(b.log) {
		c.w.violate("I-12", n.id, a.Last.Zxid, "ACKEPOCH states (%d, %v), durable is (%d, %v) (O12)", a.Current, a.Last, b.hard.Current, tip(b.log))
	}
}

func (c *checks) onAck(e *end, b *book, a *zab.Ack) {
	n := e.n
	if b.hard.Current != a.Epoch {
		c.w.violate("I-12", n.id, a.Durable, "ACK in epoch %d with Ec = %d durable (O6, R-68)", a.Epoch, b.hard.Current)
		return
	}
	i, ok := find(b.log, a.Durable)
	if !ok {
		c.w.violate("I-12", n.id, a.Durable, "ACK of what is not durable: the disk ends at %v (O7)", tip(b.log).Zxid)
		return
	}
	if a.Votable && b.hard.Recovering {
		c.w.violate("I-25", n.id, a.Durable, "a server that is recovering says that it counts")
		return
	}
	if a.Kind == zab.AckNewLeader {
		nl, told := b.newLead[e.c.id]
		if !told || nl.Epoch != a.Epoch || nl.End.Zxid != a.Durable || nl.End.Chain != a.Chain || b.log[i].Chain != a.Chain {
			c.w.violate("I-13", n.id, a.Durable, "ACK(NEWLEADER) at %v, asked was %+v", b.log[i], nl)
		}
		if b.restored && !b.hard.Recovering {
			b.restored, b.damaged = false, false
		}
	}
}

// acked: the window of a connection opens at the latest when this arrives.
func (c *checks) acked(e *end, z txn.Zxid) {
	b := c.book(e.n)
	list := b.unacked[e.c.id]
	n := 0
	for n < len(list) && list[n] <= z {
		n++
	}
	b.unacked[e.c.id] = list[n:]
}

func (c *checks) startsAt(e *end, z txn.Zxid) {
	b := c.books[e.peer.id]
	b.lastAt[e.c.id], b.hasLast[e.c.id], b.unacked[e.c.id] = z, true, nil
}

// contiguous: behind the sync header the stream has no gap and no repeat (I-27).
func (c *checks) contiguous(e *end, recs []txn.Record) {
	b := c.books[e.peer.id]
	for i := range recs {
		if !b.hasLast[e.c.id] || recs[i].Prev != b.lastAt[e.c.id] {
			c.w.violate("I-27", e.n.id, recs[i].Zxid, "sent behind %v, its predecessor is %v", b.lastAt[e.c.id], recs[i].Prev)
			return
		}
		b.lastAt[e.c.id] = recs[i].Zxid
		b.unacked[e.c.id] = append(b.unacked[e.c.id], recs[i].Zxid)
	}
	if got := len(b.unacked[e.c.id]); got > e.n.cfg.InflightCount {
		c.w.violate("I-49", e.n.id, b.lastAt[e.c.id], "%d records are under way to %d, at most %d may be", got, e.peer.id, e.n.cfg.InflightCount)
	}
}

// announced: what a leader calls committed in its own epoch is on the disks of a quorum (I-14).
func (c *checks) announced(n *node, epoch txn.Epoch, z txn.Zxid) {
	if z.Epoch() != epoch || z <= c.told[n.id] || c.leaders[epoch] != n.id {
		return
	}
	c.told[n.id] = z
	i, ok := find(c.book(n).mem, z)
	if !ok {
		c.w.violate("I-15", n.id, z, "commit beyond the leader's own log")
		return
	}
	c.checkQuorum(n, c.book(n).mem[i], epoch, "I-14")
}

func (c *checks) checkQuorum(n *node, p zab.Position, epoch txn.Epoch, id string) {
	count := 0
	for _, other := range c.w.nodes {
		b := c.books[other.id]
		if c.w.observer(other.id) {
			continue
		}
		held := b.damaged && (b.had == nil || b.hadEpoch >= epoch && c.holds(b.had, p))
		if held || !b.damaged && !b.hard.Recovering && b.hard.Current >= epoch && c.holds(b.log, p) {
			count++
		}
	}
	if 2*count <= c.w.voters() {
		c.w.violate(id, n.id, p.Zxid, "called committed in epoch %d with %d of %d disks", epoch, count, c.w.voters())
	}
}

// onEstablished: one leader per epoch, and it has everything that was committed before (I-7, I-6, I-11).
func (c *checks) onEstablished(n *node, e txn.Epoch) {
	b := c.book(n)
	if other, ok := c.leaders[e]; ok {
		c.w.violate("I-7", n.id, 0, "epoch %d was established before, by %d", e, other)
		return
	}
	c.leaders[e] = n.id
	c.w.trace(n.id, "leads", uint64(e), nil)
	for i := len(c.ledger) - 1; i >= 0; i-- {
		p := c.ledger[i].at
		if p.Zxid.Epoch() >= e {
			continue
		}
		if !c.holds(b.mem, p) {
			c.w.violate("I-11", n.id, p.Zxid, "was committed before epoch %d, and its leader does not have it", e)
		}
		break
	}
	c.checkQuorum(n, tip(b.mem), e, "I-14")
	clear(b.alive)
	n.edge.machine.Sessions(func(id txn.SessionID, _ int32) bool {
		b.alive[id] = c.w.now // a full timeout from now
		return true
	})
}

// onServe: a server opens for clients only in a role that it has.
func (c *checks) onServe(n *node, fx zab.Serve) {
	if fx.Role == zab.Leading && c.leaders[fx.Epoch] != n.id {
		c.w.violate("I-21", n.id, 0, "serves as the leader of epoch %d and is not", fx.Epoch)
	}
	if owner, ok := c.leaders[fx.Epoch]; !ok || owner != fx.Leader {
		c.w.violate("I-7", n.id, 0, "serves under %d in epoch %d, whose leader is %d", fx.Leader, fx.Epoch, owner)
	}
}

// onTouch, onAlive: signs of life that the leader has.
func (c *checks) onTouch(n *node, fx zab.TouchSessions) {
	for _, t := range fx.Touches {
		c.onAlive(n, t.Session)
	}
}

func (c *checks) onAlive(n *node, s txn.SessionID) { c.book(n).alive[s] = c.w.now }

// checkExpiry: a session that nobody closed is closed only when its leader had heard nothing for its timeout (I-36).
func (c *checks) checkExpiry(n *node, z txn.Zxid, t *txn.Txn) {
	if t.Op != proto.OpCloseSession || t.Conn != 0 {
		return
	}
	last, known := c.book(n).alive[t.Session]
	timeout, open := n.edge.machine.SessionTimeout(t.Session)
	if !known || !open {
		return
	}
	if n.thawed > last { // a stall is nobody's silence
		last += n.thawed - max(n.froze, last)
	}
	if quiet := c.w.now - last; quiet < millis(timeout)*97/100-150*time.Millisecond {
		c.w.violate("I-36", n.id, z, "session %v expires %v after the last sign of life, its timeout is %v", t.Session, quiet, millis(timeout))
	}
}

// onTurn looks at a server after each turn.
func (c *checks) onTurn(n *node) {
	b := c.book(n)
	c.checkLie(n)
	st := n.core.Status()
	c.watchCalm(n, &st)
	if st.Applied > st.Commit || st.Applied != b.applied && !n.installing() {
		c.w.violate("I-15", n.id, st.Applied, "applied %v, commit %v, the state is at %v", st.Applied, st.Commit, b.applied)
		return
	}
	if st.Role == zab.Leading && st.Pending > n.cfg.MaxPending+len(c.w.nodes)+1 { // records of its own, to readmit and for the secret, come on top
		c.w.violate("I-49", n.id, 0, "%d proposals are pending, at most %d may be", st.Pending, n.cfg.MaxPending)
		return
	}
	if st.Role == zab.Leading && st.Epoch > 0 {
		for _, l := range st.Learners {
			if lb := c.books[l.ID]; l.Synced && lb != nil && !lb.damaged && !lb.restored && lb.hard.Current == st.Epoch {
				if _, ok := find(lb.log, l.Match); !ok && l.Match > lb.log[0].Zxid {
					c.w.violate("I-28", n.id, l.Match, "match of learner %d, whose disk ends at %v", l.ID, tip(lb.log).Zxid)
				}
			}
		}
		c.checkContact(n, b)
	} else {
		b.lostAt = -1
	}
}

// checkContact: a leader that cannot reach a quorum stops within a bound (I-23).
func (c *checks) checkContact(n *node, b *book) {
	reach := 0
	for _, o := range c.w.nodes {
		if c.w.observer(o.id) {
			continue
		}
		if o == n || o.up && !o.frozen && !c.w.net.link(n.id, o.id).stops(zab.ForData) && !c.w.net.link(o.id, n.id).stops(zab.ForData) {
			reach++
		}
	}
	if 2*reach > c.w.voters() {
		b.lostAt = -1
		return
	}
	if b.lostAt < 0 {
		b.lostAt = c.w.now
		return
	}
	if lost := c.w.now - b.lostAt; lost > 2*n.cfg.HbTimeout+n.cfg.TickTime+500*time.Millisecond {
		c.w.violate("I-23", n.id, 0, "still leads %v after it lost its quorum", lost)
	}
}

// installing: a snapshot is being put in place, so core and state may be apart.
func (n *node) installing() bool {
	for _, list := range [][]zab.Effect{n.writer.taken, n.writer.ops} {
		for _, fx := range list {
			if _, ok := fx.(zab.InstallSnapshot); ok {
				return true
			}
		}
	}
	for _, ev := range n.inbox {
		if _, ok := ev.(zab.DiskDone); ok {
			return true
		}
	}
	return false
}
