package follower

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// stage is how far this connection has come. The order is the protocol's.
type stage uint8

const (
	stageDial      stage = iota
	stageInfo            // FOLLOWERINFO sent
	stagePromise         // LEADERINFO accepted, Ea on its way to the disk
	stageHeader          // ACKEPOCH sent, waiting for DIFF, TRUNC or SNAP
	stageReceive         // snapshot chunks are coming in
	stageInstall         // and the snapshot is being installed
	stageRecords         // the stream runs
	stageNewLeader       // NEWLEADER came, its history is on its way to the disk
	stageClaim           // Ec is
	stageAcked           // ACK(NEWLEADER) sent
	stageUpToDate        // UPTODATE came; serving once that much is applied
	stageServing
	stageFenced // its state is not the leader's; it waits for the leader's verdict (I-17)
)

var stageNames = [...]string{"dialling", "waiting for LEADERINFO", "storing the promise", "waiting for the sync header", "receiving a snapshot",

	"installing a snapshot", "receiving records", "making the history durable", "storing the epoch", "waiting for UPTODATE",
	"applying", "serving", "fenced: its state is not the leader's"}

func (s stage) String() string { return stageNames[s] }

// Follower follows one leader over one connection. It is owned by whoever steps it and is thrown away when Leave is not nil.
type Follower struct {
	local    *zab.Local
	cfg      *zab.Config
	fx       *zab.Effects
	self     zab.ServerID
	leader   zab.ServerID
	observer bool

	now   zab.Instant // of the step that is running
	due   zab.Instant // when it wanted to be called at the latest
	stage stage
	leave *zab.Leave

	conn    zab.ConnID
	epoch   txn.Epoch
	began   zab.Instant
	retry   zab.Instant // when to dial again; Never while an attempt is under way
	backoff time.Duration
	heard   zab.Instant   // anything from the leader
	moved   zab.Instant   // progress of discovery or synchronisation
	shifted time.Duration // how far stalls in a row have moved the deadlines

	opID      uint64 // the disk operation that the stage waits for
	end       zab.Position
	mode      string
	rejected  bool         // a SYNCREJECT was sent on this connection
	held      []zab.Packet // what came while a snapshot was being installed, in order
	acked     txn.Zxid     // of the last ACK
	ackedAs   bool         // and the votable in it
	readmitID uint64       // disk operation of recovering = no
	leaveID   uint64       // disk operation that leaving waits for
	leaveWhy  zab.Leave
	digests   digests

	commit  txn.Zxid    // largest that the leader named
	open    txn.Zxid    // applied so far, it may serve
	nonce   uint64      // of the last ping
	shown   txn.Zxid    // durable in the last answer
	said    zab.Instant // when that was
	touches []zab.Touch
	answers []answer
	stats   struct{ diff, trunc, snap uint64 }
}

// New enters DISCOVERY as a follower or observer of leader; the first effect is Dial.
func New(local *zab.Local, fx *zab.Effects, leader zab.ServerID, observer bool, now zab.Instant) *Follower {
	f := &Follower{
		local: local, cfg: local.Cfg, fx: fx, self: local.Cfg.Self, leader: leader, observer: observer,
		now: now, began: now, heard: now, moved: now, retry: zab.Never, backoff: local.Cfg.ConnectRetry,
	}
	fx.Add(zab.Dial{Peer: leader})
	f.due = f.Deadline()
	return f
}

// Step takes all events of one turn. DiskDone has been given to Local before.
func (f *Follower) Step(now zab.Instant, evs []zab.Event) {
	if f.leave != nil {
		return
	}
	f.now = now
	f.wake()
	for _, ev := range evs {
		f.on(ev)
		if f.leave != nil {
			return
		}
	}
	f.advance()
	f.due = f.Deadline()
}

