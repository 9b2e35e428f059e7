package quorum

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// Recovered is what a server's disk says at start. The node owns Hist from New on.
type Recovered struct {
	Hard        zab.HardState
	Hist        *zab.History
	Fresh       bool // empty directory
	Vouched     bool // the operator says that this empty member may vote
	Initialized bool // the cluster id is settled on disk
}

// stage is where a server stands; everything before inRole is LOOKING.
type stage uint8

const (
	barrier stage = iota // an old role's disk operations are on their way, or the process just started
	asking               // fast rejoin: does the lost leader still lead?
	pause                // between failed attempts
	voting               // an election
	marking              // writing down that this server is recovering, before it follows
	inRole               // core decides
	ended                // a graceful stop is complete
)

// roleCore is a leader or follower core as quorum drives it.
type roleCore interface {
	Step(now zab.Instant, evs []zab.Event)
	Deadline() zab.Instant
	Leave() *zab.Leave
	Phase() zab.Phase
	Established() txn.Epoch
	Status(s *zab.Status)
}

// Node is one server's protocol core. All methods must be called from one goroutine.
type Node struct {
	cfg   *zab.Config
	local *zab.Local
	fx    *zab.Effects // what cores and quorum add to
	out   []zab.Effect // what this Step has yielded so far
	cores cores
	rng   random
	peers []*peer // other members, ascending by id

	stage     stage
	started   bool
	stopping  bool
	voter     bool        // this server is a configured voter
	founding  bool        // every voter was seen to be without a history, this empty one included
	round     uint64      // of the current election
	vote      zab.Vote    // Leader 0: none
	since     zab.Instant // when LOOKING began
	wait      zab.Instant // end of asking or pause; Never
	quorumAt  zab.Instant // since when the vote has a quorum; Never: it has none
	notifyAt  zab.Instant // next re-broadcast
	notifyGap time.Duration
	noteAt    zab.Instant // next word to the operator about what is waited for

	endAt      zab.Instant // when left.Fatal ends the process
	left       zab.Leave   // how the last role ended, until what follows from it is done
	rejoin     rejoin
	designated zab.ServerID // T of a handover while its grace lasts
	graceEnd   zab.Instant
	next       attempt // what marking leads to

	core      roleCore
	giveUp    string    // why the attempt is to be abandoned
	role      zab.Role  // while stage is inRole
	try       attempt   // how the role was entered
	lead      txn.Epoch // established epoch as last told
	draining  bool      // as last told
	beenUp    bool      // the role has been established
	handed    bool      // this server led and has handed over, and serves nobody since
	served    bool      // the role opened this server for clients
	batch     []zab.Event
	held      []heldConn
	failures  int         // attempts in a row that established nothing
	attemptAt zab.Instant // start of the last one
	fullUntil zab.Instant // its disk has no room for what an established leader sends: it joins none before; Never: it has
	ban       bool        // a quorum cannot reach this server: it is no candidate
	banUntil  zab.Instant

	reason    string // why LOOKING
	elections uint64
	lostAt    zab.Instant
	lost      bool // lostAt holds
	failover  time.Duration
	totals    zab.Status // counters of roles gone by
}

// New makes the core of one server. Nothing happens before the first Step, which starts it. cfg must be valid, must not change,
// and Self must be one of its members.
func New(cfg *zab.Config, rec Recovered, now zab.Instant) *Node {
	fx := new(zab.Effects)
	local := zab.NewLocal(cfg, rec.Hard, rec.Hist, fx)
	local.Fresh, local.Vouched, local.Initialized = rec.Fresh && !mutant.On("R-66"), rec.Vouched, rec.Initialized
	n := &Node{
		cfg: cfg, local: local, fx: fx, cores: concrete, rng: newRandom(cfg.Seed ^ uint64(cfg.Self)<<56),
		voter: cfg.Members.Voter(cfg.Self), since: now, wait: zab.Never, quorumAt: zab.Never,
		notifyAt: zab.Never, noteAt: zab.Never, fullUntil: zab.Never, reason: "start",
	}
	for _, s := range cfg.Members.Servers {
		if s.ID != cfg.Self {
			n.peers = append(n.peers, &peer{id: s.ID, voter: !s.Observer, leadingAt: zab.Never, probeAt: zab.Never})
		}
	}
	sortPeers(n.peers)
	return n
}

