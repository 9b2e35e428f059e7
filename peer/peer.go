package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/quorum"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// StateMachine is the replicated state. Its methods are called by one goroutine at a time; Restore by the disk writer while the loop
// neither prepares nor applies.
type StateMachine interface {
	// Prepare gives one draft per request, in order, against what is applied plus what was prepared before.
	Prepare(reqs []txn.Request, wallMillis int64) []txn.Draft
	// Abandon forgets what was prepared and not applied.
	Abandon()
	// Apply takes committed records in order, each once. An error means that this server's state is broken.
	Apply(recs []txn.Record) error
	// DigestAt is the state's digest when at was the last record applied, if it is remembered; equal on all servers (I-17).
	DigestAt(at txn.Zxid) (digest uint64, ok bool)
	// Snapshot returns the state as it is now, at no cost; its WriteTo may run on another goroutine beside later applies. nil: not yet, ask again.
	Snapshot() io.WriterTo
	// Restore replaces the state by what Snapshot's WriteTo wrote.
	Restore(r io.Reader) error
	// Clear makes it the state of the empty history.
	Clear() error
}

// Sessions is what the protocol has to know about clients' sessions.
type Sessions interface {
	// Touched returns, and forgets, which sessions this server's clients touched.
	Touched() []zab.Touch
	// Touch, Expired, Revalidate, Established and Extend serve a leader: its tracker of all sessions.
	Touch(from zab.ServerID, touches []zab.Touch, now zab.Instant)
	Expired(now zab.Instant) []txn.SessionID
	Revalidate(owner zab.ServerID, ask zab.Revalidate, now zab.Instant) (known, ending bool)
	Established(now zab.Instant)
	Extend(d time.Duration)
}

// Edge is told where this server stands. Calls come in turns, one at a time, on whichever goroutine takes the turn, and must not wait
// for another one.
type Edge interface {
	Serve(role zab.Role, leader zab.ServerID, epoch txn.Epoch)
	// Freeze returns when nothing of the old role can be answered any more.
	Freeze(reason string)
	Refused(refusals []zab.Refusal)
	Synced(zab.Synced)
	Revalidated(zab.Revalidated)
}

var errStopping = errors.New("stopping")

// Peer is one server's part in the ensemble.
type Peer struct {
	cfg  Config
	log  *zap.Logger
	sm   StateMachine
	ses  Sessions
	edge Edge

	store      *Storage
	rec        Recovered
	hist       *zab.History
	node       *quorum.Node
	inbox      *inbox
	disk       *diskWriter
	mesh       *mesh
	queueLimit int // bytes that may wait for one stream

	clusterID atomic.Uint64 // 0 until settled
	connNo    atomic.Uint64
	connID    atomic.Uint64
	status    atomic.Pointer[zab.Status]
	strangers strangers
	twins     twins

	mu       sync.Mutex
	streams  map[zab.ConnID]*stream
	inbound  map[zab.ServerID]*stream  // newest accepted stream of each learner
	received map[zab.ConnID]*Receiving // whole, waiting to be installed

	wg       sync.WaitGroup
	stopped  chan struct{} // closed when everything has to end
	stopOnce sync.Once
	cause    error // why, if it is not a graceful stop; set before stopped is closed

	// turning is held for a turn, by whoever carries it out, and guards what follows.
	turning    sync.Mutex
	armed      zab.Instant        // when the loop's timer wakes it
	giveUpDial context.CancelFunc // of the newest dial
	answers    []zab.Event        // answers within the turn
	touched    map[*stream]struct{}
	snapBegun  []*stream // streams whose SnapBegin is in this turn
	snaps      snapshotter
	scrub      scrubber
	published  zab.Instant
	dirty      bool // something happened since published
	ended      bool
	leaving    bool // told to stop
}

