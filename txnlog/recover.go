package txnlog

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/txn"
)

// candidate is a file with a segment's name.
type candidate struct {
	segment
	size    int64
	headErr error // errHeader: it has no valid header
}

// recovery finds out what the files of one generation mean. Until repair it changes nothing.
type recovery struct {
	store
	cfg   Config
	start Start

	segs       []*candidate // of the history, oldest first
	leftovers  []string     // files of a half-done creation or copy
	superseded []string     // files behind a segment that was made anew, oldest first
	from       int          // index of the first segment whose batches were read
	last       *cursor      // behind the last good batch of the log
	hint       txn.Zxid
	baseSeen   bool
	cut        int64  // bytes of a torn batch
	cutAt      string // where it was
}

func (r *recovery) corrupt(c *candidate, off int64, err error) error {
	return &CorruptError{File: c.path, Offset: off, Err: err}
}

// list finds the files and reads the headers.
func (r *recovery) list() error {
	entries, err := r.disk.List(r.dir)
	if err != nil {
		return err
	}
	var all []*candidate
	for _, e := range entries {
		generation, first, tmp, ok := parseSegmentName(e.Name)
		if !ok || e.Dir || generation != r.start.Generation {
			continue
		}
		path := filepath.Join(r.dir, e.Name)
		if tmp {
			r.leftovers = append(r.leftovers, path)
			continue
		}
		c := &candidate{segment: segment{name: e.Name, path: path, end: e.Size}, size: e.Size}
		if err := r.readHeader(c, first); err != nil {
			return err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *candidate) int { return cmp.Compare(a.name, b.name) })
	r.sortOut(all)
	return nil
}

// readHeader returns only errors that are no verdict on the header's bytes.
func (r *recovery) readHeader(c *candidate, first txn.Zxid) error {
	f, err := r.disk.Open(c.path)
	if err != nil {
		return err
	}
	defer f.Close()
	c.head, err = readSegmentHeader(f)
	switch {
	case errors.Is(err, errHeader):
		c.headErr = err
	case err != nil:
		return fmt.Errorf("segment %s: %w", c.path, err)
	case c.head.Generation != r.start.Generation || c.head.First != first || c.head.FirstSeq == 0:
		c.headErr = errHeader
	case c.head.ClusterID != 0 && r.cfg.ClusterID != 0 && c.head.ClusterID != r.cfg.ClusterID:
		return fmt.Errorf("segment %s: %w: %#x, not %#x", c.path, ErrWrongCluster, c.head.ClusterID, r.cfg.ClusterID)
	}
	return nil
}

// sortOut sets aside what a later life of the log has superseded.
func (r *recovery) sortOut(all []*candidate) {
	var life uint64
	for _, c := range all {
		if c.headErr == nil && c.head.Life < life {
			r.superseded = append(r.superseded, c.path)
			continue
		}
		life = max(life, c.head.Life)
		r.segs = append(r.segs, c)
	}
}

// judge applies the table of §18.4.
func (r *recovery) judge() error {
	if err := r.judgeHeaders(); err != nil {
		return err
	}
	if len(r.segs) == 0 {
		if r.start.Watermark > r.start.Base {
			return &CorruptError{File: r.dir, Err: errWatermark}
		}
		return nil
	}
	if oldest := r.segs[0]; oldest.head.Prev > r.start.Base {
		return r.corrupt(oldest, 0, errBase)
	}
	r.from = len(r.segs) - 1
	for r.from > 0 && r.segs[r.from].head.Prev > r.start.Base {
		r.from--
	}
	if r.from == len(r.segs)-1 && r.from > 0 {
		r.from-- // the last one may be empty: then the end of the log is in here
	}
	if err := r.judgeBatches(); err != nil {
		return err
	}
	end := r.segs[len(r.segs)-1]
	if r.last.end < r.start.Watermark {
		return r.corrupt(end, r.last.off, errWatermark)
	}
	if !r.baseSeen {
		return r.corrupt(end, r.last.off, errBase)
	}
	return nil
}

func (r *recovery) judgeHeaders() error {
	if n := len(r.segs); n > 0 && r.segs[n-1].headErr != nil {
		newest := r.segs[n-1]
		t, err := r.tailOf(newest, 0)
		if err != nil {
			return err
		}
		if t.maxSeq > 0 {
			return r.corrupt(newest, 0, newest.headErr)
		}
		r.segs = r.segs[:n-1]
		r.leftovers = append(r.leftovers, newest.path)
	}
	start := 0
	for i, c := range r.segs {
		if c.headErr != nil {
			return r.corrupt(c, 0, c.headErr)
		}
		if i == 0 {
			continue
		}
		before := r.segs[i-1].head
		switch {
		case before.First != c.head.Before && c.head.Prev <= r.start.Base:
			// What stood between was purged, and then the power brought back an older name, whose removal was never durable.
			// That is no harm as long as the snapshot covers the hole.
			start = i
		case before.First != c.head.Before || before.Prev > c.head.Prev || before.FirstSeq >= c.head.FirstSeq:
			return r.corrupt(c, 0, errSegment)
		}
	}
	for i := start; i > 0; i-- {
		r.superseded = append([]string{r.segs[i-1].path}, r.superseded...)
	}
	r.segs = r.segs[start:]
	return nil
}

func (r *recovery) tailOf(c *candidate, off int64) (tail, error) {
	f, err := r.disk.Open(c.path)
	if err != nil {
		return tail{}, err
	}
	defer f.Close()
	return scanTail(newWindow(f, c.size), r.start.Generation, off)
}

