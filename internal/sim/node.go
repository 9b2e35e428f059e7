package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/quorum"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// node is one machine with one server process on it: what peer.Peer does on goroutines, done here by happenings of the world.
type node struct {
	w    *World
	id   zab.ServerID
	disk *simdisk.Disk

	// The machine.
	own     *simdisk.Disk // its own disk while it runs on another cluster's folder, and what the checks know of it
	ownBook *book
	off     bool // no power
	up      bool // the process runs
	frozen  bool
	paused  bool // frozen, and so is its clock
	life    int  // grows with every end of a process
	boots   int
	drift   float64
	offset  time.Duration // of the monotonic clock
	wall    time.Duration // error of the calendar
	late    []func()      // what came while frozen, in order

	lateUntil time.Duration // when all of that has run
	froze     time.Duration // when the last freeze began
	thawed    time.Duration // and ended

	rng, diskRng, sweepRng, demandRng, clockRng, strayRng *rand.Rand

	// The process.
	cfg     zab.Config
	store   *peer.Storage
	rec     peer.Recovered
	hist    *zab.History
	core    *quorum.Node
	edge    *edge
	writer  writer
	snaps   snapshotter
	mesh    map[zab.ServerID]*meshPeer
	streams map[zab.ConnID]*stream
	inbound map[zab.ServerID]*stream
	dials   map[zab.ServerID]*dialing
	got     map[zab.ConnID]*peer.Receiving // whole snapshots, waiting to be installed

	past      []zab.Received // frames, some of them of connections that are gone
	inbox     []zab.Event
	answers   []zab.Event
	snapBegun []*stream
	waking    bool
	timer     uint64 // number of the timer that counts
	timerAt   zab.Instant
	clusterID uint64
	connNo    uint64
	connID    uint64
	role      zab.Role
	ended     bool
	stopping  bool
}

func newNode(w *World, id zab.ServerID) *node {
	i := int(id)
	n := &node{w: w, id: id, rng: source(w.sc.Seed, "node", i), diskRng: source(w.sc.Seed, "disk", i), sweepRng: source(w.sc.Seed, "sweep", i),
		demandRng: source(w.sc.Seed, "demand", i), clockRng: source(w.sc.Seed, "clock", i), strayRng: source(w.sc.Seed, "stray", i)}
	n.setDisk(simdisk.NewDisk(0))
	n.offset = between(n.clockRng, time.Hour, 1000*time.Hour)
	if w.sc.Drift > 0 {
		n.drift = (2*n.clockRng.Float64() - 1) * w.sc.Drift
	}
	_ = n.disk.MkdirAll("/data")
	return n
}

// setDisk gives the machine a disk, and has the checks told of calls that fail. Whoever makes the call under which the power goes off, the process ends with it.
func (n *node) setDisk(d *simdisk.Disk) {
	n.disk = d
	n.disk.OnFail(func(path string, err error) { n.w.checks.onDiskFailed(n, path, err) })
	n.disk.OnCut(func() {
		life := n.life
		n.w.after(0, func() {
			if n.life == life {
				n.die(simdisk.ErrPowerCut)
			}
		})
	})
}

// now is the process's monotonic clock.
func (n *node) now() zab.Instant { return n.clock(n.w.now) }

func (n *node) clock(t time.Duration) zab.Instant {
	return zab.Instant(n.offset + t + time.Duration(float64(t)*n.drift))
}

// until is how long the world has to wait until this clock shows at.
func (n *node) until(at zab.Instant) time.Duration {
	d := at.Sub(n.now())
	if d <= 0 {
		return 0
	}
	return time.Duration(float64(d)/(1+n.drift)) + 1
}

var epoch0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (n *node) wallTime() time.Time { return epoch0.Add(n.w.now + n.wall) }

// at runs do after d if the process of that life still runs; while it is frozen everything waits.
func (n *node) at(d time.Duration, life int, do func()) {
	n.w.after(d, func() { n.arrive(life, do, false) })
}

// arrive runs do, unless the process is frozen or has not come through yet with what came while it was: nothing overtakes that.
func (n *node) arrive(life int, do func(), late bool) {
	switch {
	case n.life != life:
	case n.frozen:
		n.late = append(n.late, func() {
			if n.life == life {
				do()
			}
		})
	case !late && n.w.now < n.lateUntil:
		n.w.after(n.lateUntil-n.w.now, func() { n.arrive(life, do, true) })
	default:
		do()
	}
}

// soon is at for the process that runs now.
func (n *node) soon(d time.Duration, do func()) { n.at(d, n.life, do) }

