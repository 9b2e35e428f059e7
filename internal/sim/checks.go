package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// checks is the observer that sees everything: what every disk must hold, what every leader proposed, and the one history that was
// applied. It shares no code with the servers: it keeps books from effects, frames and completed disk operations.
type checks struct {
	w   *World
	rng *rand.Rand

	ledger   []entry // the committed history, as first applied anywhere
	place    map[txn.Zxid]int
	readmits map[readmit]bool // committed
	time     int64            // of the last committed txn, milliseconds
	sessions map[txn.Zxid]int // open ones, as the first server that stopped there had them
	proposed map[txn.Zxid]proposal
	leaders  map[txn.Epoch]zab.ServerID // established
	promises map[txn.Epoch]map[zab.ServerID]map[zab.ServerID]bool
	digests  map[txn.Zxid]uint64
	told     map[zab.ServerID]txn.Zxid // largest commit that a leader announced in its epoch
	books    map[zab.ServerID]*book
	restarts int
	maxEpoch txn.Epoch
	calm     zab.ServerID // who has to go on leading, 0: nobody
}

type entry struct {
	at    zab.Position
	bytes int
}

// readmit names a loss that a committed record has ended.
type readmit struct {
	server zab.ServerID
	id     uint64
}

type proposal struct {
	by     zab.ServerID
	chain  uint64
	abroad bool // it came through a server that its session had left by then
}

// book is what one server's disk must hold, and where the server stands.
type book struct {
	// Shadow of the disk: what completed operations have made durable.
	hard     zab.HardState
	log      []zab.Position // ascending; the first is where the log starts
	damaged  bool           // the disk was tampered with; what it held does not count until the server is readmitted
	rotten   bool           // some cold file lies; nobody knows when it shows
	had      []zab.Position // log before a wipe, nil if there was none: what it held then may have been counted
	hadEpoch txn.Epoch      // and Ec
	doing    zab.Effect     // the operation that is being carried out
	virgin   bool           // never started
	restored bool           // an old copy was put back, and no leader has brought the server into line yet

	// Memory.
	mem     []zab.Position // log with what is on its way to the disk
	applied txn.Zxid
	chain   uint64 // at applied
	serving bool
	role    zab.Role
	newLead map[uint64]zab.NewLeader // by connection
	lastAt  map[uint64]txn.Zxid      // end of what was received, by connection
	hasLast map[uint64]bool
	unacked map[uint64][]txn.Zxid           // sent on a connection and not acked
	alive   map[txn.SessionID]time.Duration // last sign of life of each session that this server had while it leads
	lostAt  time.Duration                   // since when a leader cannot reach a quorum; -1: it can
	failed  string                          // the call of the disk that failed under the writer
	roles   int                             // how often the role changed
	owed    []owed

	lied    bool          // state and snapshots of this server may not be the ensemble's
	wrong   bool          // its state was not, when it was last compared
	wrongAt time.Duration // since when it serves such a state; -1: it does not
}

func newChecks(w *World) *checks {
	c := &checks{w: w, rng: source(w.sc.Seed, "checks", 0), readmits: map[readmit]bool{}, sessions: map[txn.Zxid]int{}, place: map[txn.Zxid]int{}, proposed: map[txn.Zxid]proposal{},
		leaders: map[txn.Epoch]zab.ServerID{}, promises: map[txn.Epoch]map[zab.ServerID]map[zab.ServerID]bool{}, digests: map[txn.Zxid]uint64{},
		told: map[zab.ServerID]txn.Zxid{}, books: map[zab.ServerID]*book{}}
	for _, n := range w.nodes {
		c.books[n.id] = newBook()
	}
	return c
}

func newBook() *book {
	return &book{virgin: true, log: make([]zab.Position, 1), mem: make([]zab.Position, 1), lostAt: -1, wrongAt: -1, alive: map[txn.SessionID]time.Duration{},
		newLead: map[uint64]zab.NewLeader{}, lastAt: map[uint64]txn.Zxid{}, hasLast: map[uint64]bool{}, unacked: map[uint64][]txn.Zxid{}}
}

func (c *checks) book(n *node) *book { return c.books[n.id] }

// find returns where a zxid stands in a log.
func find(log []zab.Position, z txn.Zxid) (int, bool) {
	return slices.BinarySearchFunc(log, z, func(p zab.Position, z txn.Zxid) int {
		switch {
		case p.Zxid < z:
			return -1
		case p.Zxid > z:
			return 1
		}
		return 0
	})
}

