package peer

import (
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// snapSignature closes every snapshot on the wire, as it does in ZooKeeper's files.
const snapSignature = "BenWasHere"

// chunkBytes is the size of one SNAPCHUNK.
const chunkBytes = 256 << 10

// snapshotter has local snapshots written beside the loop, as its plan says.
type snapshotter struct {
	p       *Peer
	plan    SnapshotPlan   // owned by the turn
	writing sync.WaitGroup // the goroutine that writes one
	last    atomic.Int64   // when something was applied, by the monotonic clock
	fresh   atomic.Int64   // bytes of a snapshot written or read back since the space watcher was last told
}

func (s *snapshotter) init(p *Peer, rec *Recovered) {
	s.p = p
	s.plan = NewSnapshotPlan(SnapshotBounds{Txns: p.cfg.SnapTxns, Bytes: p.cfg.SnapBytes, Limit: p.cfg.SnapLimit}, rec,
		p.store.LogBytesAfter(rec.SnapshotAt.Zxid), rand.Float64())
}

// applied counts; the end of the turn starts what is due by that.
func (s *snapshotter) applied(recs []txn.Record) {
	s.last.Store(int64(s.p.now()))
	s.plan.Applied(recs)
}

// demand has a snapshot written as soon as one can be. Any goroutine that is not in a turn.
func (s *snapshotter) demand() { s.change((*SnapshotPlan).Demand) }

// change tells the plan something outside a turn, and takes one if a snapshot is due by that.
func (s *snapshotter) change(tell func(*SnapshotPlan)) {
	s.p.takeTurn(func() {
		tell(&s.plan)
		if s.plan.Due() && !s.p.ended {
			s.p.turn(nil)
		}
	})
	poke(s.p.inbox.wake) // the loop has to arm its timer anew
}

// settle starts a snapshot that is due: it clones the state now and writes it on another goroutine, unless the state is not ready; then the next turn
// comes back here. In a turn. A failure is not fatal: the log is kept (K63).
func (s *snapshotter) settle() {
	p := s.p
	if p.leaving || !s.plan.Due() { // who stops waits for a snapshot that is under way, and begins none
		return
	}
	select {
	case <-p.stopped: // within this turn: the state may be broken
		return
	default:
	}
	clone := p.sm.Snapshot()
	if clone == nil {
		return
	}
	at, table := s.plan.Begin(max(p.hist.SnapSize, p.cfg.SnapBytes), rand.Float64()), p.hist.Table.Clone()
	table.Cut(at)
	s.writing.Go(func() {
		defer s.change((*SnapshotPlan).Over)
		began := p.cfg.Clock.Now()
		size, counts, err := s.write(at, table, clone)
		if err != nil && p.failed() != nil {
			return // it was given up
		}
		if err != nil {
			p.log.Error("snapshot not written, the log is kept", zap.Stringer("zxid", at.Zxid), zap.Error(err))
			return
		}
		p.disk.meter.snapshots.Add(1)
		p.log.Info("snapshot written", zap.Stringer("zxid", at.Zxid), zap.Int64("bytes", size),
			zap.Duration("took", p.cfg.Clock.Now()-began))
		select {
		case <-counts:
			s.sweep()
		case <-p.stopped:
		}
	})
}

// sweep deletes what the newest snapshot has made dispensable, beside the disk writer, until the process ends: what is left then waits for
// the next start and its snapshots.
func (s *snapshotter) sweep() {
	for more := true; more; {
		select {
		case <-s.p.stopped:
			return
		default:
		}
		var err error
		if more, err = s.p.store.Sweep(); err != nil {
			s.p.fail(fatal(err))
			return
		}
	}
}

// write streams the clone to disk, verifies it there and lets the disk writer put it into the manifest; then counts is closed.
func (s *snapshotter) write(at zab.Position, table zab.EpochTable, clone io.WriterTo) (size int64, counts <-chan struct{}, err error) {
	p := s.p
	w, err := p.store.BeginSnapshot(at, table, p.cfg.Core.Members.Version)
	if err != nil {
		return 0, nil, err
	}
	if _, err := clone.WriteTo(w); err != nil {
		w.Abort()
		return 0, nil, err
	}
	if err := w.Finish(); err != nil {
		w.Abort()
		return 0, nil, err
	}
	size = w.Size()
	done := make(chan struct{})
	p.disk.do(func() error {
		defer close(done)
		taken, err := p.store.FinishSnapshot(w)
		var st *StorageError
		switch {
		case errors.As(err, &st):
			return err
		case err != nil:
			p.log.Warn("snapshot dropped", zap.Stringer("zxid", at.Zxid), zap.Error(err))
		default:
			p.inbox.put(taken)
			return p.scrub.mend()
		}
		return nil
	})
	return size, done, nil
}

// busyFor: the server counts as busy for so long after it applied something.
const busyFor = 100 * time.Millisecond

// moved is called after each n bytes of a snapshot that were written, or read back. A snapshot may take the room of the next segment within less
// than a second, and whoever appends then would find none: so the space is looked at as for the log.
func (s *snapshotter) moved(n int) {
	if s.fresh.Add(int64(n)) >= s.p.cfg.SegmentBytes/4 {
		s.fresh.Store(0)
		poke(s.p.disk.grown)
	}
	s.pace(n)
}

// pace is called while a snapshot is written, read back, or sent to a learner: at most SnapRate while there is other work.
func (s *snapshotter) pace(n int) {
	rate := s.p.cfg.SnapRate
	if rate <= 0 || s.p.now().Sub(zab.Instant(s.last.Load())) > busyFor {
		return
	}
	select {
	case <-time.After(time.Duration(int64(n) * int64(time.Second) / rate)):
	case <-s.p.stopped:
	}
}

// sendSnapshot streams the newest snapshot file to a learner: as fast as the learner takes it, and while there is other work no faster than SnapRate.
func (p *Peer) sendSnapshot(fx zab.SendSnapshot) {
	s := p.stream(fx.Conn)
	if s == nil {
		return
	}
	x, err := p.store.SendSnapshot()
	if err != nil {
		p.inbox.put(zab.SnapshotFailed{Conn: fx.Conn, Reason: err.Error()})
		return
	}
	begin := &zab.SnapBegin{At: x.Head.At, Common: fx.Common, CommonKnown: fx.CommonKnown, Size: x.Length, Table: x.Head.Table}
	p.wg.Go(func() {
		defer x.Close()
		if err := p.scrub.checkBeforeSending(x); err != nil {
			p.inbox.put(zab.SnapshotFailed{Conn: s.id, Reason: err.Error()})
			return
		}
		if s.sendSlowly(fx.Epoch, begin) {
			s.sendFile(fx.Epoch, x)
		}
	})
}

// sendFile writes the chunks. The file and the log behind it are pinned meanwhile; afterwards the snapshots that are retained keep the log.
func (s *stream) sendFile(epoch txn.Epoch, x *Sending) {
	p := s.p
	var sum uint32
	n := uint64(0)
	for at := int64(0); at < x.Length; n++ {
		b := make([]byte, min(chunkBytes, x.Length-at))
		if _, err := x.ReadAt(b, at); err != nil {
			p.inbox.put(zab.SnapshotFailed{Conn: s.id, Reason: err.Error()})
			s.abort()
			return
		}
		sum = crc32.Update(sum, castagnoli, b)
		at += int64(len(b))
		p.snaps.pace(len(b)) // live traffic goes first
		if !s.sendSlowly(epoch, &zab.SnapChunk{N: n, Data: b}) {
			return
		}
	}
	if s.sendSlowly(epoch, &zab.SnapEnd{Sum: sum, Signature: snapSignature}) {
		p.inbox.put(zab.SnapshotSent{Conn: s.id, At: x.Head.At})
	}
}

// receiveSnapshot opens the place for chunks; the reader of the stream waits for it.
func (p *Peer) receiveSnapshot(fx zab.ReceiveSnapshot) {
	s := p.stream(fx.Conn)
	if s == nil {
		return
	}
	in, err := p.store.Receive(fx.Begin)
	if err != nil {
		p.warnPeer("receive snapshot", s.peer, err)
		s.abort()
		return
	}
	select {
	case s.snap <- in:
	default: // a second answer to one SnapBegin
		in.Abort()
	}
}

// settleSnapshots lets readers go on whose SnapBegin the core did not want.
func (p *Peer) settleSnapshots() {
	for _, s := range p.snapBegun {
		select {
		case s.snap <- nil:
		default: // it has its answer
		}
	}
	clear(p.snapBegun)
	p.snapBegun = p.snapBegun[:0]
}

func (p *Peer) keepReceived(id zab.ConnID, in *Receiving) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, old := range p.received { // of connections that ended before it was installed
		old.Abort()
		delete(p.received, id)
	}
	p.received[id] = in
}

// install runs on the disk goroutine. The loop goes on meanwhile and answers pings, but the core neither prepares nor applies.
func (d *diskWriter) install(op zab.InstallSnapshot) error {
	p := d.p
	p.mu.Lock()
	in := p.received[op.Conn]
	delete(p.received, op.Conn)
	p.mu.Unlock()
	if in == nil {
		return &FatalError{Code: zab.ExitBrokenInvariant, Err: errors.New("install of a snapshot that was not received")}
	}
	began := p.cfg.Clock.Now()
	if err := p.store.InstallReceived(in); err != nil {
		return err
	}
	if _, err := p.store.Load(p.sm); err != nil {
		return err
	}
	d.commit.Store(uint64(op.Begin.At.Zxid))
	p.log.Info("snapshot installed", zap.Stringer("zxid", op.Begin.At.Zxid), zap.Int64("bytes", op.Begin.Size),
		zap.Duration("took", p.cfg.Clock.Now()-began))
	return nil
}
