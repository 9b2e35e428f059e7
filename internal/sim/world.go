package sim

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// World is one run: servers, network, disks, clients, and the clock that moves them. It belongs to one goroutine.
type World struct {
	Verbose  io.Writer // gets every event as text, if not nil
	MaxSteps uint64    // stop after so many events; 0: no bound
	// Porcupine has the clients' history judged a second time at the end.
	Porcupine bool

	sc      *Scenario
	now     time.Duration
	queue   agenda
	seq     uint64
	steps   uint64
	hash    uint64
	last    [traceKeep]line
	lastN   int
	connSeq uint64
	still   int // events in a row without time passing

	nodes    []*node
	members  zab.Membership
	net      *network
	clients  []*client
	checks   *checks
	history  *history
	diskSlow map[zab.ServerID]time.Duration
	diskHung map[zab.ServerID]bool
	// diskFaults counts faults that may end a process; a process that ends without one is a violation.
	diskFaults map[zab.ServerID]int
	lies       int // states that were made wrong
	backups    map[zab.ServerID]*simdisk.Disk
	named      map[string]*op
	placed     map[*op]zab.Position    // where a named write got its record
	syncs      map[zab.ServerID]synced // of each learner since the last mark
	counts     Counts
	traps      []trap
	few        []*node // the minority of a schedule

	swapEnd time.Duration // when a server last got its own folder back
	step    int           // next line of the schedule
	waited  time.Duration
	revive  bool // processes that end are started again
	ending  bool // faults are over
	healed  time.Duration
	asked   bool     // after healing the clients are to write until something is committed
	askedAt txn.Zxid // what was committed before; 0 before that
	over    bool
	fail    *Failure
	Settled time.Duration // how long it took to come together after healing
}

// Failure is a broken invariant.
type Failure struct {
	Invariant string
	Node      zab.ServerID
	Zxid      txn.Zxid
	Text      string
	Step      uint64
	At        time.Duration
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s node=%d zxid=%v: %s", f.Invariant, f.Node, f.Zxid, f.Text)
}

// Result sums a run up.
type Result struct {
	Failure *Failure
	Hash    uint64 // of all events: equal for equal runs, on any machine
	Steps   uint64
	Time    time.Duration // simulated
	Ops     int           // answered operations
	Commits int
	Leaders int
	Starts  int
	Counts  Counts
	Settled time.Duration // from healing to one digest everywhere; 0 in an unbounded run
}

// New makes the world of a scenario.
func New(sc *Scenario) *World {
	sc.defaults()
	w := &World{sc: sc, revive: true, diskSlow: map[zab.ServerID]time.Duration{}, diskHung: map[zab.ServerID]bool{},
		diskFaults: map[zab.ServerID]int{}, backups: map[zab.ServerID]*simdisk.Disk{}, named: map[string]*op{},
		placed: map[*op]zab.Position{}, syncs: map[zab.ServerID]synced{}, counts: Counts{}}
	for i := 1; i <= sc.Nodes+sc.Observers; i++ {
		id := zab.ServerID(i)
		w.members.Servers = append(w.members.Servers, zab.Server{ID: id, Observer: i > sc.Nodes, PeerAddr: fmt.Sprintf("n%d:1", i),
			ElectionAddr: fmt.Sprintf("n%d:2", i)})
	}
	w.net = newNetwork(w)
	for _, s := range w.members.Servers {
		w.nodes = append(w.nodes, newNode(w, s.ID))
	}
	w.checks = newChecks(w)
	w.history = newHistory(w)
	for i := range sc.Clients {
		w.clients = append(w.clients, newClient(w, i+1))
	}
	return w
}

func (w *World) node(id zab.ServerID) *node { return w.nodes[id-1] }

func (w *World) voters() int { return w.sc.Nodes }

func (w *World) observer(id zab.ServerID) bool { return int(id) > w.sc.Nodes }

// at and after put something on the agenda.
func (w *World) at(t time.Duration, do func()) {
	w.seq++
	w.queue.push(happening{at: max(t, w.now), seq: w.seq, do: do})
}

func (w *World) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// violate notes the first broken invariant; the run ends there.
func (w *World) violate(id string, node zab.ServerID, z txn.Zxid, format string, args ...any) {
	if w.fail == nil {
		w.fail = &Failure{Invariant: id, Node: node, Zxid: z, Text: fmt.Sprintf(format, args...), Step: w.steps, At: w.now}
		w.trace(node, id, uint64(z), w.fail.Text)
	}
}

// Run plays the scenario to its end, or to the first violation.
func (w *World) Run() (res Result) {
	defer func() {
		if p := recover(); p != nil {
			w.violate("PANIC", 0, 0, "%v\n%s", p, debug.Stack())
		}
		res = w.result()
	}()
	w.begin()
	for w.fail == nil && !w.over && len(w.queue) > 0 && (w.MaxSteps == 0 || w.steps < w.MaxSteps) {
		h := w.queue.pop()
		if h.at > w.now {
			w.still = 0
		}
		if w.still++; w.still > 200_000 {
			w.violate("I-47", 0, 0, "events without end while no time passes")
		}
		w.now = h.at
		w.steps++
		h.do()
	}
	if w.fail == nil && w.Porcupine {
		w.history.porcupine()
	}
	return res
}

func (w *World) begin() {
	for _, n := range w.nodes {
		w.after(between(n.rng, 0, 50*time.Millisecond), n.startUnlessDown)
	}
	for _, c := range w.clients {
		c.start()
	}
	w.schedule()
	if w.sc.Length > 0 {
		w.at(w.sc.Length, w.finish)
	}
	w.tidy()
}

// startUnlessDown: a schedule may have said something about the server in its first moment.
func (n *node) startUnlessDown() {
	if n.boots == 0 && !n.off {
		n.start()
	}
}

