package txnlog

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// Truncate cuts off every record after to, whose chain must be chain. When it returns nil the cut is durable. ErrNoSuchZxid if
// the log has no such position; then nothing was changed. After any other error the log is broken.
//
// The segment that holds the record to is copied up to there and takes its old place in one rename, with the next life; what
// stands behind it is thereby superseded and removed, newest first. So there is no moment at which the log has a hole or a
// segment without the successor that its seal names.
func (l *Log) Truncate(to txn.Zxid, chain uint64) error {
	if err := l.usable(); err != nil {
		return err
	}
	if to == l.end && chain == l.chain {
		return nil
	}
	if to >= l.end || to < l.segs[0].head.Prev {
		return fmt.Errorf("%w: %v, log has %v to %v", ErrNoSuchZxid, to, l.segs[0].head.Prev, l.end)
	}
	i := len(l.segs) - 1
	if mutant.On("K12") {
		to--
	}
	for i > 0 && l.segs[i].head.Prev >= to {
		i--
	}
	plan, err := l.planCut(l.segs[i], to)
	if err != nil {
		return err
	}
	if plan.chain != chain {
		return fmt.Errorf("%w: %v has another chain", ErrNoSuchZxid, to)
	}
	if err := l.cut(i, plan); err != nil {
		return l.fail(err)
	}
	return nil
}

// cutPlan says how a segment looks when it ends at a position.
type cutPlan struct {
	to    txn.Zxid
	chain uint64 // at to
	off   int64  // the batches up to here stay as they are
	last  []byte // then this one: a batch of which only a part stays
	seq   uint64 // of the last batch
	crc   uint32
	marks []mark
}

// planCut finds out how seg is to be cut behind to. It changes nothing.
func (l *Log) planCut(seg *segment, to txn.Zxid) (cutPlan, error) {
	if seg.head.Prev == to {
		return cutPlan{to: to, chain: seg.head.Chain, off: sectorBytes, seq: seg.head.FirstSeq - 1,
			crc: seg.head.PrevCRC}, nil
	}
	f, err := l.disk.Open(seg.path)
	if err != nil {
		return cutPlan{}, err
	}
	defer f.Close()
	c := startCursor(newWindow(f, seg.end), &seg.head)
	p := cutPlan{to: to}
	for c.end < to {
		p.marks = note(p.marks, c.mark())
		before := *c
		h, recs, err := c.next()
		if err != nil {
			return p, &CorruptError{File: seg.path, Offset: c.off, Err: err}
		}
		if h.Last > to {
			return p, p.split(&before, h, recs)
		}
	}
	p.chain, p.off, p.seq, p.crc = c.chain, c.off, c.seq, c.crc
	return p, nil
}

// split makes a smaller batch out of one that holds the position inside.
func (p *cutPlan) split(before *cursor, h BatchHeader, recs []txn.Record) error {
	n := 0
	for n < len(recs) && recs[n].Zxid <= p.to {
		n++
	}
	if n == 0 || recs[n-1].Zxid != p.to {
		return fmt.Errorf("%w: %v", ErrNoSuchZxid, p.to)
	}
	h.Last, h.Chain, h.Commit = p.to, recs[n-1].Chain, min(h.Commit, p.to)
	p.last, p.crc = encodeBatch(nil, &h, recs[:n])
	p.chain, p.off, p.seq = h.Chain, before.off, h.Seq
	return nil
}

// cut carries out a plan for segment i.
func (l *Log) cut(i int, p cutPlan) error {
	old := l.segs[i]
	head := old.head
	head.Life = l.active().head.Life + 1
	if head.Prev == p.to {
		head.First = p.to + 1 // empty: whatever comes must not be smaller than its name
	}
	seg, f, err := l.replace(head, old, p.off, p.last)
	if err != nil {
		return err
	}
	seg.marks = p.marks
	behind := l.segs[i:]
	if seg.path == old.path {
		behind = l.segs[i+1:]
	}
	kept := append(l.segs[:i:i], seg)
	if err := l.adopt(kept, f, p.to, p.chain, p.seq, p.crc); err != nil {
		return err
	}
	return l.removeAll(paths(behind))
}

func paths(segs []*segment) []string {
	out := make([]string, len(segs))
	for i, s := range segs {
		out[i] = s.path
	}
	return out
}

// Reset starts an empty log of a new generation behind base, and goes over to it; it is durable when Reset returns nil. The
// files of older generations stay until RemoveOldGenerations; files that an earlier, unfinished Reset left under the new
// generation's name are removed.
func (l *Log) Reset(generation uint64, base txn.Zxid, chain uint64) error {
	if err := l.usable(); err != nil {
		return err
	}
	if own := l.active().head.Generation; generation <= own {
		return fmt.Errorf("reset log: generation %d is not after %d", generation, own)
	}
	err := l.removeGenerations(func(g uint64) bool { return g == generation })
	if err == nil {
		err = l.begin(SegmentHeader{ClusterID: l.clusterID, Generation: generation, Life: 1, First: base + 1, Prev: base, Chain: chain, FirstSeq: 1})
	}
	if err != nil {
		return l.fail(err)
	}
	return nil
}

// RemoveOldGenerations deletes the files of generations before the log's own. Call it when the manifest that names the new
// one is durable.
func (l *Log) RemoveOldGenerations() error {
	if err := l.usable(); err != nil {
		return err
	}
	own := l.active().head.Generation
	if err := l.removeGenerations(func(g uint64) bool { return g < own }); err != nil {
		return l.fail(err)
	}
	return nil
}

func (l *Log) removeGenerations(which func(uint64) bool) error {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	entries, err := l.disk.List(l.dir)
	if err != nil {
		return err
	}
	var gone []string
	for _, e := range entries {
		if g, _, _, ok := parseSegmentName(e.Name); ok && !e.Dir && which(g) {
			gone = append(gone, filepath.Join(l.dir, e.Name))
		}
	}
	if err := l.removeAll(gone); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.purged = slices.DeleteFunc(l.purged, func(path string) bool { return slices.Contains(gone, path) })
	return nil
}
