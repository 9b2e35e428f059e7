package txnlog

import (
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// DefaultSegmentBytes is the size of a segment where Config does not say.
const DefaultSegmentBytes = 64 << 20

// Config says where a log lives.
type Config struct {
	Disk         env.Disk
	Dir          string // made if missing
	SegmentBytes int64  // space reserved at a time; 0: DefaultSegmentBytes; at least 3 sectors of 4096
	ClusterID    uint64 // goes into the segments; 0: not known yet, matches every one
}

// Start says what the caller knows from its manifest and hard state.
type Start struct {
	Generation uint64
	Base       txn.Zxid // of the snapshot that will be loaded, or 0
	BaseChain  uint64
	Watermark  txn.Zxid // the log of this generation was durable at least up to here
	Existed    bool     // a log of this generation was made, durably
	Unclean    bool     // the last run did not end with Close: what is readable need not be durable
}

// Report says what Open found.
type Report struct {
	End         txn.Zxid // of the last record, or Base
	Chain       uint64   // at End
	CommitHint  txn.Zxid // Base <= CommitHint <= End: known to be committed
	CutBytes    int64    // length of a torn batch that was cut off
	CutAt       string   // file:offset of it
	Aside       []string // paths of damaged files that the log does not need: whoever opened it moves them away before the log changes
	Rewritten   bool     // the last segment was made anew
	Created     bool     // there was no segment of this generation
	Segments    int
	Oldest      txn.Zxid // ReadAfter works from here on
	OldestChain uint64
}

// Log is an open log. See the package comment for who may call what.
type Log struct {
	store
	clusterID uint64

	// Of the writer's goroutine.
	f      env.File // the active segment
	size   int64    // of its file
	seq    uint64   // of the last batch
	crc    uint32   // of it
	hint   txn.Zxid // largest commit hint written
	proved bool     // the last batch has nothing that a confirm would prove
	buf    []byte

	mu    sync.Mutex // guards what follows; the writer, who alone changes it, reads it without
	segs  []*segment // oldest first, never empty; the last is the active one
	end   txn.Zxid
	chain uint64
	err   error // why the log does not work any more
}

// Open recovers the log of one generation and gives every record after s.Base, in order, to each (nil: nobody); committed says
// that the log's own commit hint covers it. The records' Bytes are each's to keep. An error of each ends Open.
//
// A *CorruptError means that the log lost what was durable in it; nothing was changed. ErrWrongCluster and ErrVersion are
// about the files; everything else is the disk's.
func Open(cfg Config, s Start, each func(rec txn.Record, committed bool) error) (*Log, Report, error) {
	if cfg.SegmentBytes == 0 {
		cfg.SegmentBytes = DefaultSegmentBytes
	}
	cfg.SegmentBytes = max(roundUp(cfg.SegmentBytes), 3*sectorBytes)
	st := store{disk: cfg.Disk, dir: cfg.Dir, segmentBytes: cfg.SegmentBytes}
	r := &recovery{store: st, cfg: cfg, start: s}
	l := &Log{store: st, clusterID: cfg.ClusterID, proved: true}
	rep, err := l.recover(r)
	if err == nil {
		err = l.replay(s.Base, rep.CommitHint, each)
	}
	if err != nil {
		if l.f != nil {
			l.f.Close()
		}
		return nil, rep, fmt.Errorf("open log: %w", err)
	}
	return l, rep, nil
}

func (l *Log) recover(r *recovery) (Report, error) {
	var rep Report
	if err := l.disk.MkdirAll(l.dir); err != nil {
		return rep, err
	}
	if err := r.judge(); err != nil {
		return rep, err
	}
	if r.last != nil {
		l.end, l.chain, l.seq, l.crc, l.proved = r.last.end, r.last.chain, r.last.seq, r.last.crc, false
	}
	rep.CutBytes, rep.CutAt, rep.Aside = r.cut, r.cutAt, r.aside
	if err := r.repair(l, &rep); err != nil {
		return rep, err
	}
	l.hint = min(max(r.hint, r.start.Base), l.end)
	rep.End, rep.Chain, rep.CommitHint, rep.Segments = l.end, l.chain, l.hint, len(l.segs)
	rep.Oldest, rep.OldestChain = l.Oldest()
	return rep, nil
}

// begin starts an empty log with one segment.
func (l *Log) begin(h SegmentHeader) error {
	seg, f, err := l.create(h, 0)
	if err != nil {
		return err
	}
	return l.adopt([]*segment{seg}, f, h.Prev, h.Chain, h.FirstSeq-1, 0)
}

// adopt makes segs the log, with f as the file of the last one.
func (l *Log) adopt(segs []*segment, f env.File, end txn.Zxid, chain uint64, seq uint64, crc uint32) error {
	size, err := f.Size()
	if err != nil {
		f.Close()
		return err
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f, l.size, l.seq, l.crc, l.hint, l.proved = f, size, seq, crc, min(l.hint, end), false
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segs, l.end, l.chain = segs, end, chain
	return nil
}

// usable returns why the log cannot be used, if so. The writer calls it without the lock.
func (l *Log) usable() error { return l.err }

// fail ends the log for good. The result wraps ErrBroken and err.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = fmt.Errorf("%w: %w", ErrBroken, err)
	return l.err
}

func (l *Log) active() *segment { return l.segs[len(l.segs)-1] }

// Append writes records as one batch and makes it durable: one write, one fsync. They are durable when it returns nil, all of
// them; the log ends at the last. commit is what is known to be committed. ErrGap if they do not follow the log's end; after
// any other error the log is broken, and whether the records will be found again is not known.
func (l *Log) Append(recs []txn.Record, commit txn.Zxid) error {
	if err := l.usable(); err != nil {
		return err
	}
	if len(recs) == 0 {
		return nil
	}
	end, chain := l.end, l.chain
	for i := range recs {
		if !recs[i].Zxid.Follows(end) || !recs[i].Links(end, chain) {
			return fmt.Errorf("%w: %v after %v", ErrGap, recs[i].Zxid, end)
		}
		end, chain = recs[i].Zxid, recs[i].Chain
	}
	h := BatchHeader{Kind: KindRecords, First: recs[0].Zxid, Last: end, Chain: chain, Commit: min(max(commit, l.hint), end)}
	if err := l.add(&h, recs); err != nil {
		return l.fail(err)
	}
	return nil
}

// Confirm proves to a later Open that the last batch was durable, by an empty one behind it that carries the commit position.
// It does nothing if the last batch is such a one and knows the same.
func (l *Log) Confirm(commit txn.Zxid) error {
	if err := l.usable(); err != nil {
		return err
	}
	commit = min(max(commit, l.hint), l.end)
	if l.proved && commit == l.hint {
		return nil
	}
	h := BatchHeader{Kind: KindConfirm, First: l.end, Last: l.end, Chain: l.chain, Commit: commit}
	if err := l.add(&h, nil); err != nil {
		return l.fail(err)
	}
	return nil
}

// add puts a batch behind the last one, in a new segment if this one is full.
func (l *Log) add(h *BatchHeader, recs []txn.Record) error {
	need := int64(batchHeaderBytes + trailerBytes)
	for i := range recs {
		need += int64(len(recs[i].Bytes))
	}
	need = roundUp(need)
	if full := l.active().end + need + sectorBytes; full > l.size {
		if err := l.makeRoom(h, need, full); err != nil {
			return err
		}
	}
	return l.write(h, recs)
}

// makeRoom starts a new segment, or makes one that has no record yet larger: its successor would have the same name.
func (l *Log) makeRoom(h *BatchHeader, need, full int64) error {
	if l.active().head.Prev == l.end {
		if err := l.f.Allocate(full); err != nil {
			return err
		}
		l.size = full
		return nil
	}
	first := h.First
	if h.Kind != KindRecords {
		first = l.end + 1
	}
	return l.roll(first, need)
}

// roll makes a new segment durable, then seals the old one, then goes over.
func (l *Log) roll(first txn.Zxid, need int64) error {
	old := l.active().head
	seal := BatchHeader{Kind: KindSeal, First: first, Last: l.end, Chain: l.chain, Commit: l.hint}
	sealCRC := l.encode(&seal, nil)
	seg, f, err := l.create(SegmentHeader{ClusterID: l.clusterID, Generation: old.Generation, Life: old.Life, First: first,
		Prev: l.end, Chain: l.chain, FirstSeq: l.seq + 2, Before: old.First, PrevCRC: sealCRC}, need)
	if err != nil {
		return err
	}
	if err := l.write(&seal, nil); err != nil {
		f.Close()
		return err
	}
	return l.adopt(append(l.segs[:len(l.segs):len(l.segs)], seg), f, l.end, l.chain, l.seq, l.crc)
}

// encode completes the header and puts the batch into l.buf. It returns the crc of the batch.
func (l *Log) encode(h *BatchHeader, recs []txn.Record) (crc uint32) {
	seg := l.active()
	h.Generation, h.Seq, h.Offset, h.Prev, h.PrevCRC = seg.head.Generation, l.seq+1, seg.end, l.end, l.crc
	l.buf, crc = encodeBatch(l.buf, h, recs)
	return crc
}

// write writes the batch and syncs it. There is room for it.
func (l *Log) write(h *BatchHeader, recs []txn.Record) error {
	seg := l.active()
	crc := l.encode(h, recs)
	if _, err := l.f.WriteAt(l.buf, h.Offset); err != nil {
		return err
	}
	if err := l.sync(); err != nil {
		return err
	}
	before := mark{prev: l.end, chain: l.chain, seq: l.seq, off: h.Offset}
	l.seq, l.crc, l.hint, l.proved = h.Seq, crc, h.Commit, h.Kind != KindRecords
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.Kind != KindSeal {
		seg.marks = note(seg.marks, before)
	}
	seg.end += h.size()
	l.end, l.chain = h.Last, h.Chain
	return nil
}

// sync makes what was written to the active segment durable. It is not tried twice: after a failure the pages look clean.
func (l *Log) sync() error {
	if mutant.On("no-fsync") {
		return nil
	}
	err := l.f.Sync()
	if err != nil && mutant.On("R-53") {
		err = l.f.Sync()
	}
	return err
}

// SetClusterID says what goes into the headers of the segments that are made from now on.
func (l *Log) SetClusterID(id uint64) { l.clusterID = id }

// End returns the position and chain of the last durable record, or of the log's base.
func (l *Log) End() (txn.Zxid, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end, l.chain
}

// Oldest returns the lowest position that ReadAfter can start from, and its chain.
func (l *Log) Oldest() (txn.Zxid, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segs[0].head.Prev, l.segs[0].head.Chain
}

// Bytes is the length of the log that is kept, without the space reserved ahead in the active segment. Closed segments that Open
// had no reason to read count with their whole file.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytesOf(l.segs)
}

func bytesOf(segs []*segment) int64 {
	var sum int64
	for _, s := range segs {
		sum += s.end
	}
	return sum
}

// Close ends the log. What was appended is durable already.
func (l *Log) Close() error {
	l.mu.Lock()
	was := l.err
	if was == nil {
		l.err = ErrClosed
	}
	l.mu.Unlock()
	if errors.Is(was, ErrClosed) {
		return nil
	}
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}
