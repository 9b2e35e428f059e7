package txnlog

import (
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

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
	small  int   // batches since the last large one
	ahead  int64 // offset up to which the active segment's file was written, if only with zeros; beyond any size where that gains nothing

	sweeping sync.Mutex // held while purged files are deleted; taken before mu

	mu     sync.Mutex // guards what follows; the writer, who alone changes it but for purged, reads it without
	segs   []*segment // oldest first, never empty; the last is the active one
	purged []string   // files that are not in the log any more and wait for Sweep, oldest first
	end    txn.Zxid
	chain  uint64
	err    error // why the log does not work any more
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
	if err := l.writeSync(l.withZeros(h.Offset), h.Offset); err != nil {
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

// writeSync writes to the active segment and makes it durable. It is not tried twice: after a failed sync the pages look clean.
func (l *Log) writeSync(b []byte, off int64) error {
	if !mutant.On("no-fsync") && !mutant.On("R-53") {
		return env.WriteSync(l.f, b, off)
	}
	if _, err := l.f.WriteAt(b, off); err != nil || mutant.On("no-fsync") {
		return err
	}
	err := l.f.Sync()
	if err != nil {
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

// Close ends the log. What was appended is durable already. When it returns no file is being deleted.
func (l *Log) Close() error {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
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
