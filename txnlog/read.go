package txnlog

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/zkd-project/zkd/txn"
)

// view is what a reader may look at of one segment, without the lock.
type view struct {
	seg   *segment
	limit int64
	from  mark
	known bool // the segment has its index
}

// find returns the segment that holds the record after z, or with last the one that holds z.
func (l *Log) find(z txn.Zxid) (view, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return view{}, l.err
	case z < l.segs[0].head.Prev:
		return view{}, fmt.Errorf("%w: %v, oldest is %v", ErrPurged, z, l.segs[0].head.Prev)
	case z > l.end:
		return view{}, fmt.Errorf("%w: %v, log ends at %v", ErrNoSuchZxid, z, l.end)
	}
	i := sort.Search(len(l.segs), func(i int) bool { return l.segs[i].head.Prev > z })
	seg := l.segs[i-1]
	return view{seg: seg, limit: seg.end, from: seg.seek(z), known: seg.marks != nil}, nil
}

// gone reports whether seg has left the log since it was found.
func (l *Log) gone(seg *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && !slices.Contains(l.segs, seg)
}

// with opens the segment that z stands in (find) and runs do with a cursor before or at z. If the segment was purged or replaced
// meanwhile it starts again.
func (l *Log) with(z txn.Zxid, do func(c *cursor) error) error {
	for {
		v, err := l.find(z)
		if err != nil {
			return err
		}
		err = l.look(v, z, do)
		if err == nil || errors.Is(err, ErrNoSuchZxid) || !l.gone(v.seg) {
			return err
		}
	}
}

func (l *Log) look(v view, z txn.Zxid, do func(c *cursor) error) error {
	f, err := l.disk.Open(v.seg.path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := newWindow(f, v.limit)
	defer w.release() // do keeps copies only
	if !v.known {
		if v.from, err = l.index(v.seg, w, z); err != nil {
			return err
		}
	}
	c := cursorAt(w, v.seg.head.Generation, v.from)
	err = do(c)
	if errors.Is(err, errTorn) || errors.Is(err, errLink) || errors.Is(err, errRecords) {
		return &CorruptError{File: v.seg.path, Offset: c.off, Err: err}
	}
	return err
}

// index walks the headers of a segment that was not read at Open.
func (l *Log) index(seg *segment, w *window, z txn.Zxid) (mark, error) {
	c := startCursor(w, &seg.head)
	marks := []mark{seg.first()}
	for {
		h, err := c.header()
		if err == nil && h.Seq != c.seq+1 {
			err = errLink
		}
		if err != nil {
			return mark{}, &CorruptError{File: seg.path, Offset: c.off, Err: err}
		}
		if h.Kind == KindSeal {
			break
		}
		marks = note(marks, c.mark())
		c.skip(&h)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seg.marks = marks
	return seg.seek(z), nil
}

// skipTo steps over the batches that end before z, or with through also over one that ends at z.
func (c *cursor) skipTo(z txn.Zxid, through bool) error {
	for {
		h, err := c.header()
		if err != nil {
			return err
		}
		if h.Kind == KindSeal || h.Last > z || h.Last == z && !through {
			return nil
		}
		c.skip(&h)
	}
}

// ReadAfter returns the records that stand directly behind z, from disk: as many as fit into maxBytes, and at least one; none if
// z is the end of the log. Their Bytes are the caller's. ErrPurged if z < Oldest, ErrNoSuchZxid if z is no position of the
// log, a *CorruptError if the disk gives back something else than was written.
func (l *Log) ReadAfter(z txn.Zxid, maxBytes int) ([]txn.Record, error) {
	var out []txn.Record
	room := maxBytes
	for at := z; ; at = out[len(out)-1].Zxid {
		if end, _ := l.End(); at == end && (len(out) > 0 || l.isEnd(at)) {
			return out, nil
		}
		before, left := len(out), room
		err := l.with(at, func(c *cursor) (err error) {
			out, room, err = c.take(out[:before], at, left)
			return err
		})
		if err != nil {
			return nil, err
		}
		if room <= 0 {
			return out, nil
		}
	}
}

// isEnd reports whether z is the end of a log that works.
func (l *Log) isEnd(z txn.Zxid) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil && z == l.end
}

// take appends copies of the records behind z that are left in the segment, up to room bytes, one at least if out is empty. The
// room that it returns is 0 once a record did not fit.
func (c *cursor) take(out []txn.Record, z txn.Zxid, room int) ([]txn.Record, int, error) {
	if err := c.skipTo(z, true); err != nil {
		return out, room, err
	}
	start := len(out)
	for c.off < c.w.limit {
		h, recs, err := c.next()
		if err != nil {
			return out, room, err
		}
		if h.Kind == KindSeal {
			break
		}
		i := sort.Search(len(recs), func(i int) bool { return recs[i].Zxid > z })
		n := 0
		for _, rec := range recs[i:] {
			if len(out)+n > 0 && len(rec.Bytes) > room {
				room = 0
				break
			}
			room -= len(rec.Bytes)
			n++
		}
		out = appendCopies(out, recs[i:i+n])
		if room <= 0 {
			break
		}
	}
	if len(out) == start {
		if room == 0 {
			return out, 0, nil
		}
		return out, room, errLink // z < end, so something had to be here
	}
	if out[start].Prev != z {
		return out, room, fmt.Errorf("%w: %v", ErrNoSuchZxid, z)
	}
	return out, room, nil
}

// appendCopies copies the records' bytes into one new piece of memory.
func appendCopies(out, recs []txn.Record) []txn.Record {
	out, _ = appendCopiesIn(out, recs, nil)
	return out
}

// appendCopiesIn copies the records' bytes into slab, or into a new one if that is too small, and returns it.
func appendCopiesIn(out, recs []txn.Record, slab []byte) ([]txn.Record, []byte) {
	n := 0
	for i := range recs {
		n += len(recs[i].Bytes)
	}
	if slab = slab[:0]; cap(slab) < n {
		slab = make([]byte, 0, n)
	}
	for _, rec := range recs {
		start := len(slab)
		slab = append(slab, rec.Bytes...)
		rec.Bytes = slab[start:len(slab):len(slab)]
		out = append(out, rec)
	}
	return out, slab
}

// ChainAt returns the chain at position z. ErrPurged if z < Oldest, ErrNoSuchZxid if there is no record z.
func (l *Log) ChainAt(z txn.Zxid) (uint64, error) {
	if end, chain := l.End(); z == end && l.isEnd(z) {
		return chain, nil
	}
	var chain uint64
	err := l.with(z, func(c *cursor) error {
		var err error
		chain, err = c.chainAt(z)
		return err
	})
	return chain, err
}

func (c *cursor) chainAt(z txn.Zxid) (uint64, error) {
	if c.end == z {
		return c.chain, nil
	}
	if err := c.skipTo(z, false); err != nil {
		return 0, err
	}
	h, recs, err := c.next()
	if err != nil {
		return 0, err
	}
	if h.Last == z {
		return h.Chain, nil
	}
	for _, rec := range recs {
		if rec.Zxid == z {
			return rec.Chain, nil
		}
	}
	return 0, fmt.Errorf("%w: %v", ErrNoSuchZxid, z)
}

// BytesAfter estimates, without reading, how many bytes of log stand behind z; all of them if z is older than the log.
func (l *Log) BytesAfter(z txn.Zxid) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if z >= l.end {
		return 0
	}
	i := max(1, sort.Search(len(l.segs), func(i int) bool { return l.segs[i].head.Prev > z }))
	return bytesOf(l.segs[i-1:]) - l.segs[i-1].seek(z).off
}