// wake: time in which the own loop did not run is nobody's silence.
func (f *Follower) wake() {
	late := f.now.Sub(f.due)
	if late <= f.cfg.HbInterval {
		f.shifted = 0
		return
	}
	shift := min(late, f.cfg.HbTimeout-f.shifted)
	floor := f.heard
	if shift > 0 { // at least one ping interval is left to read what lies in the socket
		floor = f.now.Add(f.cfg.PingInterval() - f.cfg.Silence())
	}
	f.shifted += shift
	f.heard = min(f.now, max(floor, f.heard.Add(shift)))
	f.moved = min(f.now, f.moved.Add(shift))
}

// advance does what has become possible: completions first, then the one ack of the turn, then the deadlines.
func (f *Follower) advance() {
	for _, step := range [...]func(){f.onDisk, f.apply, f.compareDigest, f.showProgress, f.ack, f.answer, f.checkLimits} {
		step()
		if f.leave != nil {
			return
		}
	}
}

func (f *Follower) on(ev zab.Event) {
	switch ev := ev.(type) {
	case zab.Dialed:
		f.onDialed(ev)
	case zab.DialFailed:
		f.onDialFailed(ev)
	case zab.Received:
		if ev.Conn == f.conn && f.conn != 0 && f.leaveID == 0 {
			f.heard = f.now
			f.onFrame(ev)
		}
	case zab.Unread:
		if ev.Conn == f.conn && f.conn != 0 {
			f.heard = f.now
		}
	case zab.Progress:
		if ev.Conn == f.conn && f.conn != 0 {
			f.onProgress()
		}
	case zab.ConnDown:
		if ev.Conn == f.conn && f.conn != 0 {
			f.conn = 0
			if f.leaveID == 0 {
				f.lost("the connection to the leader is gone")
			}
		}
	case zab.SnapshotReceived:
		f.onSnapshotReceived(ev)
	case zab.Submit:
		f.onSubmit(ev)
	case zab.SyncAsked:
		f.onSyncAsked(ev)
	case zab.RevalidateAsked:
		f.onRevalidateAsked(ev)
	case zab.Disk:
		if f.stage >= stageAcked && f.leaveID == 0 {
			f.pong() // the leader should know before it sends the next record
		}
	case zab.StateDigest:
		f.onStateDigest(ev)
	case zab.Touched:
		f.touches = append(f.touches, ev.Touches...)
	case zab.Stop:
		f.quit(zab.ByeGoodbye, zab.Leave{Reason: "stopping", Stopped: true})
	}
	// DiskDone needs nothing: advance asks Local. Tick only brings the time.
}

// onFrame looks at the header: a frame of another epoch costs the connection (I-22). 0 is from before an epoch was known, and LEADERINFO
// names its own.
func (f *Follower) onFrame(ev zab.Received) {
	epoch := f.epoch
	switch p := ev.Packet.(type) {
	case *zab.LeaderInfo:
		epoch = p.Epoch
	case *zab.Bye:
		epoch = ev.Epoch
	}
	if ev.Epoch != 0 && ev.Epoch != epoch {
		f.protocol(fmt.Sprintf("a frame of epoch %d in epoch %d", ev.Epoch, epoch))
		return
	}
	f.onPacket(ev.Packet)
}

// onPacket takes one packet of the leader. What came before the stage that it belongs to is a protocol error.
func (f *Follower) onPacket(p zab.Packet) {
	switch p := p.(type) {
	case *zab.Ping:
		f.onPing(p)
		return
	case *zab.Bye:
		f.onBye(p)
		return
	}
	f.moved = f.now
	if f.stage == stageReceive || f.stage == stageInstall { // records behind a snapshot wait for it; the leader's window bounds how many
		f.held = append(f.held, p)
		return
	}
	if f.rejected && f.stage == stageHeader && overtaken(p) {
		return
	}
	f.take(p)
}

// overtaken: after a SYNCREJECT the stream of the refused header still arrives, until the next header.
func overtaken(p zab.Packet) bool {
	switch p.(type) {
	case *zab.Propose, *zab.Inform, *zab.Commit, *zab.NewLeader:
		return true
	}
	return false
}