// Step takes everything that waits at time now, which never goes back. The effects are the caller's and are to be carried out in order.
func (n *Node) Step(now zab.Instant, evs []zab.Event) []zab.Effect {
	if !n.started {
		n.started = true
		n.beginLooking(now, "start")
	}
	for _, ev := range evs { // completions first: a core sees Local as the disk is (contract of Local)
		if done, ok := ev.(zab.DiskDone); ok {
			n.local.Done(done)
		}
	}
	n.batch = n.batch[:0]
	for _, ev := range evs {
		if n.take(now, ev) {
			n.batch = append(n.batch, ev)
		}
	}
	if n.core != nil {
		n.runCore(now, n.batch)
	}
	n.advance(now)
	n.tellDirty()
	n.flush(now)
	out := n.out
	n.out = nil
	return out
}

// take does quorum's own part of one event and reports whether the role core must see it.
func (n *Node) take(now zab.Instant, ev zab.Event) bool {
	switch ev := ev.(type) {
	case zab.Heard:
		n.onHeard(now, ev.From, ev.Notification)
	case zab.MeshUp:
		n.onMeshUp(ev.Peer)
	case zab.MeshDown:
		n.onMeshDown(now, ev)
	case zab.Accepted:
		return n.onAccepted(now, ev)
	case zab.Received:
		return n.onReceived(ev)
	case zab.ConnDown:
		return n.onConnDown(ev)
	case zab.Dialed:
		return n.onDialed(ev)
	case zab.DialFailed:
		return n.onDialFailed(now, ev)
	case zab.Disk:
		n.onDisk(ev)
	case zab.SnapshotTaken:
		n.onSnapshotTaken(ev)
	case zab.Stop:
		n.stopping = true
	case zab.HandOver:
		if n.core == nil || n.role != zab.Leading {
			n.add(zab.Note{Level: zab.Warn, Message: zab.NoteHandover, Reason: "this server does not lead"})
			return false
		}
	case zab.Submit, zab.SyncAsked, zab.RevalidateAsked:
		return n.onClient(ev)
	}
	return true
}

// advance carries on until nothing more follows from time and state. A stage leads to another at most a few times in a turn.
func (n *Node) advance(now zab.Instant) {
	n.expireHeld(now)
	n.expireGrace(now)
	n.reachTimers(now)
	for n.move(now) {
	}
}

// Deadline is when Step must be called even if nothing happens.
func (n *Node) Deadline() zab.Instant {
	if n.stage == ended {
		return zab.Never
	}
	at := n.heldDeadline()
	if n.designated != 0 {
		at = min(at, n.graceEnd)
	}
	if n.core != nil {
		return min(at, n.core.Deadline(), n.try.until)
	}
	return min(at, n.lookingDeadline())
}

// onDisk remembers how much room there is; a vote for oneself says so (§18.6).
func (n *Node) onDisk(ev zab.Disk) {
	n.local.DiskLow, n.local.DiskFull = ev.Low, ev.Full
	if !ev.Full {
		n.fullUntil = zab.Never
	}
	if n.stage == voting && n.vote.Leader == n.cfg.Self && n.vote != n.local.Vote() {
		n.setVote(n.local.Vote())
	}
}

func (n *Node) onSnapshotTaken(ev zab.SnapshotTaken) {
	h := n.local.Hist
	if ev.At.Zxid < h.Snapshot.Zxid {
		return // one of before an installed snapshot
	}
	h.Snapshot, h.SnapSize = ev.At, ev.Size
	if ev.LogBase.Zxid >= h.Base.Zxid {
		h.Base = ev.LogBase
	}
}

// add asks for an effect of quorum's own.
func (n *Node) add(e zab.Effect) { n.fx.Add(e) }

// flush moves what was asked for to the list of this Step, and sees there whether clients are being served.
func (n *Node) flush(now zab.Instant) {
	list := n.fx.Take()
	for _, e := range list {
		switch e.(type) {
		case zab.Serve:
			n.served = true
			if n.lost {
				n.failover, n.lost = now.Sub(n.lostAt), false
			}
			if n.handed {
				n.handed = false
				list = append(list, zab.Note{Message: zab.NoteHandedOver, Role: n.role, Peer: n.try.leader, Epoch: n.core.Established(),
					Reason: fmt.Sprintf("clients here waited %v", n.failover)})
			}
		case zab.Freeze: // a core's own, while its role goes on
			if n.served {
				n.served, n.lost, n.lostAt = false, true, now
			}
		}
	}
	if n.out == nil {
		n.out = list
	} else {
		n.out = append(n.out, list...)
	}
}
