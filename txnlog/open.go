package txnlog

import (
	"fmt"
	"math"

	"github.com/zkd-project/zkd/internal/env"
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
	Transient    bool   // the Bytes of the records that Open gives away are good until each returns, and no longer
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

// Open recovers the log of one generation and gives every record after s.Base, in order, to each (nil: nobody); committed says
// that the log's own commit hint covers it. The records' Bytes are each's to keep, unless cfg.Transient. An error of each ends Open.
//
// A *CorruptError means that the log lost what was durable in it; each may have had records in front of that, and no file was changed unless a
// segment that was made anew cannot be read back. ErrWrongCluster and ErrVersion are
// about the files; everything else is the disk's.
func Open(cfg Config, s Start, each func(rec txn.Record, committed bool) error) (*Log, Report, error) {
	if cfg.SegmentBytes == 0 {
		cfg.SegmentBytes = DefaultSegmentBytes
	}
	cfg.SegmentBytes = max(roundUp(cfg.SegmentBytes), 3*sectorBytes)
	st := store{disk: cfg.Disk, dir: cfg.Dir, segmentBytes: cfg.SegmentBytes}
	r := &recovery{store: st, cfg: cfg, start: s, out: replay{base: s.Base, each: each, transient: cfg.Transient}}
	l := &Log{store: st, clusterID: cfg.ClusterID, proved: true}
	rep, err := l.recover(r)
	if err == nil {
		err = r.out.end()
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
	l.f, l.size, l.ahead, l.seq, l.crc, l.hint, l.proved = f, size, 0, seq, crc, min(l.hint, end), false
	if !l.disk.InPlace(l.dir) {
		l.ahead = math.MaxInt64
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segs, l.end, l.chain = segs, end, chain
	return nil
}