// Open recovers the data directory into sm and prepares the core. Nothing is sent before Run. The error of a directory that
// cannot be used is a *FatalError.
func Open(cfg Config, sm StateMachine, ses Sessions, edge Edge, log *zap.Logger) (*Peer, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	draw := func() uint64 {
		var b [8]byte
		for {
			cfg.Rand.Fill(b[:])
			if n := binary.BigEndian.Uint64(b[:]); n != 0 {
				return n
			}
		}
	}
	p := &Peer{cfg: cfg, log: log, sm: sm, ses: ses, edge: edge, inbox: newInbox(), stopped: make(chan struct{}),
		streams: map[zab.ConnID]*stream{}, inbound: map[zab.ServerID]*stream{},
		touched: map[*stream]struct{}{}, received: map[zab.ConnID]*Receiving{},
		queueLimit: 2*cfg.Core.InflightBytes + 4*cfg.MaxFrame}
	core := &p.cfg.Core
	core.ClusterID, core.Seed = draw(), draw()
	core.Secret = make([]byte, 32)
	cfg.Rand.Fill(core.Secret)

	log.Info("reading the disk", zap.String("dataDir", cfg.DataDir), zap.String("logDir", cfg.LogDir))
	start := cfg.Clock.Now()
	var err error
	p.store, p.rec, err = OpenStorage(StorageConfig{Disk: cfg.Disk, DataDir: cfg.DataDir, LogDir: cfg.LogDir, Self: core.Self,
		SegmentBytes: cfg.SegmentBytes, RetainSnaps: cfg.RetainSnaps, RetainLogBytes: cfg.RetainLogBytes, NewID: draw, Wall: cfg.Clock.Wall,
		Pace: p.snaps.moved, Stopped: p.failed, ReadAhead: true}, sm)
	if err != nil {
		return nil, fatal(err)
	}
	rec := &p.rec
	log.Info("recovered", zap.Stringer("zxid", rec.End.Zxid), zap.Stringer("applied", rec.Applied.Zxid),
		zap.Stringer("snapshot", rec.SnapshotAt.Zxid), zap.Int("replayed", rec.Replayed), zap.Uint32("acceptedEpoch", uint32(rec.Hard.Accepted)),
		zap.Uint32("currentEpoch", uint32(rec.Hard.Current)), zap.Bool("fresh", rec.Fresh), zap.Int64("cutBytes", rec.CutBytes),
		zap.Duration("took", cfg.Clock.Now()-start))
	for _, n := range rec.Notes {
		log.Warn("recovery", zap.String("note", n))
	}
	if rec.Hard.Recovering {
		alone := core.Members.Voter(core.Self) && len(core.Members.Voters()) == 1
		do := "nothing while a quorum of the others is up: the leader sends what is missing, and until then this server does not count; " +
			"damaged files are kept in folders damaged.N and may be removed after that"
		if alone {
			do = "there is no other voter to recover from: the last line says what can be done"
		}
		log.Error(zab.NoteRecovering, zap.String("reason", rec.Recovering), zap.String("do", do))
		if alone {
			return nil, errors.Join(p.beyondRepair(), p.store.Close(true))
		}
	}
	if rec.Initialized {
		p.clusterID.Store(rec.Hard.ClusterID)
	}
	p.hist = zab.NewHistory(rec.Base, rec.Applied, rec.Commit, rec.Table, rec.Tail, core.TailBytes)
	p.hist.Snapshot, p.hist.SnapSize = rec.SnapshotAt, rec.SnapshotSize
	p.node = quorum.New(core, quorum.Recovered{Hard: rec.Hard, Hist: p.hist, Fresh: rec.Fresh, Vouched: rec.Vouched,
		Initialized: rec.Initialized}, p.now())
	p.snaps.init(p, rec)
	p.scrub.p = p
	p.disk = newDiskWriter(p)
	p.mesh = newMesh(p)
	p.publish(p.now(), true)
	return p, nil
}

// beyondRepair: this server may have lost what it acknowledged, and nobody else has a copy.
func (p *Peer) beyondRepair() error {
	return &FatalError{Code: zab.ExitCorrupt, Err: fmt.Errorf("this server may have lost what it acknowledged, and it is the only voter: %s; "+
		"damaged files were moved to a folder damaged.N in %s; restore a backup, or, to go on with what is left (up to %v), put an empty file named "+
		"initialize into %s and start again", p.rec.Recovering, strings.Join(p.store.dirs(), " or "), p.rec.End.Zxid, p.cfg.DataDir)}
}

func (p *Peer) now() zab.Instant { return zab.Instant(p.cfg.Clock.Now()) }