// tidy does the world's own housekeeping now and then.
func (w *World) tidy() {
	w.after(time.Second, func() {
		w.net.prune()
		w.tidy()
	})
}

func (w *World) result() Result {
	starts := 0
	for _, n := range w.nodes {
		starts += n.boots
	}
	return Result{Failure: w.fail, Hash: splitmix(w.hash ^ w.steps), Steps: w.steps, Time: w.now, Ops: w.history.done, Commits: len(w.checks.ledger),
		Leaders: len(w.checks.leaders), Starts: starts, Settled: w.Settled, Counts: w.counts}
}

// finish ends the part with faults.
func (w *World) finish() {
	if w.step < len(w.sc.Steps) { // a schedule that waits for something goes first
		w.after(10*time.Millisecond, w.finish)
		return
	}
	if len(w.traps) > 0 {
		w.violate("SCHEDULE", 0, 0, "never came by: %v", w.traps[0])
	}
	if !w.sc.Budgeted {
		w.over = true
		return
	}
	w.trace(0, "healing", 0, nil)
	w.ending, w.healed = true, w.now
	w.heal()
	for _, n := range w.nodes {
		w.giveBack(n)
		w.repair(n)
		n.thaw()
		n.start()
	}
	w.after(3*time.Second, func() {
		w.hush(true)
		w.converge()
	})
}

// hush has the clients make no new requests, or make them again.
func (w *World) hush(quiet bool) {
	for _, c := range w.clients {
		if c.quiet = quiet || c.fixed != nil; !c.quiet { // a client of a schedule does as it is told
			c.until = 0
			c.connect()
		}
	}
}

// converge waits until everybody serves, nobody waits, and all states are equal; then the clients must get something committed, and all states
// become equal again (I-47).
func (w *World) converge() {
	for _, n := range w.nodes {
		n.start() // one that was being stopped
	}
	if w.asked {
		switch {
		case w.checks.lastCommitted().Zxid > w.askedAt:
			w.asked, w.healed = false, w.now
			w.hush(true)
		case w.now-w.healed > settle:
			w.violate("I-47", 0, w.askedAt, "everybody serves, but nothing was committed for %v", w.now-w.healed)
			return
		}
		w.after(50*time.Millisecond, w.converge)
		return
	}
	if why := w.apart(); why != "" && w.mayStayDown() {
		w.count("down-for-safety")
		w.over = true
		return
	} else if why != "" {
		if w.now-w.healed > settle {
			w.violate("I-47", 0, w.checks.lastCommitted().Zxid, "%v after healing: %s", w.now-w.healed, why)
			return
		}
		w.after(50*time.Millisecond, w.converge)
		return
	}
	if w.askedAt == 0 {
		w.Settled = w.now - w.healed
	}
	if w.askedAt == 0 && w.sc.Clients > 0 {
		w.healed = w.now
		w.asked, w.askedAt = true, w.checks.lastCommitted().Zxid
		w.hush(false)
		w.after(50*time.Millisecond, w.converge)
		return
	}
	for _, n := range w.nodes {
		w.history.compare(n)
	}
	w.over = true
}

// mayStayDown: so many disks have lost what they promised that nobody may lead (§18.5).
func (w *World) mayStayDown() bool {
	sound := 0
	for _, n := range w.nodes {
		if b := w.checks.books[n.id]; !w.observer(n.id) && !b.hard.Recovering && b.hard.Current > 0 {
			sound++
		}
	}
	return len(w.checks.leaders) > 0 && 2*sound <= w.voters()
}

// apart says what keeps the ensemble from being one.
func (w *World) apart() string {
	last := w.checks.lastCommitted().Zxid
	for _, n := range w.nodes {
		switch {
		case !n.up || n.core == nil:
			return fmt.Sprintf("server %d is down", n.id)
		case !n.edge.serving:
			st := n.core.Status()
			return fmt.Sprintf("server %d does not serve: %v %v, %s", n.id, st.Role, st.Phase, st.Reason)
		case n.edge.machine.LastZxid() != last:
			return fmt.Sprintf("server %d has applied %v of %v", n.id, n.edge.machine.LastZxid(), last)
		case !w.observer(n.id) && w.checks.books[n.id].hard.Recovering:
			return fmt.Sprintf("server %d is not readmitted", n.id)
		}
	}
	for _, c := range w.clients {
		if len(c.pending) > 0 {
			return fmt.Sprintf("client %d waits for %v", c.n, c.pending[0].kind)
		}
	}
	return ""
}

// leader is the server that leads in the highest established epoch and is up, nil if there is none.
func (w *World) leader() *node {
	var best *node
	var epoch txn.Epoch
	for _, n := range w.nodes {
		if n.core == nil || !n.up {
			continue
		}
		if st := n.core.Status(); st.Role == zab.Leading && st.Epoch > epoch {
			best, epoch = n, st.Epoch
		}
	}
	return best
}

// onNote is a word for the operator's log.
func (w *World) onNote(_ *node, note zab.Note) {
	switch note.Message {
	case zab.NoteSyncStart:
		mode := strings.ToLower(note.Mode)
		w.count("sync-" + mode)
		w.syncs[note.Peer] = synced{mode: mode, times: w.syncs[note.Peer].times + 1}
	case zab.NoteReadmitted, zab.NoteRecovering, zab.NoteHandover:
		w.count(strings.ReplaceAll(note.Message, " ", "-"))
		switch {
		case note.Message != zab.NoteHandover:
		case strings.Contains(note.Reason, "nearly used up"):
			w.count("rolled-over")
		case strings.Contains(note.Reason, "promised a later one"):
			w.count("unstuck")
		}
	}
}
