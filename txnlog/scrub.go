package txnlog

import (
	"errors"
	"fmt"
	"io"
)

// paced is a file that is read no faster than pace lets it.
type paced struct {
	io.ReaderAt
	pace    func(n int) error
	bytes   int64
	stopped error // of pace
}

// ReadAt implements io.ReaderAt.
func (p *paced) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, off)
	p.bytes += int64(n)
	if p.pace != nil {
		if p.stopped = p.pace(n); p.stopped != nil {
			return 0, p.stopped
		}
	}
	return n, err
}

// Scrub reads one segment, of Segments, from end to end and checks everything that can be checked: a *CorruptError says what is wrong, be it the
// bytes or that the disk does not give them. A segment that is not in the log any more is fine. pace is called after each read and may wait; its error
// ends Scrub and is no verdict. bytes is how much was read.
func (l *Log) Scrub(name string, pace func(n int) error) (bytes int64, err error) {
	v, next, err := l.scrubView(name)
	if err != nil || v.seg == nil {
		return 0, err
	}
	f, err := l.disk.Open(v.seg.path)
	if err == nil {
		defer f.Close()
		p := &paced{ReaderAt: f, pace: pace}
		err = scrub(p, v, next)
		bytes = p.bytes
		if p.stopped != nil {
			return bytes, p.stopped
		}
	}
	if err == nil || l.gone(v.seg) {
		return bytes, nil
	}
	var damage *CorruptError
	if !errors.As(err, &damage) {
		damage = &CorruptError{File: v.seg.path, Err: err}
	}
	return bytes, damage
}

// scrubView returns the segment and the one behind it.
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

func scrub(f io.ReaderAt, v view, next *segment) error {
	path := v.seg.path
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
			return &CorruptError{File: path, Offset: c.off, Err: err}
		}
	}
	if next != nil && (h.Kind != KindSeal || h.First != next.head.First || c.end != next.head.Prev || c.chain != next.head.Chain) {
		return &CorruptError{File: path, Offset: c.off, Err: fmt.Errorf("%w: %s", errSegment, next.name)}
	}
	return nil
}
