package txnlog

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/txn"
)

// replay gives the records of a log to somebody while the log is judged, so that it is read once. A record that no commit hint has covered yet
// waits for the next hints, or for the log's end.
type replay struct {
	base    txn.Zxid
	each    func(rec txn.Record, committed bool) error // nil: nobody
	waiting []txn.Record

	transient bool   // slabs are used again
	slabs     []slab // of the records that wait
	free      [][]byte
}

// slab is the memory of one batch's records, the last of which is last.
type slab struct {
	last txn.Zxid
	b    []byte
}

// keep lets copies of records wait.
func (p *replay) keep(recs []txn.Record) {
	if !p.transient {
		p.waiting = appendCopies(p.waiting, recs)
		return
	}
	var b []byte
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	}
	p.waiting, b = appendCopiesIn(p.waiting, recs, b)
	p.slabs = append(p.slabs, slab{recs[len(recs)-1].Zxid, b})
}

// release takes back the memory of records up to z.
func (p *replay) release(z txn.Zxid) {
	n := 0
	for ; n < len(p.slabs) && p.slabs[n].last <= z; n++ {
		p.free = append(p.free, p.slabs[n].b)
	}
	p.slabs = append(p.slabs[:0], p.slabs[n:]...)
}

// batch takes the records of a good batch, whose Bytes may not outlive the call. hint is the largest of the log so far.
func (p *replay) batch(recs []txn.Record, hint txn.Zxid) error {
	if p.each == nil {
		return nil
	}
	for len(recs) > 0 && recs[0].Zxid <= p.base {
		recs = recs[1:]
	}
	if len(recs) > 0 {
		p.keep(recs)
	}
	n := 0
	for ; n < len(p.waiting) && p.waiting[n].Zxid <= hint; n++ {
		if err := p.each(p.waiting[n], true); err != nil {
			return err
		}
	}
	if n > 0 {
		p.release(p.waiting[n-1].Zxid)
	}
	if n == len(p.waiting) {
		p.waiting = p.waiting[:0]
	} else {
		p.waiting = p.waiting[n:]
	}
	return nil
}

// end gives away what no hint has covered.
func (p *replay) end() error {
	for _, rec := range p.waiting {
		if err := p.each(rec, false); err != nil {
			return err
		}
	}
	p.waiting = nil
	return nil
}

// checkCopy reads back a segment that was made anew: it has to be, batch by batch, what was judged, up to the checksum of the last.
func (l *Log) checkCopy(seg *segment, crc uint32) error {
	f, err := l.disk.Open(seg.path)
	if err != nil {
		return err
	}
	defer f.Close()
	c := startCursor(newWindow(f, seg.end), &seg.head)
	for c.off < seg.end {
		h, _, crc, err := c.raw()
		if err == nil && (h.Seq != c.seq+1 || h.PrevCRC != c.crc) {
			err = errLink
		}
		if errors.Is(err, errTorn) || errors.Is(err, errLink) {
			return &CorruptError{File: seg.path, Offset: c.off, Err: err}
		}
		if err != nil {
			return fmt.Errorf("read segment %s: %w", seg.path, err)
		}
		c.skip(&h)
		c.crc = crc
	}
	if c.crc != crc {
		return &CorruptError{File: seg.path, Offset: c.off, Err: errLink}
	}
	return nil
}