// Run takes part until ctx ends, then stops gracefully: a leader hands over, a follower says goodbye. It returns nil after a graceful
// stop and a *FatalError when the process must end.
func (p *Peer) Run(ctx context.Context) error {
	lctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := p.listen(lctx); err != nil {
		cancel()
		p.halt(err)
		p.wg.Wait()
		return errors.Join(err, p.store.Close(true))
	}
	p.wg.Go(p.disk.run)
	p.mesh.start(lctx)
	p.wg.Go(func() { p.watchSpace(lctx) })
	p.wg.Go(func() { p.scrub.run(lctx) })
	p.loop(ctx)
	p.halt(nil)
	p.takeTurn(func() {
		p.ended = true // a client's goroutine, which nobody here waits for, takes no turn beside or behind what follows
		if p.cause != nil {
			p.edge.Freeze("this server ends") // a graceful end has done so; nobody waits for an answer until the last goroutine has ended
		} else if p.snaps.plan.Running() {
			p.log.Info("finishing the snapshot under way")
		}
	})
	p.closeStreams()
	cancel()
	p.snaps.writing.Wait() // a snapshot under way still counts: the next start has less to replay
	p.disk.close()
	p.inbox.close()
	p.wg.Wait()
	if p.cause != nil {
		return errors.Join(p.cause, p.store.Close(false))
	}
	if err := p.store.Close(true); err != nil {
		err = fatal(err)
		p.logFatal(err)
		return err
	}
	return nil
}

// fail ends everything at once; the first cause counts. dump is for whoever looks for a fault of zkd. Any goroutine may call it.
func (p *Peer) fail(err error, dump ...zap.Field) { p.halt(err, dump...) }

func (p *Peer) halt(err error, dump ...zap.Field) {
	p.stopOnce.Do(func() {
		p.cause = err
		close(p.stopped) // first: a log that does not take the line must not keep anything going
		if err != nil {
			p.logFatal(err, dump...)
		}
	})
}

// failed returns why the process ends, if it is not a graceful stop: nothing more may be written then. Any goroutine.
func (p *Peer) failed() error {
	select {
	case <-p.stopped:
		return p.cause
	default:
		return nil
	}
}

func (p *Peer) listen(ctx context.Context) error {
	self, _ := p.cfg.Core.Members.Find(p.cfg.Core.Self)
	if len(p.cfg.Core.Members.Servers) == 1 {
		return nil
	}
	open := func(what, addr string, handle func(context.Context, net.Conn)) error {
		ln, err := p.cfg.Net.Listen(addr)
		if err != nil {
			return &FatalError{Code: 3, Err: fmt.Errorf("listen for %s on %s: %w; is another server or connection using it, or is server.%d wrong in the config?", what, addr, err, self.ID)}
		}
		context.AfterFunc(ctx, func() { ln.Close() })
		p.wg.Go(func() { p.accept(ctx, ln, handle) })
		return nil
	}
	if err := open("elections", self.ElectionAddr, p.mesh.accept); err != nil {
		return err
	}
	return open("followers", self.PeerAddr, p.acceptStream)
}

// acceptMax bounds connections whose hello is not through, per port.
const acceptMax = 64

func (p *Peer) accept(ctx context.Context, ln net.Listener, handle func(context.Context, net.Conn)) {
	greeting := make(chan struct{}, acceptMax)
	for {
		nc, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				nc.Close()
			}
			return
		}
		if err != nil {
			p.log.Warn("accept", zap.Error(err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		select {
		case greeting <- struct{}{}:
		default:
			nc.Close() // too many strangers at once
			continue
		}
		p.wg.Go(func() {
			var once sync.Once
			release := func() { once.Do(func() { <-greeting }) }
			defer release()
			handle(context.WithValue(ctx, releaseKey{}, release), nc)
		})
	}
}

// releaseKey finds the function that frees a greeting slot once a connection has said who it is.
type releaseKey struct{}

func greeted(ctx context.Context) {
	if f, ok := ctx.Value(releaseKey{}).(func()); ok {
		f()
	}
}

// acceptStream handles a connection that came in on the data port.
func (p *Peer) acceptStream(ctx context.Context, nc net.Conn) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	br := bufio.NewReaderSize(nc, 64<<10)
	h, err := p.welcome(nc, br, zab.ForData)
	greeted(ctx)
	if err != nil {
		stop()
		p.warnStranger("data", nc, err)
		nc.Close()
		return
	}
	s := p.newStream(nc, h.Self, h)
	p.mu.Lock()
	old := p.inbound[h.Self]
	if old != nil && !h.Replaces(old.hello) {
		p.mu.Unlock()
		nc.Close()
		return
	}
	p.streams[s.id], p.inbound[h.Self] = s, s
	p.mu.Unlock()
	if old != nil {
		old.abort()
		<-old.done // nothing of it comes after what the new one brings
	}
	p.inbox.put(zab.Accepted{Conn: s.id, Peer: h.Self})
	s.run(br)
	<-s.done
	stop()
}