func tip(log []zab.Position) zab.Position { return log[len(log)-1] }

// holds: the log has this record, or a snapshot at or behind it that grew out of the committed history.
func (c *checks) holds(log []zab.Position, p zab.Position) bool {
	if i, ok := find(log, p.Zxid); ok {
		return log[i].Chain == p.Chain
	}
	return p.Zxid < log[0].Zxid && c.isCommitted(p)
}

func (c *checks) isCommitted(p zab.Position) bool {
	i, ok := c.place[p.Zxid]
	return p.Zxid == 0 || ok && c.ledger[i].at.Chain == p.Chain
}

func (c *checks) lastCommitted() zab.Position {
	if len(c.ledger) == 0 {
		return zab.Position{}
	}
	return c.ledger[len(c.ledger)-1].at
}

// cutLog forgets everything behind to.
func cutLog(log []zab.Position, to txn.Zxid) []zab.Position {
	i, ok := find(log, to)
	if ok {
		i++
	}
	return log[:max(i, 1):max(i, 1)]
}

// onProposed: records enter a server's log, as proposals if it leads.
func (c *checks) onProposed(n *node, recs []txn.Record) {
	b := c.book(n)
	st := n.core.Status()
	for i := range recs {
		r := &recs[i]
		if r.Prev != tip(b.mem).Zxid || !r.Zxid.Follows(r.Prev) {
			c.w.violate("I-9", n.id, r.Zxid, "appended behind %v, its predecessor is %v", tip(b.mem).Zxid, r.Prev)
			return
		}
		if before, twice := c.proposed[r.Zxid]; twice && before.chain != r.Chain {
			c.w.violate("I-10", n.id, r.Zxid, "another record with this zxid was proposed by %d", before.by)
			return
		} else if !twice {
			if st.Role != zab.Leading || c.leaders[r.Zxid.Epoch()] != n.id {
				c.w.violate("I-21", n.id, r.Zxid, "proposed by a server that is %v and not the established leader of the epoch", st.Role)
				return
			}
			t, err := r.Txn()
			if err != nil {
				c.w.violate("I-1", n.id, r.Zxid, "unreadable: %v", err)
				return
			}
			c.checkExpiry(n, r.Zxid, t)
			if r.Zxid.Counter() > n.cfg.CounterHard+uint32(len(c.w.nodes)) { // records of the leader's own may come on top
				c.w.violate("R-63", n.id, r.Zxid, "the counter is beyond its bound of %d", n.cfg.CounterHard)
				return
			}
			c.proposed[r.Zxid] = proposal{n.id, r.Chain, c.w.history.abroad(t, r.Zxid.Epoch())}
			c.w.place(r)
		}
		b.mem = append(b.mem, positionOf(r))
	}
}

func (c *checks) onCut(n *node, to zab.Position) {
	b := c.book(n)
	if to.Zxid < b.applied {
		c.w.violate("I-19", n.id, to.Zxid, "truncated below %v, which it has applied", b.applied)
		return
	}
	if n.core.Status().Role == zab.Leading {
		c.w.violate("I-20", n.id, to.Zxid, "a leader truncates its log")
		return
	}
	if i, ok := find(b.mem, to.Zxid); ok && !b.hard.Recovering && i+1 < len(b.mem) && c.isCommitted(b.mem[i+1]) {
		c.w.violate("I-19", n.id, to.Zxid, "cuts %v, which is committed", b.mem[i+1].Zxid)
		return
	}
	b.mem = cutLog(b.mem, to.Zxid)
}

// begin and done stand around a disk operation: a crash between them may leave it done or not.
func (c *checks) begin(n *node, fx zab.Effect) { c.book(n).doing = fx }
func (c *checks) done(n *node) {
	b := c.book(n)
	_, often := b.doing.(zab.Append)
	b.doing = nil
	if !often && chance(c.rng, 40) {
		c.deep(n)
	}
}

func (c *checks) onDurable(n *node, recs []txn.Record) {
	b := c.book(n)
	for i := range recs {
		b.log = append(b.log, positionOf(&recs[i]))
	}
	if chance(c.rng, c.w.sc.deepEvery()) {
		c.deep(n)
	}
}

