package snapshot

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
)

// Reader gives back the stream of one snapshot. It is used by one goroutine.
type Reader struct {
	file env.File // nil when the bytes come from elsewhere
	good func()   // told when the trailer held; may be nil
	src  io.ReaderAt
	name string
	size int64

	at    int64 // of the next unread byte in the file
	seed  uint32
	sofar totals
	block []byte // verified bytes not handed out yet
	buf   []byte
	err   error // sticky, io.EOF included
}

// newReader checks the head. It takes over file on success only.
func newReader(src io.ReaderAt, size int64, name string, zxid txn.Zxid) (*Reader, error) {
	r := &Reader{src: src, name: name, size: size}
	head, err := r.fetch(headLen)
	if err != nil {
		return nil, err
	}
	r.seed, err = parseHead(head, zxid)
	if err != nil {
		return nil, r.corrupt(0, err)
	}
	return r, nil
}

// Read implements io.Reader. It returns only bytes of blocks whose sum held, and io.EOF only if the trailer holds and the file
// ends there; otherwise a *CorruptError or the disk's error.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.block) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.block, r.err = r.next()
	}
	n := copy(p, r.block)
	r.block = r.block[n:]
	return n, nil
}

// Close releases the file. It may be called at any place in the stream.
func (r *Reader) Close() error {
	r.block, r.err = nil, ErrClosed
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// next reads one block; io.EOF behind a good trailer.
func (r *Reader) next() ([]byte, error) {
	start := r.at
	b, err := r.fetch(blockHead)
	if err != nil {
		return nil, err
	}
	n, sum := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if n == trailerMark {
		return nil, r.end(start)
	}
	if n > blockMax {
		return nil, r.corrupt(start, ErrLength)
	}
	data, err := r.fetch(int(n))
	if err != nil {
		return nil, err
	}
	if blockSum(r.seed, r.sofar.blocks, data) != sum {
		return nil, r.corrupt(start, ErrChecksum)
	}
	r.sofar.add(data)
	return data, nil
}

func (r *Reader) end(start int64) error {
	r.at = start
	b, err := r.fetch(trailerLen)
	if err != nil {
		return err
	}
	if err := checkTrailer(b, r.seed, r.sofar); err != nil {
		return r.corrupt(start, err)
	}
	if r.at != r.size {
		return r.corrupt(r.at, ErrTooLong)
	}
	if r.good != nil {
		r.good()
	}
	return io.EOF
}

// fetch reads the next n bytes of the file into the buffer, which the next call overwrites.
func (r *Reader) fetch(n int) ([]byte, error) {
	if int64(n) > r.size-r.at {
		return nil, r.corrupt(r.at, ErrShort)
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, 4096))
	}
	b := r.buf[:n]
	if m, err := r.src.ReadAt(b, r.at); m < n {
		if errors.Is(err, io.EOF) {
			err = r.corrupt(r.at, ErrShort)
		}
		return nil, err
	}
	r.at += int64(n)
	return b, nil
}

func (r *Reader) corrupt(at int64, err error) error {
	return &CorruptError{File: r.name, Offset: at, Err: err}
}

// drain reads to the end and reports what Read would. pace, which may be nil, is called after each block.
func (r *Reader) drain(pace func(n int)) error {
	for r.err == nil {
		var b []byte
		if b, r.err = r.next(); r.err == nil && pace != nil {
			pace(blockHead + len(b))
		}
	}
	if r.err == io.EOF {
		return nil
	}
	return r.err
}