// dialStream makes the uplink to a leader. Nothing is told when ctx ended meanwhile: the core has asked for another one.
func (p *Peer) dialStream(ctx context.Context, to zab.Server) {
	dctx, cancel := context.WithTimeout(ctx, p.cfg.Core.DialTimeout)
	defer cancel()
	nc, err := p.cfg.Net.Dial(dctx, to.PeerAddr)
	if err != nil {
		p.dialFailed(ctx, to.ID, err)
		return
	}
	br := bufio.NewReaderSize(nc, 64<<10)
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	err = p.greet(nc, br, p.hello(zab.ForData, to.ID))
	if !stop() || err != nil {
		nc.Close()
		p.dialFailed(ctx, to.ID, err)
		return
	}
	s := p.newStream(nc, to.ID, nil)
	p.mu.Lock()
	p.streams[s.id] = s
	p.mu.Unlock()
	select {
	case <-p.stopped:
		nc.Close()
		p.dropStream(s)
		close(s.done)
		return
	default:
	}
	p.inbox.put(zab.Dialed{Conn: s.id, Peer: to.ID})
	s.run(br)
}

func (p *Peer) dialFailed(ctx context.Context, to zab.ServerID, err error) {
	if ctx.Err() == nil {
		p.inbox.put(zab.DialFailed{Peer: to, Refused: wasActive(err), Reason: err.Error()})
	}
}

func (p *Peer) stream(id zab.ConnID) *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams[id]
}

// unread returns which connections have brought something that nobody has read yet. A busy process may let a reader wait for longer than others
// may be silent.
func (p *Peer) unread() (evs []zab.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, s := range p.streams {
		if s.unread() {
			evs = append(evs, zab.Unread{Conn: id})
		}
	}
	return evs
}

func (p *Peer) dropStream(s *stream) {
	p.mu.Lock()
	delete(p.streams, s.id)
	if p.inbound[s.peer] == s {
		delete(p.inbound, s.peer)
	}
	p.mu.Unlock()
}

// goodbyeLimit is how long what is queued for the others (a handover, a goodbye) may take to leave at the end.
const goodbyeLimit = 200 * time.Millisecond

func (p *Peer) closeStreams() {
	p.mu.Lock()
	all := make([]*stream, 0, len(p.streams))
	for _, s := range p.streams {
		all = append(all, s)
	}
	p.mu.Unlock()
	for _, s := range all {
		if p.cause != nil {
			s.abort()
			continue
		}
		s.end()
		s.nc.SetDeadline(time.Now().Add(goodbyeLimit))
	}
	for _, s := range all {
		<-s.done
	}
}

// loop is the heart: what waits is told to the core, what the core asks for is done.
func (p *Peer) loop(ctx context.Context) {
	timer := p.cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	stopping := ctx.Done()
	var giveUp env.Timer
	var giveUpC <-chan time.Time
	p.takeTurn(func() { p.turn(nil) })
	for p.arm(timer) {
		select {
		case <-p.stopped:
			return
		case <-stopping:
			stopping = nil
			p.takeTurn(func() { p.leaving = true })
			p.inbox.put(zab.Stop{})
			giveUp = p.cfg.Clock.NewTimer(p.cfg.Core.HandoverLimit + 3*time.Second)
			giveUpC = giveUp.C()
			continue
		case <-giveUpC:
			p.log.Warn("stopped without a handover: it took too long")
			return
		case <-p.inbox.wake:
			p.takeTurn(func() {
				if evs := p.inbox.take(); len(evs) > 0 {
					p.turn(evs)
				}
			})
		case <-timer.C():
			p.takeTurn(func() { p.turn(append(p.inbox.take(), zab.Tick{})) })
		}
	}
}

func (p *Peer) takeTurn(f func()) {
	p.turning.Lock()
	defer p.turning.Unlock()
	f()
}

// arm sets the timer to when the next turn is due without an event; false if there will be none.
func (p *Peer) arm(timer env.Timer) bool {
	p.turning.Lock()
	defer p.turning.Unlock()
	p.armed = p.due()
	timer.Reset(max(p.armed.Sub(p.now()), 0))
	return !p.ended
}