func (c *checks) onHard(n *node, h zab.HardState) {
	b := c.book(n)
	if h.Accepted < b.hard.Accepted || h.Current < b.hard.Current || h.Current > h.Accepted {
		c.w.violate("I-8", n.id, 0, "hard state %+v after %+v", h, b.hard)
		return
	}
	if h.Accepted == b.hard.Accepted && b.hard.AcceptedLeader != 0 && h.AcceptedLeader != b.hard.AcceptedLeader {
		c.w.violate("I-7", n.id, 0, "epoch %d was promised to %d and now to %d", h.Accepted, b.hard.AcceptedLeader, h.AcceptedLeader)
		return
	}
	if b.hard.Recovering && !h.Recovering && !c.readmits[readmit{n.id, b.hard.RecoveryID}] {
		c.w.violate("I-25", n.id, 0, "counts again without a committed record that re-admits loss %x", b.hard.RecoveryID)
		return
	}
	b.hard = h
	if !h.Recovering {
		b.damaged, b.had = false, nil
	}
	c.maxEpoch = max(c.maxEpoch, h.Accepted)
}

func (c *checks) onTruncated(n *node, to zab.Position) {
	b := c.book(n)
	b.log = cutLog(b.log, to.Zxid)
	if tip(b.log) != to {
		c.w.violate("I-46", n.id, to.Zxid, "after the cut the log ends at %v", tip(b.log))
	}
}

func (c *checks) onInstalled(n *node, at zab.Position) {
	b := c.book(n)
	if !c.isCommitted(at) {
		c.w.violate("I-2", n.id, at.Zxid, "a snapshot that is not of the committed history was installed")
		return
	}
	if at.Zxid < b.applied && !b.hard.Recovering {
		c.w.violate("I-19", n.id, at.Zxid, "a snapshot took the server back from %v", b.applied)
		return
	}
	for _, p := range b.log {
		if p.Zxid > at.Zxid && !b.hard.Recovering && c.isCommitted(p) {
			c.w.violate("I-19", n.id, at.Zxid, "a snapshot takes %v away, which is committed (R-67)", p.Zxid)
			return
		}
	}
	b.log, b.mem = []zab.Position{at}, []zab.Position{at}
	c.mayBelieve(b)
}

// mayBelieve: a snapshot came from another server, which may lie.
func (c *checks) mayBelieve(b *book) {
	for _, other := range c.books {
		b.lied = b.lied || other.lied
	}
}

func (c *checks) onLoaded(n *node, at zab.Position) {
	b := c.book(n)
	b.applied, b.chain = at.Zxid, at.Chain
	c.onDigest(n, at.Zxid, n.edge.machine.Digest())
	c.settleLie(n)
}

func (c *checks) onSnapshotSent(n *node, at zab.Position) {
	if !c.isCommitted(at) {
		c.w.violate("I-2", n.id, at.Zxid, "a snapshot that is not of the committed history is sent")
	}
}

// commit is one record that a server is about to apply.
func (c *checks) commit(n *node, r *txn.Record) {
	b := c.book(n)
	if r.Prev != b.applied {
		id := "I-16"
		if r.Zxid <= b.applied {
			id = "I-3"
		}
		c.w.violate(id, n.id, r.Zxid, "applied behind %v, its predecessor is %v", b.applied, r.Prev)
		return
	}
	if i, known := c.place[r.Zxid]; known {
		if c.ledger[i].at.Chain != r.Chain {
			c.w.violate("I-2", n.id, r.Zxid, "applied another record than others did")
			return
		}
	} else {
		last := c.lastCommitted()
		if r.Prev != last.Zxid {
			c.w.violate("I-2", n.id, r.Zxid, "applied behind %v, others have applied %v", r.Prev, last.Zxid)
			return
		}
		if c.primaryOrder(n, last.Zxid, r.Zxid); c.w.fail != nil {
			return
		}
		if p, ok := c.proposed[r.Zxid]; !ok || p.chain != r.Chain {
			c.w.violate("I-1", n.id, r.Zxid, "applied and never proposed")
			return
		} else if p.abroad {
			c.w.violate("I-42", n.id, r.Zxid, "a write through a server that its session had left is carried out")
			return
		}
		c.place[r.Zxid] = len(c.ledger)
		c.ledger = append(c.ledger, entry{positionOf(r), len(r.Bytes)})
		t, err := r.Txn()
		if err != nil {
			c.w.violate("I-1", n.id, r.Zxid, "unreadable: %v", err)
			return
		}
		if body, ok := t.Body.(*txn.Readmit); ok {
			c.readmits[readmit{body.Server, body.RecoveryID}] = true
		}
		if t.Time < c.time {
			c.w.violate("R-50", n.id, r.Zxid, "the time %d of a txn is before that of its predecessor, %d", t.Time, c.time)
			return
		}
		c.time = t.Time
		c.w.history.committed(r, t)
	}
	b.applied, b.chain = r.Zxid, r.Chain
}