// judgeBatches reads from segment r.from to the end of the log.
func (r *recovery) judgeBatches() error {
	var before *cursor
	var seal *BatchHeader // of the segment before
	var unsealed cursor   // in front of it
	for i := r.from; i < len(r.segs); i++ {
		c := r.segs[i]
		if before != nil && (c.head.Prev != before.end || c.head.Chain != before.chain || c.head.FirstSeq != before.seq+1 || c.head.First != seal.First ||
			c.head.PrevCRC != before.crc) {
			return r.corrupt(c, 0, errSegment)
		}
		cur, front, sealed, err := r.readBatches(i)
		if err != nil {
			return err
		}
		r.last = cur
		switch {
		case sealed == nil: // readBatches has seen to it that nothing follows
			if before != nil && cur.off == sectorBytes && (r.start.Unclean || r.cut > 0) {
				r.stepBack(i, &unsealed)
			}
			return nil
		case i == len(r.segs)-1:
			return r.corrupt(c, cur.off, errSealed)
		}
		before, seal, unsealed = cur, sealed, front
	}
	return nil
}

// stepBack gives up the last segment, i, which has no batch, so that the one before it is made anew without its seal: nothing
// behind that seal proves that it is durable.
func (r *recovery) stepBack(i int, unsealed *cursor) {
	r.superseded = append([]string{r.segs[i].path}, r.superseded...)
	r.segs = r.segs[:i]
	r.segs[i-1].end = unsealed.off
	r.last = unsealed
}

// readBatches reads segment i up to its seal or its end. front is the cursor as it was before the seal.
func (r *recovery) readBatches(i int) (cur *cursor, front cursor, seal *BatchHeader, err error) {
	c := r.segs[i]
	f, err := r.disk.Open(c.path)
	if err != nil {
		return nil, front, nil, err
	}
	defer f.Close()
	cur = startCursor(newWindow(f, c.size), &c.head)
	if err := r.checkBase(c, cur.end, cur.chain, cur.off); err != nil {
		return nil, front, nil, err
	}
	for {
		at := cur.mark()
		front = *cur
		h, recs, err := cur.next()
		switch {
		case errors.Is(err, errTorn):
			c.end = cur.off
			return cur, front, nil, r.judgeEnd(i, cur)
		case errors.Is(err, errLink) || errors.Is(err, errRecords):
			return nil, front, nil, r.corrupt(c, cur.off, err)
		case err != nil:
			return nil, front, nil, fmt.Errorf("read segment %s: %w", c.path, err)
		}
		r.hint = max(r.hint, h.Commit)
		for k := range recs {
			if err := r.checkBase(c, recs[k].Zxid, recs[k].Chain, at.off); err != nil {
				return nil, front, nil, err
			}
		}
		if h.Kind == KindSeal {
			c.end = cur.off
			return cur, front, &h, nil
		}
		c.marks = note(c.marks, at)
	}
}

func (r *recovery) checkBase(c *candidate, z txn.Zxid, chain uint64, off int64) error {
	if z != r.start.Base {
		return nil
	}
	if chain != r.start.BaseChain {
		return r.corrupt(c, off, fmt.Errorf("%w: another chain at %v", errBase, z))
	}
	r.baseSeen = true
	return nil
}

// judgeEnd decides whether the log may end at cur in segment i, where no whole batch stands.
func (r *recovery) judgeEnd(i int, cur *cursor) error {
	c := r.segs[i]
	t, err := scanTail(cur.w, cur.generation, cur.off)
	if err != nil {
		return fmt.Errorf("read segment %s: %w", c.path, err)
	}
	if t.maxSeq > cur.seq+1 {
		return r.corrupt(c, cur.off, errBatch)
	}
	if r.cut = t.garbage; r.cut > 0 {
		r.cutAt = fmt.Sprintf("%s:%d", c.path, cur.off)
	}
	if i == len(r.segs)-1 {
		return nil
	}
	// A segment follows. Its header was written when this one had everything but its seal; without a batch in it, the seal is
	// what the crash took, and the empty segment is worth nothing.
	next := r.segs[i+1]
	t, err = r.tailOf(next, sectorBytes)
	if err != nil {
		return err
	}
	if i+2 < len(r.segs) || t.maxSeq > 0 || next.head.Prev != cur.end || next.head.Chain != cur.chain || next.head.FirstSeq != cur.seq+2 {
		return r.corrupt(c, cur.off, errBatch)
	}
	r.segs = r.segs[:i+1]
	r.superseded = append([]string{next.path}, r.superseded...)
	return nil
}

// repair makes the log what judge found it to be, and durable; only after a clean stop of a clean log there is nothing to do.
func (r *recovery) repair(l *Log, rep *Report) error {
	if err := r.removeAll(r.leftovers); err != nil {
		return err
	}
	if len(r.segs) == 0 {
		rep.Created = true
		return l.begin(SegmentHeader{ClusterID: r.cfg.ClusterID, Generation: r.start.Generation, Life: 1, First: r.start.Base + 1,
			Prev: r.start.Base, Chain: r.start.BaseChain, FirstSeq: 1})
	}
	for _, c := range r.segs {
		l.segs = append(l.segs, &c.segment)
	}
	old := l.segs[len(l.segs)-1]
	if rep.Rewritten = r.start.Unclean || r.cut > 0 || len(r.superseded) > 0; !rep.Rewritten {
		f, err := r.disk.Open(old.path)
		if err != nil {
			return err
		}
		l.f, l.size = f, r.segs[len(r.segs)-1].size
		return nil
	}
	head := old.head
	head.Life++
	seg, f, err := r.replace(head, old, old.end, nil)
	if err != nil {
		return err
	}
	seg.marks = old.marks
	l.segs[len(l.segs)-1], l.f = seg, f
	if l.size, err = f.Size(); err != nil {
		return err
	}
	return r.removeAll(r.superseded)
}