func (n *node) draw() uint64 {
	for {
		if x := n.rng.Uint64(); x != 0 {
			return x
		}
	}
}

// start runs the server's start-up, as peer.Open and Run do.
func (n *node) start() {
	if n.up {
		return
	}
	if n.off {
		n.off = false
		n.disk.Reboot()
	}
	w := n.w
	n.life++
	n.boots++
	n.up, n.frozen, n.paused, n.late = true, false, false, nil
	n.ended, n.stopping, n.waking, n.role = false, false, false, zab.Looking
	n.inbox, n.answers, n.snapBegun, n.connID, n.clusterID = nil, nil, nil, 0, 0
	n.streams, n.inbound, n.dials = map[zab.ConnID]*stream{}, map[zab.ServerID]*stream{}, map[zab.ServerID]*dialing{}
	n.got = map[zab.ConnID]*peer.Receiving{}
	n.past = nil
	n.timer++
	n.timerAt = zab.Never
	n.cfg = w.coreConfig(n)
	n.writer = writer{n: n}
	n.edge = newEdge(n)
	w.trace(n.id, "start", uint64(n.boots), nil)
	var err error
	n.store, n.rec, err = peer.OpenStorage(peer.StorageConfig{Disk: n.disk, DataDir: "/data", Self: n.id, SegmentBytes: w.sc.Limits.Segment,
		RetainSnaps: w.sc.Limits.RetainSnaps, RetainLogBytes: w.sc.Limits.RetainLog, NewID: n.draw, Wall: n.wallTime}, n.edge)
	if err != nil {
		n.store = nil
		n.die(err)
		return
	}
	if w.fail != nil {
		return
	}
	rec := &n.rec
	w.checks.onRecovered(n)
	if w.fail != nil {
		return
	}
	if rec.Initialized {
		n.clusterID = rec.Hard.ClusterID
	}
	n.hist = zab.NewHistory(rec.Base, rec.Applied, rec.Commit, rec.Table, rec.Tail, n.cfg.TailBytes)
	n.hist.Snapshot, n.hist.SnapSize = rec.SnapshotAt, rec.SnapshotSize
	n.core = quorum.New(&n.cfg, quorum.Recovered{Hard: rec.Hard, Hist: n.hist, Fresh: rec.Fresh, Vouched: rec.Vouched,
		Initialized: rec.Initialized}, n.now())
	n.snaps = newSnapshotter(n)
	n.snaps.tempt()
	n.startMesh()
	n.watchSpace(peer.Space{})
	n.wake()
}

// die ends the process because of a fatal error.
func (n *node) die(err error) {
	if !n.up {
		return
	}
	w := n.w
	code := zab.ExitDisk
	var st *peer.StorageError
	var fe *peer.FatalError
	switch {
	case errors.As(err, &st):
		code = st.Code
	case errors.As(err, &fe):
		code = fe.Code
	}
	w.trace(n.id, "fatal", uint64(code), err.Error())
	w.count(fmt.Sprintf("exit-%d", code))
	w.checks.onFatal(n, code, err)
	if errors.Is(err, simdisk.ErrPowerCut) { // CrashAt struck in the middle of an operation
		n.power()
	} else {
		n.kill()
	}
	life := n.life
	w.after(between(n.rng, 50*time.Millisecond, time.Second), func() {
		if n.life == life && w.revive {
			n.start()
		}
	})
}

// kill ends the process; the kernel closes its sockets and keeps its pages.
func (n *node) kill() {
	if !n.up {
		return
	}
	n.w.trace(n.id, "kill", 0, nil)
	n.leave((*end).cut)
	n.disk.Kill()
}

// power takes the machine off: nobody hears of it, and what was not synced is lost in part.
func (n *node) power() {
	if n.off {
		return
	}
	n.w.trace(n.id, "power", 0, nil)
	if n.up {
		n.leave((*end).vanish)
	}
	n.off = true
	n.disk.Crash(n.diskRng)
}

func (n *node) leave(close func(*end)) {
	n.up, n.frozen, n.late = false, false, nil
	n.life++
	for _, c := range append([]*conn(nil), n.w.net.conns...) {
		for _, e := range c.ends {
			if e.n == n && e.open {
				close(e)
			}
		}
	}
	n.w.net.prune()
	n.edge.dead()
	n.w.checks.onDead(n)
	n.core, n.store = nil, nil
}

func (n *node) freeze() {
	if n.up && !n.frozen {
		n.w.trace(n.id, "freeze", 0, nil)
		n.frozen, n.froze = true, n.w.now
	}
}

// pause freezes a machine with its clock, as a hypervisor does.
func (n *node) pause() {
	n.freeze()
	n.paused = n.frozen
}

