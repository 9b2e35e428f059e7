package txnlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
)

// A window's first read is small, since many only look at a header; each further one is twice as large.
const (
	firstWindow = 8 << 10
	maxWindow   = 128 << 10
)

// window reads a file front to back through one buffer. What bytes returns is good until the next call.
type window struct {
	f     io.ReaderAt
	limit int64 // bytes of the file that may be read
	chunk int64 // how much one read takes at least, where there is as much
	buf   []byte
	at    int64 // offset of buf
}

func newWindow(f io.ReaderAt, limit int64) *window {
	return &window{f: f, limit: limit, chunk: firstWindow}
}

// buffers are those of windows that were released.
var buffers sync.Pool

// release lets another window have the buffer: nothing that bytes returned may be used any more.
func (w *window) release() {
	if cap(w.buf) > 0 {
		b := w.buf[:0]
		buffers.Put(&b)
		w.buf = nil
	}
}

// room makes the buffer hold n bytes; what is in it is lost.
func (w *window) room(n int64) {
	if w.buf == nil {
		if b, ok := buffers.Get().(*[]byte); ok {
			w.buf = *b
		}
	}
	if int64(cap(w.buf)) < n {
		w.buf = make([]byte, n)
	}
	w.buf = w.buf[:n]
}

// has reports whether the byte at off has been read and is still there.
func (w *window) has(off int64) bool { return off >= w.at && off < w.at+int64(len(w.buf)) }

// bytes returns n bytes at off; ok is false if the file is shorter.
func (w *window) bytes(off, n int64) (b []byte, ok bool, err error) {
	if off < 0 || n < 0 || off > w.limit-n {
		return nil, false, nil
	}
	if off < w.at || off+n > w.at+int64(len(w.buf)) {
		want := min(max(n, w.chunk), w.limit-off)
		w.room(want)
		w.at = off
		w.chunk = min(2*w.chunk, max(w.chunk, maxWindow))
		if got, err := w.f.ReadAt(w.buf, off); int64(got) < want {
			w.buf = w.buf[:0]
			if errors.Is(err, io.EOF) {
				return nil, false, nil // it shrank under us
			}
			return nil, false, err
		}
	}
	return w.buf[off-w.at:][:n], true, nil
}

// cursor walks the batches of one segment and checks each against what stands before it.
type cursor struct {
	w          *window
	generation uint64
	off        int64 // of the next batch
	seq        uint64
	end        txn.Zxid
	chain      uint64
	crc        uint32 // of the last batch
	crcKnown   bool   // false behind a batch that was stepped over
	recs       []txn.Record
}

// startCursor stands behind the header of a segment.
func startCursor(w *window, h *SegmentHeader) *cursor {
	return &cursor{w: w, generation: h.Generation, off: sectorBytes, seq: h.FirstSeq - 1, end: h.Prev, chain: h.Chain,
		crc: h.PrevCRC, crcKnown: true}
}

// next returns the next batch and its records, whose Bytes alias the cursor's buffer until the next call. errTorn says that
// there is no whole batch here: the end, or damage. errLink and errRecords say that there is one that no crash explains.
func (c *cursor) next() (BatchHeader, []txn.Record, error) {
	h, body, crc, err := c.raw()
	if err != nil {
		return h, nil, err
	}
	if h.Seq != c.seq+1 || h.Prev != c.end || c.crcKnown && h.PrevCRC != c.crc {
		return h, nil, errLink
	}
	c.recs, err = parseRecords(c.recs, &h, c.chain, body)
	if err != nil {
		return h, nil, err
	}
	c.off, c.seq, c.end, c.chain, c.crc, c.crcKnown = h.end(), h.Seq, h.Last, h.Chain, crc, true
	return h, c.recs, nil
}

// header returns the header of the next batch, unchecked against its predecessor.
func (c *cursor) header() (BatchHeader, error) {
	b, ok, err := c.w.bytes(c.off, batchHeaderBytes)
	if err != nil {
		return BatchHeader{}, err
	}
	if !ok {
		return BatchHeader{}, errTorn
	}
	h, ok := parseBatchHeader(b, c.generation, c.off)
	if !ok {
		return h, errTorn
	}
	return h, nil
}