func (f *Follower) take(p zab.Packet) {
	switch p := p.(type) {
	case *zab.LeaderInfo:
		f.onLeaderInfo(p)
	case *zab.Diff:
		f.onDiff(p)
	case *zab.Trunc:
		f.onTrunc(p)
	case *zab.SnapBegin:
		f.onSnapBegin(p)
	case *zab.Propose:
		f.onRecords(p.Records, p.Commit)
	case *zab.Inform:
		f.onRecords(p.Records, p.Commit)
	case *zab.Commit:
		f.learnCommit(p.Commit)
	case *zab.NewLeader:
		f.onNewLeader(p)
	case *zab.UpToDate:
		f.onUpToDate(p)
	case *zab.Refused:
		f.fx.Add(zab.Refuse{Refusals: p.Refusals})
	case *zab.Synced:
		f.onAnswer(answer{synced: p})
	case *zab.Revalidated:
		f.onAnswer(answer{revalidated: p})
	case *zab.Handover:
		f.onHandover(p)
	default:
		f.protocol(fmt.Sprintf("%T is nothing for a follower", p))
	}
}

func (f *Follower) checkLimits() {
	switch {
	case f.leaveID != 0:
		if f.local.IsDone(f.leaveID) {
			f.leaveNow()
		}
	case f.stage == stageDial:
		f.checkDial()
	case f.now.Sub(f.heard) >= f.cfg.Silence():
		f.lost("the leader is silent")
	case f.stage < stageServing && f.stage != stageInstall && f.now.Sub(f.moved) >= f.cfg.NewLeaderWait():
		f.lost("no progress while " + f.stage.String())
	}
}

// Deadline is when Step wants to be called at the latest.
func (f *Follower) Deadline() zab.Instant {
	if f.leaveID != 0 {
		return zab.Never // the disk's completion is waited for, however long it takes
	}
	if f.stage == stageDial {
		return min(f.retry, f.began.Add(f.cfg.ConnectLimit))
	}
	if f.stage >= stageUpToDate && f.local.Hist.Applicable() {
		return f.now // the next piece of a long catch-up
	}
	d := f.heard.Add(f.cfg.Silence())
	if f.stage < stageServing {
		d = min(d, f.moved.Add(f.cfg.NewLeaderWait()))
	}
	return d
}

// Leave is nil while in the role.
func (f *Follower) Leave() *zab.Leave { return f.leave }

// Phase tells how far this server has come with its leader.
func (f *Follower) Phase() zab.Phase {
	switch {
	case f.stage < stageHeader:
		return zab.Discovery
	case f.stage < stageUpToDate:
		return zab.Synchronization
	}
	return zab.Broadcast
}

// Established returns the epoch from UPTODATE on, 0 before.
func (f *Follower) Established() txn.Epoch {
	if f.stage < stageUpToDate {
		return 0
	}
	return f.epoch
}

// Epoch is the epoch of the leader's LEADERINFO, 0 before.
func (f *Follower) Epoch() txn.Epoch { return f.epoch }

// Status fills a follower's part of s.
func (f *Follower) Status(s *zab.Status) {
	s.Phase, s.Leader, s.Epoch = f.Phase(), f.leader, f.Established()
	s.SyncDiff += f.stats.diff
	s.SyncTrunc += f.stats.trunc
	s.SyncSnap += f.stats.snap
	s.LagTxns = f.lagTxns()
	s.DigestAgreed, s.Diverged = f.digests.agreed, f.stage == stageFenced
	if f.stage != stageServing {
		s.Reason = f.stage.String()
	}
}

func (f *Follower) note(n zab.Note) {
	n.Role, n.Phase, n.Epoch = f.role(), f.Phase(), f.epoch
	f.fx.Add(n)
}

func (f *Follower) role() zab.Role {
	if f.observer {
		return zab.Observing
	}
	return zab.Following
}

func (f *Follower) send(p zab.Packet) {
	f.fx.Add(zab.Send{Conn: f.conn, Epoch: f.epoch, Packet: p})
}