func (n *node) thaw() {
	if !n.frozen {
		return
	}
	if n.paused {
		d := n.w.now - n.froze
		n.offset -= d + time.Duration(float64(d)*n.drift)
		n.paused = false
	}
	n.w.trace(n.id, "thaw", 0, nil)
	n.frozen, n.thawed = false, n.w.now
	n.w.checks.onThawed(n)
	late := n.late
	n.late = nil
	life := n.life
	d := time.Duration(0)
	for _, do := range late {
		d += between(n.rng, 0, 20*time.Microsecond)
		n.w.after(d, func() { n.arrive(life, do, true) })
	}
	n.lateUntil = n.w.now + d
	n.w.net.changed()
}

// put adds an event for the core.
func (n *node) put(ev zab.Event) {
	if !n.up {
		return
	}
	n.inbox = append(n.inbox, ev)
	n.wake()
}

// wake lets the loop run a moment later, with all that waits by then.
func (n *node) wake() {
	if n.waking {
		return
	}
	n.waking = true
	d := between(n.rng, 2*time.Microsecond, 40*time.Microsecond)
	if n.w.sc.Limits.LazyLoop > 0 && chance(n.rng, 20) {
		d = between(n.rng, 0, n.w.sc.Limits.LazyLoop)
	}
	n.soon(d, func() {
		n.waking = false
		evs := n.inbox
		n.inbox = nil
		if n.now() >= n.timerAt {
			evs = append(evs, zab.Tick{})
		}
		n.turn(evs)
	})
}

// turn is one Step and everything that follows from it at once.
func (n *node) turn(evs []zab.Event) {
	w, life := n.w, n.life
	now := n.now()
	evs = n.enrich(now, evs)
	for {
		for _, ev := range evs {
			w.trace(n.id, "event", 0, ev)
			if done, ok := ev.(zab.DiskDone); ok {
				w.checks.onCompleted(n, done.ID)
			}
		}
		for _, fx := range n.core.Step(now, evs) {
			w.trace(n.id, "effect", 0, fx)
			n.perform(now, fx)
			if n.life != life || w.fail != nil {
				return
			}
		}
		if len(n.answers) == 0 {
			break
		}
		evs, n.answers = n.answers, nil
	}
	n.settleSnapshots()
	n.snaps.settle()
	n.writer.kick()
	w.checks.onTurn(n)
	if n.ended {
		n.finish()
		return
	}
	n.arm()
}

// arm sets the timer for the deadline that the core names.
func (n *node) arm() {
	at := n.core.Deadline()
	if at == n.timerAt {
		return
	}
	n.timerAt = at
	n.timer++
	if at == zab.Never {
		return
	}
	number := n.timer
	n.soon(n.until(at), func() {
		if n.timer == number {
			n.timerAt = zab.Never // so that arm sets it anew
			evs := n.inbox
			n.inbox = nil
			n.turn(append(evs, zab.Tick{}))
		}
	})
}

// enrich adds what the core must know with certain events.
func (n *node) enrich(now zab.Instant, evs []zab.Event) []zab.Event {
	touches := false
	for i, ev := range evs {
		switch ev := ev.(type) {
		case zab.DiskDone:
			n.snaps.plan.Installed(ev.ID)
		case zab.Received:
			switch ev.Packet.(type) {
			case *zab.Ping:
				touches = true
			case *zab.SnapBegin:
				if s := n.streams[ev.Conn]; s != nil {
					n.snapBegun = append(n.snapBegun, s)
				}
			}
		case zab.Tick:
			if n.role == zab.Leading {
				touches = true
				if ids := n.edge.Expired(now); len(ids) > 0 {
					evs[i] = zab.Expired{Sessions: ids}
				}
			}
		}
	}
	if !touches {
		return evs
	}
	if t := n.edge.Touched(); len(t) > 0 {
		return append([]zab.Event{zab.Touched{Touches: t}}, evs...)
	}
	return evs
}