func (c *checks) onApply(n *node, recs []txn.Record) {
	b := c.book(n)
	for i := range recs {
		if j, ok := find(b.log, recs[i].Zxid); !ok || b.log[j].Chain != recs[i].Chain {
			c.w.violate("I-15", n.id, recs[i].Zxid, "applied and not durable here")
			return
		}
		if c.commit(n, &recs[i]); c.w.fail != nil {
			return
		}
	}
}

func (c *checks) onApplied(n *node) {
	if got := n.edge.machine.LastZxid(); got != c.book(n).applied {
		c.w.violate("I-16", n.id, got, "the state is at %v after applying up to %v", got, c.book(n).applied)
		return
	}
	z, open := n.edge.machine.LastZxid(), n.edge.machine.SessionCount()
	if have, known := c.sessions[z]; known && have != open && !n.edge.lies {
		c.w.violate("I-17", n.id, z, "%d sessions are open, another server had %d", open, have)
	} else if !known {
		c.sessions[z] = open
	}
}

func (c *checks) onReplay(n *node, r *txn.Record) { c.commit(n, r) }

// onRestored: a start begins its replay from a snapshot, or from nothing.
func (c *checks) onRestored(n *node, z txn.Zxid, digest uint64) {
	b := c.book(n)
	b.applied, b.chain = z, 0
	if _, halfway := b.doing.(zab.InstallSnapshot); halfway { // it may have reached the disk, though nobody heard of it
		c.mayBelieve(b)
	}
	if i, ok := c.place[z]; ok {
		b.chain = c.ledger[i].at.Chain
	} else if z != 0 {
		c.w.violate("I-2", n.id, z, "a snapshot holds what was never committed")
		return
	}
	c.onDigest(n, z, digest)
}

func (c *checks) onDigest(n *node, z txn.Zxid, digest uint64) {
	if b := c.book(n); b.lied {
		c.doubtful(b, z, digest)
		return
	}
	if have, ok := c.digests[z]; ok && have != digest {
		c.w.violate("I-17", n.id, z, "digest %x, another server had %x", digest, have)
		return
	}
	c.digests[z] = digest
}

// onRecovered holds what a start found against what the disk must hold.
func (c *checks) onRecovered(n *node) {
	b, rec := c.book(n), &n.rec
	c.restarts++
	log, err := c.readLog(n, rec.Base)
	if err != nil && b.rotten { // below the snapshot nobody reads at a start; a learner would be told that the log is gone
		log, err = c.readLog(n, rec.SnapshotAt)
	}
	if err != nil {
		c.w.violate("I-46", n.id, 0, "the recovered log cannot be read: %v", err)
		return
	}
	b.wrongAt = -1
	op, halfway := b.doing.(zab.SaveHardState)
	if b.hard.Diverged || halfway && op.State.Diverged && rec.Hard.Recovering { // everything is set aside
		b.damaged = true
		c.w.count("diverged")
	}
	if halfway && b.hard.Recovering && !op.State.Recovering && rec.Hard == op.State { // it had reached the disk, though nobody heard of it
		c.onHard(n, rec.Hard)
	}
	if rec.Hard.Recovering && b.rotten {
		b.damaged = true
		c.w.count("recovering-after-rot")
	}
	if !b.damaged && !b.virgin {
		c.compareStart(n, b, log)
	}
	b.virgin, b.doing = false, nil
	b.hard, b.log = rec.Hard, log
	b.mem = slices.Clone(log)
	b.role, b.serving = zab.Looking, false
	if rec.Applied.Zxid != b.applied {
		c.w.violate("I-18", n.id, rec.Applied.Zxid, "recovery says applied, the state is at %v", b.applied)
		return
	}
	if rec.End != tip(log) {
		c.w.violate("I-46", n.id, rec.End.Zxid, "recovery says that this is the end, the log ends at %v", tip(log))
	}
}

