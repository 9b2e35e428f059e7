package txnlog

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/txn"
)

// Purge deletes the oldest segments whose records are all <= upTo while the rest keeps at least keepBytes. Each is durably gone
// before the next, so that a crash leaves a contiguous rest. The active segment and files of unknown name are never touched.
func (l *Log) Purge(upTo txn.Zxid, keepBytes int64) (removed int, err error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	for len(l.segs) > 1 && l.segs[1].head.Prev <= upTo && bytesOf(l.segs[1:]) >= keepBytes {
		oldest := l.segs[0]
		l.mu.Lock()
		l.segs = l.segs[1:]
		l.mu.Unlock()
		if err := l.removeAll([]string{oldest.path}); err != nil {
			return removed, l.fail(err)
		}
		removed++
	}
	return removed, nil
}

// Segments returns the names of the segments, oldest first. The last is the active one.
func (l *Log) Segments() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, len(l.segs))
	for i, s := range l.segs {
		out[i] = s.name
	}
	return out
}

// Scrub reads one segment, of Segments, from end to end and checks everything that can be checked: a *CorruptError says what is
// wrong. A segment that is not in the log any more is fine.
func (l *Log) Scrub(name string) error {
	v, next, err := l.scrubView(name)
	if err != nil || v.seg == nil {
		return err
	}
	err = l.scrub(v, next)
	if err != nil && l.gone(v.seg) {
		return nil
	}
	return err
}

func (l *Log) scrubView(name string) (v view, next *segment, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return view{}, nil, l.err
	}
	for i, s := range l.segs {
		if s.name != name {
			continue
		}
		if i+1 < len(l.segs) {
			next = l.segs[i+1]
		}
		return view{seg: s, limit: s.end, from: s.first()}, next, nil
	}
	return view{}, nil, nil
}

func (l *Log) scrub(v view, next *segment) error {
	path := v.seg.path
	f, err := l.disk.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := readSegmentHeader(f)
	if err == nil && head != v.seg.head {
		err = errHeader
	}
	if err != nil {
		return &CorruptError{File: path, Err: err}
	}
	c := startCursor(newWindow(f, v.limit), &head)
	var h BatchHeader
	for c.off < v.limit && h.Kind != KindSeal {
		if h, _, err = c.next(); err != nil {
			break
		}
	}
	switch {
	case errors.Is(err, errTorn) || errors.Is(err, errLink) || errors.Is(err, errRecords):
		return &CorruptError{File: path, Offset: c.off, Err: err}
	case err != nil:
		return fmt.Errorf("scrub %s: %w", path, err)
	case next != nil && (h.Kind != KindSeal || h.First != next.head.First || c.end != next.head.Prev || c.chain != next.head.Chain):
		return &CorruptError{File: path, Offset: c.off, Err: errSegment}
	}
	return nil
}