// perform carries out one effect.
func (n *node) perform(now zab.Instant, fx zab.Effect) {
	w := n.w
	switch fx := fx.(type) {
	case zab.Tell:
		w.checks.onVote(n, &fx.Notification)
		n.tell(fx.To, fx.Notification)
	case zab.Dial:
		n.dial(fx.Peer)
	case zab.Send:
		if s := n.streams[fx.Conn]; s != nil {
			s.send(fx.Epoch, fx.Packet)
		}
	case zab.Close:
		n.closeStream(fx)
	case zab.Append:
		w.checks.onProposed(n, fx.Records)
		n.writer.queue(fx)
	case zab.Truncate:
		w.checks.onCut(n, fx.To)
		n.writer.queue(fx)
	case zab.InstallSnapshot:
		n.snaps.plan.Installs(fx)
		n.snaps.tempt()
		n.writer.queue(fx)
	case zab.SaveHardState, zab.Initialize:
		n.writer.queue(fx)
	case zab.ReadLog:
		n.readLog(fx)
	case zab.SendSnapshot:
		n.sendSnapshot(fx)
	case zab.ReceiveSnapshot:
		n.receiveSnapshot(fx)
	case zab.Prepare:
		n.answers = append(n.answers, zab.Prepared{Drafts: n.edge.Prepare(fx.Requests, n.wallTime().UnixMilli())})
	case zab.Abandon:
		n.edge.Abandon()
	case zab.Apply:
		w.checks.onApply(n, fx.Records)
		if w.fail != nil {
			return
		}
		if err := n.edge.Apply(fx.Records); err != nil {
			n.die(&peer.FatalError{Code: zab.ExitBrokenInvariant, Err: fmt.Errorf("apply: %w", err)})
			return
		}
		w.checks.onApplied(n)
		n.writer.commit = fx.Records[len(fx.Records)-1].Zxid
		n.snaps.plan.Applied(fx.Records)
	case zab.TouchSessions:
		w.checks.onTouch(n, fx)
		n.edge.Touch(fx.From, fx.Touches, now)
	case zab.AskSession:
		known, ending := n.edge.Revalidate(fx.Owner, fx.Ask, now)
		if known && !ending {
			w.checks.onAlive(n, fx.Ask.Session)
		}
		n.answers = append(n.answers, zab.SessionState{Conn: fx.Conn, Ask: fx.Ask, Known: known, Ending: ending})
	case zab.AskDigest:
		digest, known := n.edge.machine.DigestAt(fx.At)
		n.answers = append(n.answers, zab.StateDigest{At: fx.At, Digest: digest, Known: known})
	case zab.Established:
		w.checks.onEstablished(n, fx.Epoch)
		n.edge.Established(now)
	case zab.Extend:
		n.edge.Extend(time.Duration(fx.Nanos))
	case zab.Refuse:
		n.edge.Refused(fx.Refusals)
	case zab.SyncAnswer:
		n.edge.Synced(fx.Synced)
	case zab.RevalidateAnswer:
		n.edge.Revalidated(fx.Revalidated)
	case zab.Serve:
		w.checks.onServe(n, fx)
		n.role = fx.Role
		n.edge.Serve(fx.Epoch)
	case zab.Freeze:
		n.role = zab.Looking
		n.edge.Freeze()
	case zab.Note:
		if fx.Message == zab.NoteRole {
			w.checks.onRole(n, fx.Role)
		}
		n.role = n.core.Status().Role
		w.onNote(n, fx)
	case zab.Fatal:
		n.die(&peer.FatalError{Code: fx.Code, Err: fmt.Errorf("%s: %s", fx.Reason, fx.Dump)})
	case zab.Ended:
		n.ended = true
	default:
		w.violate("effect", n.id, 0, "unknown effect %T", fx)
	}
}

// readLog reads for a cursor below the memory tail, beside the loop.
func (n *node) readLog(fx zab.ReadLog) {
	n.w.count("log-read")
	n.soon(between(n.diskRng, 50*time.Microsecond, 2*time.Millisecond), func() {
		recs, err := n.store.ReadAfter(fx.After, fx.MaxBytes)
		ev := zab.LogRead{Conn: fx.Conn, After: fx.After, Records: recs}
		if err != nil {
			ev.Records, ev.Gone = nil, true
		}
		n.put(ev)
	})
}

// stop asks for a graceful end.
func (n *node) stop() {
	if !n.up || n.stopping || n.core == nil {
		return
	}
	n.w.trace(n.id, "stop", 0, nil)
	n.stopping = true
	n.put(zab.Stop{})
	n.soon(n.cfg.HandoverLimit+3*time.Second, func() { n.finish() })
}

// finish is the end of a graceful stop: what is queued leaves, what is on its way to the disk gets there.
func (n *node) finish() {
	store, life := n.store, n.life
	n.snaps.drain()
	n.writer.drain()
	if n.life != life || n.w.fail != nil {
		return
	}
	if err := store.Close(true); err != nil {
		n.die(err)
		return
	}
	n.w.checks.onClosed(n)
	n.w.trace(n.id, "stopped", 0, nil)
	n.leave((*end).shut)
	n.disk.Kill()
}

func positionOf(r *txn.Record) zab.Position { return zab.Position{Zxid: r.Zxid, Chain: r.Chain} }