// due is when the next turn must be, with or without an event.
func (p *Peer) due() zab.Instant {
	at := p.node.Deadline()
	if p.dirty {
		at = min(at, p.published.Add(statusEvery))
	}
	return at
}

// turnHere carries out a turn for what waits in the inbox on the caller's goroutine, which holds no lock and has put its events quietly.
// It saves the hop to the loop, which costs more than most turns. If a turn is under way the loop is woken instead.
func (p *Peer) turnHere() {
	if !p.turning.TryLock() {
		poke(p.inbox.wake)
		return
	}
	if !p.ended {
		if evs := p.inbox.take(); len(evs) > 0 {
			p.turn(evs)
		}
	}
	early := p.ended || p.due() < p.armed
	p.turning.Unlock()
	if early {
		poke(p.inbox.wake) // the loop has to arm its timer anew, or to end
	}
}

// turn is one Step and everything that follows from it at once. The caller holds turning.
func (p *Peer) turn(evs []zab.Event) {
	select {
	case <-p.stopped:
		return // a failed disk: nothing leaves any more
	default:
	}
	now := p.now()
	if now >= p.node.Deadline() {
		evs = append(evs, p.unread()...)
	}
	evs = p.enrich(now, evs)
	for {
		for _, fx := range p.node.Step(now, evs) {
			p.perform(now, fx)
		}
		if len(p.answers) == 0 {
			break
		}
		evs, p.answers = p.answers, nil
	}
	p.settleSnapshots()
	p.snaps.settle()
	for s := range p.touched {
		s.flush()
		delete(p.touched, s)
	}
	p.disk.kick()
	p.publish(now, false)
}

// enrich adds what the core must know with certain events: touches before a Ping, touches and expiry before a leader's tick.
func (p *Peer) enrich(now zab.Instant, evs []zab.Event) []zab.Event {
	touches := false
	for i, ev := range evs {
		switch ev := ev.(type) {
		case zab.DiskDone:
			p.snaps.plan.Installed(ev.ID)
		case zab.Received:
			switch ev.Packet.(type) {
			case *zab.Ping:
				touches = true
			case *zab.SnapBegin:
				if s := p.stream(ev.Conn); s != nil {
					p.snapBegun = append(p.snapBegun, s)
				}
			}
		case zab.Tick:
			if p.status.Load().Role == zab.Leading {
				touches = true
				if ids := p.ses.Expired(now); len(ids) > 0 {
					evs[i] = zab.Expired{Sessions: ids} // as good as a tick: the core looks at the time in every step
				}
			}
		}
	}
	if !touches {
		return evs
	}
	t := p.ses.Touched()
	if len(t) == 0 {
		return evs
	}
	return append([]zab.Event{zab.Touched{Touches: t}}, evs...)
}

// statusEvery bounds how old a published status may be.
const statusEvery = 50 * time.Millisecond

func (p *Peer) publish(now zab.Instant, force bool) {
	if !force && now.Sub(p.published) < statusEvery {
		p.dirty = true
		return
	}
	p.published, p.dirty = now, false
	st := p.node.Status()
	p.status.Store(&st)
}

// Status returns a picture that is at most a moment old.
func (p *Peer) Status() zab.Status { return *p.status.Load() }

// Submit enters writes of this server's own clients, in order. It does not wait: the outcome is applied, or Edge.Refused is told, or the
// edge is frozen. acts: the caller goes on to Act, before it waits for anything; otherwise the loop is woken.
func (p *Peer) Submit(reqs []txn.Request, acts bool) {
	if acts {
		p.inbox.addQuietly(0, zab.Submit{Requests: reqs})
		return
	}
	p.inbox.put(zab.Submit{Requests: reqs})
}

// Act has the core act on what was submitted, on the caller's goroutine, which must hold nothing that a turn needs: no lock of the state
// or of the edge.
func (p *Peer) Act() { p.turnHere() }

// HandOver asks this server, if it leads, to let another one lead: the one that is furthest along. It does not wait; the log tells what
// comes of it.
func (p *Peer) HandOver() { p.inbox.put(zab.HandOver{}) }

// Sync asks for a leadership round; Edge.Synced answers with the id.
func (p *Peer) Sync(id uint64) { p.inbox.put(zab.SyncAsked{ID: id}) }

// Revalidate asks the leader for a session; Edge.Revalidated answers with the id.
func (p *Peer) Revalidate(ask zab.Revalidate) { p.inbox.put(zab.RevalidateAsked{Revalidate: ask}) }
