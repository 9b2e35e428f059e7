package txnlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

const (
	markEvery = 64 << 10 // bytes of log between two entries of a segment's index
	copyBytes = 1 << 20
)

// segment is one file of the log. name, path and head never change; end and marks are guarded by Log.mu once it is in the log.
type segment struct {
	name, path string
	head       SegmentHeader
	end        int64 // offset behind the last batch; for a segment that was not read at Open, the file's length
	marks      []mark
}

// mark says what stands before the batch at off.
type mark struct {
	prev  txn.Zxid
	chain uint64
	seq   uint64
	off   int64
}

func (s *segment) first() mark {
	return mark{prev: s.head.Prev, chain: s.head.Chain, seq: s.head.FirstSeq - 1, off: sectorBytes}
}

// note enters the batch at m into the index if it is far enough from the last one there.
func note(marks []mark, m mark) []mark {
	if len(marks) > 0 && m.off-marks[len(marks)-1].off < markEvery {
		return marks
	}
	return append(marks, m)
}

// seek returns the last mark at or before z.
func (s *segment) seek(z txn.Zxid) mark {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].prev > z })
	if i == 0 {
		return s.first()
	}
	return s.marks[i-1]
}

// cursorAt stands before the batch of mark m.
func cursorAt(w *window, generation uint64, m mark) *cursor {
	return &cursor{w: w, generation: generation, off: m.off, seq: m.seq, end: m.prev, chain: m.chain}
}

func (c *cursor) mark() mark { return mark{prev: c.end, chain: c.chain, seq: c.seq, off: c.off} }

// store is where segments are made and replaced. Nothing in it remembers an error.
type store struct {
	disk         env.Disk
	dir          string
	segmentBytes int64
}

func (s *store) named(h SegmentHeader) *segment {
	name := segmentName(h.Generation, h.First)
	return &segment{name: name, path: filepath.Join(s.dir, name), head: h, end: sectorBytes}
}

// create makes an empty segment with room for need bytes of batches besides the seal. When it returns, header and name are
// durable.
func (s *store) create(h SegmentHeader, need int64) (*segment, env.File, error) {
	h.Size = max(s.segmentBytes, sectorBytes+need+sectorBytes)
	seg := s.named(h)
	f, err := s.fill(seg.path, h, nil)
	if err != nil {
		return nil, nil, err
	}
	if mutant.On("R-56") {
		return seg, f, nil
	}
	return s.keep(seg, f, s.disk.SyncDir(s.dir))
}

// replace makes a segment out of the first cut bytes of from (nil for an empty one) and last, a whole batch or nothing. It takes
// the place of the file of that name in one step; when it returns, that is durable.
func (s *store) replace(h SegmentHeader, from *segment, cut int64, last []byte) (*segment, env.File, error) {
	end := cut + int64(len(last))
	h.Size = max(s.segmentBytes, end+sectorBytes)
	seg := s.named(h)
	seg.end = end
	tmp := seg.path + tmpSuffix
	if err := s.disk.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	f, err := s.fill(tmp, h, func(f env.File) error {
		if err := s.copyBatches(f, from, cut); err != nil || len(last) == 0 {
			return err
		}
		_, err := f.WriteAt(last, cut)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if err := s.disk.Rename(tmp, seg.path); err != nil {
		return s.keep(seg, f, err)
	}
	return s.keep(seg, f, s.disk.SyncDir(s.dir))
}

// keep passes seg and f on, or closes f if there was an error.
func (s *store) keep(seg *segment, f env.File, err error) (*segment, env.File, error) {
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return seg, f, nil
}

// fill creates a file of the header's size with that header, lets more write the rest, and syncs it.
func (s *store) fill(path string, h SegmentHeader, more func(env.File) error) (env.File, error) {
	f, err := s.disk.Create(path)
	if err != nil {
		return nil, err
	}
	err = f.Allocate(h.Size)
	if err == nil {
		_, err = f.WriteAt(h.appendTo(make([]byte, 0, sectorBytes)), 0)
	}
	if err == nil && more != nil {
		err = more(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make segment %s: %w", path, err)
	}
	return f, nil
}

func (s *store) copyBatches(to env.File, from *segment, cut int64) error {
	if from == nil || cut == sectorBytes {
		return nil
	}
	src, err := s.disk.Open(from.path)
	if err != nil {
		return err
	}
	defer src.Close()
	buf := make([]byte, min(copyBytes, cut-sectorBytes))
	for off := int64(sectorBytes); off < cut; {
		b := buf[:min(int64(len(buf)), cut-off)]
		if n, err := src.ReadAt(b, off); n < len(b) {
			return fmt.Errorf("copy %s at %d: %w", from.path, off, err)
		}
		if _, err := to.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// removeAll deletes files, the last first, and makes that durable.
func (s *store) removeAll(paths []string) error {
	for i := len(paths) - 1; i >= 0; i-- {
		if err := s.disk.Remove(paths[i]); err != nil {
			return err
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return s.disk.SyncDir(s.dir)
}
