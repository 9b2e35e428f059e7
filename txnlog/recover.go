package txnlog

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// recovery finds out what the files of one generation mean. Until repair it changes nothing.
type recovery struct {
	store
	cfg   Config
	start Start
	out   replay

	segs       []*candidate // of the history, oldest first
	leftovers  []string     // files of a half-done creation or copy
	superseded []string     // files that later ones have replaced or a hole cuts off, oldest first
	aside      []string     // damaged files that the log does not need
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

// judge applies the table of §18.4.
func (r *recovery) judge() error {
	bad, err := r.list()
	if err != nil {
		return err
	}
	if err := r.judgeHeaders(bad); err != nil {
		return err
	}
	if len(r.segs) == 0 {
		return r.judgeNothing(bad)
	}
	r.from = len(r.segs) - 1
	for r.from > 0 && r.segs[r.from].head.Prev > r.start.Base {
		r.from--
	}
	if r.from == len(r.segs)-1 && r.from > 0 {
		begun, err := r.begun(r.segs[r.from])
		if err != nil {
			return err
		}
		if !begun {
			r.from-- // the end of the log is in here
		}
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

func (r *recovery) tailOf(c *candidate, off int64) (tail, error) {
	f, err := r.disk.Open(c.path)
	if err != nil {
		return tail{}, err
	}
	defer f.Close()
	return scanTail(newWindow(f, c.size), r.start.Generation, off)
}

// judgeNothing decides whether there may be no segment at all.
func (r *recovery) judgeNothing(bad []*candidate) error {
	switch {
	case !r.start.Existed && r.start.Watermark <= r.start.Base:
		return nil // the first start of this generation
	case len(bad) > 0:
		return r.corrupt(bad[0], 0, bad[0].headErr)
	}
	return &CorruptError{File: filepath.Join(r.dir, segmentName(r.start.Generation, r.start.Base+1)), Err: errMissing}
}

// begun reports whether a segment has its first batch. Then the one before it was sealed, and whatever it looks like now, nothing in it is
// needed but what stands behind the snapshot.
func (r *recovery) begun(c *candidate) (bool, error) {
	f, err := r.disk.Open(c.path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, _, err = startCursor(newWindow(f, c.size), &c.head).next()
	if errors.Is(err, errTorn) || errors.Is(err, errLink) || errors.Is(err, errRecords) {
		return false, nil
	}
	return err == nil, err
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
		case i == len(r.segs)-1 && !mutant.On("R-76"):
			return r.corrupt(c, cur.off, fmt.Errorf("%w: %s", errSealed, filepath.Join(r.dir, segmentName(c.head.Generation, sealed.First))))
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
		if r.baseSeen {
			if err := r.out.batch(recs, r.hint); err != nil {
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
	if c.size < c.head.Size && (cur.off > sectorBytes || i > 0 || r.start.Existed) {
		return r.corrupt(c, c.size, errShort) // only the crash that took the creation of an empty segment explains it
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
	if rep.Rewritten = r.start.Unclean && !mutant.On("R-55") || r.cut > 0 || len(r.superseded) > 0; !rep.Rewritten {
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
	if err := l.checkCopy(seg, r.last.crc); err != nil {
		return err
	}
	if l.size, err = f.Size(); err != nil {
		return err
	}
	return r.removeAll(r.superseded)
}