// readLog reads a server's log behind base through its own reader, and checks that it hangs together.
func (c *checks) readLog(n *node, base zab.Position) ([]zab.Position, error) {
	log := []zab.Position{base}
	for {
		recs, err := n.store.ReadAfter(tip(log).Zxid, 1<<20)
		if err != nil {
			return nil, err
		}
		if len(recs) == 0 {
			return log, nil
		}
		for i := range recs {
			if !recs[i].Links(tip(log).Zxid, tip(log).Chain) {
				return nil, errors.New("a record does not link to its predecessor")
			}
			log = append(log, positionOf(&recs[i]))
		}
	}
}

// compareStart: everything that was durable is there, but for what the operation may have done that was under way.
func (c *checks) compareStart(n *node, b *book, log []zab.Position) {
	rec := &n.rec
	if rec.CutBytes > 0 {
		c.w.count("torn-tail")
	}
	if rec.Hard.Recovering && !b.hard.Recovering {
		if h, ok := b.doing.(zab.SaveHardState); !ok || !h.State.Recovering {
			c.w.violate("I-45", n.id, 0, "RECOVERING after a start from an undamaged disk: %s", rec.Recovering)
			return
		}
	}
	want, got := b.hard, rec.Hard
	if op, ok := b.doing.(zab.SaveHardState); ok && got == op.State {
		want = op.State
	}
	if got != want {
		c.w.violate("I-45", n.id, 0, "hard state %+v was recovered, %+v was durable", got, want)
		return
	}
	must := b.log
	switch op := b.doing.(type) {
	case zab.Truncate:
		must = cutLog(must, op.To.Zxid)
	case zab.InstallSnapshot:
		if log[0] == op.Begin.At {
			return
		}
	}
	for _, p := range must {
		if p.Zxid < log[0].Zxid {
			continue // purged
		}
		if i, ok := find(log, p.Zxid); !ok || log[i].Chain != p.Chain {
			c.w.violate("I-45", n.id, p.Zxid, "was durable and is not recovered; the log is %v to %v, %v to %v was durable",
				log[0].Zxid, tip(log).Zxid, must[0].Zxid, tip(must).Zxid)
			return
		}
	}
	if log[0].Zxid > tip(must).Zxid && !c.isCommitted(log[0]) {
		c.w.violate("I-45", n.id, log[0].Zxid, "the log starts behind what was durable")
	}
}

func (c *checks) onDead(n *node) {
	b := c.book(n)
	b.serving, b.role, b.lostAt, b.wrongAt = false, zab.Looking, -1, -1
	b.failed, b.roles, b.owed = "", 0, nil
	delete(c.told, n.id)
}

// onThawed: what a frozen process does not see is not counted against it.
func (c *checks) onThawed(n *node) { c.book(n).lostAt, c.book(n).wrongAt = -1, -1 }

func (c *checks) onClosed(n *node) { c.book(n).doing = nil }

// damage: somebody did something to the disk that no crash does.
func (c *checks) damage(n *node, wiped bool) {
	b := c.book(n)
	b.rotten = !wiped
	if wiped {
		if !b.damaged {
			b.had, b.hadEpoch = b.log, b.hard.Current
		}
		b.damaged = true
		b.log, b.mem, b.hard = make([]zab.Position, 1), make([]zab.Position, 1), zab.HardState{}
	}
}

// onFatal: a process may end only for a fault that was put in.
func (c *checks) onFatal(n *node, code int, err error) {
	switch {
	case errors.Is(err, simdisk.ErrPowerCut):
	case code == zab.ExitDisk && c.w.diskFaults[n.id] > 0:
	case code == zab.ExitDisk && c.book(n).rotten:
	case code == zab.ExitBrokenInvariant && c.w.lies > 0 && (strings.Contains(err.Error(), "start it again") || strings.Contains(err.Error(), "start this server again")):
		c.w.count("fenced")
	case code == zab.ExitWrongCluster && n.own != nil:
	default:
		var st *peer.StorageError
		id := "FATAL-" + string(rune('0'+code))
		if errors.As(err, &st) && st.Code == zab.ExitCorrupt && c.book(n).rotten {
			return
		}
		c.w.violate(id, n.id, 0, "the process ended: %v", err)
	}
}