// raw returns the next batch as far as its checksums say that it is whole. h is set whenever the header was good.
func (c *cursor) raw() (h BatchHeader, body []byte, crc uint32, err error) {
	if h, err = c.header(); err != nil {
		return h, nil, 0, err
	}
	n := batchHeaderBytes + int64(h.BodyBytes) + trailerBytes
	b, ok, err := c.w.bytes(c.off, n)
	if err != nil {
		return h, nil, 0, err
	}
	if !ok {
		return h, nil, 0, errTorn
	}
	body = b[batchHeaderBytes : n-trailerBytes]
	crc = crc32.Update(h.crc, castagnoli, body)
	if crc != binary.BigEndian.Uint32(b[n-trailerBytes:]) {
		return h, nil, 0, errTorn
	}
	return h, body, crc, nil
}

// skip goes behind the batch of header h without reading its body.
func (c *cursor) skip(h *BatchHeader) {
	c.off, c.seq, c.end, c.chain, c.crcKnown = h.end(), h.Seq, h.Last, h.Chain, false
}

// readSegmentHeader reads the header at the start of a file.
func readSegmentHeader(f io.ReaderAt) (SegmentHeader, error) {
	var b [segmentHeaderBytes]byte
	if n, err := f.ReadAt(b[:], 0); n < len(b) {
		if errors.Is(err, io.EOF) {
			return SegmentHeader{}, errHeader
		}
		return SegmentHeader{}, err
	}
	return parseSegmentHeader(b[:])
}

// ReadSegment reads one segment file, wherever it lies, and gives each batch with its records to each; their Bytes are good
// until each returns. It stops without an error at the zeros behind the last batch, and with a *CorruptError at anything else.
func ReadSegment(disk env.Disk, path string, each func(BatchHeader, []txn.Record) error) (SegmentHeader, error) {
	f, err := disk.Open(path)
	if err != nil {
		return SegmentHeader{}, err
	}
	defer f.Close()
	h, err := readSegmentHeader(f)
	if err != nil {
		return h, &CorruptError{File: path, Err: err}
	}
	size, err := f.Size()
	if err != nil {
		return h, fmt.Errorf("read segment %s: %w", path, err)
	}
	c := startCursor(newWindow(f, size), &h)
	for {
		b, recs, err := c.next()
		if errors.Is(err, errTorn) {
			tail, terr := scanTail(c.w, c.generation, c.off)
			if terr != nil {
				return h, fmt.Errorf("read segment %s: %w", path, terr)
			}
			if tail.garbage == 0 {
				return h, nil
			}
		}
		if err != nil {
			return h, &CorruptError{File: path, Offset: c.off, Err: err}
		}
		if err := each(b, recs); err != nil {
			return h, err
		}
		if b.Kind == KindSeal {
			return h, nil
		}
	}
}

// tail is what lies behind the last good batch of a segment.
type tail struct {
	garbage int64  // bytes up to the last one that is not zero
	maxSeq  uint64 // largest seq of a valid batch header in it; 0 if there is none
}

// zeros is what most of a segment's rest is.
var zeros [sectorBytes]byte

// scanTail reads the rest of a segment from off on. A batch that is damaged behind its header is stepped over as a whole, so that
// what a client wrote into it is not looked at as if it were log.
func scanTail(w *window, generation uint64, off int64) (t tail, err error) {
	start := off
	for off < w.limit {
		b, ok, err := w.bytes(off, min(sectorBytes, w.limit-off))
		if err != nil {
			return t, err
		}
		if !ok {
			return t, nil
		}
		step := int64(sectorBytes)
		if bytes.Equal(b, zeros[:len(b)]) {
			if off += step; !w.has(off) {
				off = max(off, env.NextData(w.f, off)/sectorBytes*sectorBytes)
			}
			continue
		}
		t.garbage = off + int64(len(bytes.TrimRight(b, "\x00"))) - start
		if h, ok := parseBatchHeader(b, generation, off); ok {
			t.maxSeq = max(t.maxSeq, h.Seq)
			if h.end() <= w.limit {
				step = h.size()
				t.garbage = off + batchHeaderBytes + int64(h.BodyBytes) + trailerBytes - start
			}
		}
		off += step
	}
	return t, nil
}
