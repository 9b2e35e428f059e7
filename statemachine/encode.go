package statemachine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/txn"
)

// Errors of Restore.
var (
	ErrSnapshot = errors.New("malformed snapshot")
	ErrVersion  = errors.New("snapshot of another version")
	ErrDigest   = errors.New("snapshot's digest does not match its content")
)

const (
	formatVersion   = 1
	sessionBytes    = 8 + 4
	sessionsPerPart = 4096
	readStep        = 256 << 10 // a part is read in steps, so that a length costs no more memory than bytes that come
)

// head is the first part of a snapshot. New fields go at the end.
type head struct {
	Version  uint32
	Zxid     txn.Zxid
	Millis   int64
	Digest   uint64
	Sessions int
	Nodes    int
	Secret   []byte
	Highest  []txn.SessionID // that each server ever opened; missing in older snapshots
}

// Snapshot is the state at one zxid. Any goroutine may write it out while the Machine goes on.
type Snapshot struct {
	zxid     txn.Zxid
	millis   int64
	sessions *session.Table
	tree     *datatree.Image
}

// Snapshot takes the state as it is, in constant time. It may not run beside reads: it may wait for the order of the znodes, and put in what came late.
func (m *Machine) Snapshot() *Snapshot {
	return &Snapshot{zxid: m.zxid, millis: m.millis, sessions: m.sessions.Clone(), tree: m.tree.Clone()}
}

// Zxid is the last transaction that is in the snapshot.
func (s *Snapshot) Zxid() txn.Zxid { return s.zxid }

// Digest is the tree's digest at that zxid.
func (s *Snapshot) Digest() uint64 { return s.tree.Digest() }

// WriteTo writes the snapshot in parts of about 64 KiB and returns how many bytes were written. The bytes are a function of
// the state. Errors are w's.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	pw := partWriter{w: w}
	h := head{Version: formatVersion, Zxid: s.zxid, Millis: s.millis, Digest: s.tree.Digest(), Sessions: s.sessions.Len(),
		Nodes: s.tree.Len(), Secret: s.sessions.Secret(), Highest: s.sessions.AllHighest()}
	if err := pw.part(msgpack.Append(nil, &h)); err != nil {
		return pw.n, err
	}
	var part []byte
	ids := s.sessions.IDs()
	for i, id := range ids {
		timeout, _ := s.sessions.Timeout(id)
		part = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(part, uint64(id)), uint32(timeout))
		if len(part) == sessionsPerPart*sessionBytes || i == len(ids)-1 {
			if err := pw.part(part); err != nil {
				return pw.n, err
			}
			part = part[:0]
		}
	}
	if err := s.tree.Encode(pw.part); err != nil {
		return pw.n, err
	}
	err := pw.part(nil)
	return pw.n, err
}

// partWriter writes parts with their lengths and counts the bytes.
type partWriter struct {
	w   io.Writer
	n   int64
	buf []byte
}

func (p *partWriter) part(b []byte) error {
	p.buf = append(binary.BigEndian.AppendUint32(p.buf[:0], uint32(len(b))), b...)
	n, err := p.w.Write(p.buf)
	p.n += int64(n)
	return err
}

// Restore replaces the state, and what is outstanding, by a snapshot's. It reads to the snapshot's end and no further, and
// leaves the Machine as it was if it fails: with ErrSnapshot, ErrVersion, ErrDigest, or r's error. What it allocates is in
// proportion to the bytes that r gives. The first that wants the order of the znodes puts them in order, unless Settle has: Restore is often followed
// by Replay.
func (m *Machine) Restore(r io.Reader) error {
	p := partReader{r: r}
	h, err := p.head()
	if err != nil {
		return err
	}
	sessions, err := p.sessions(&h)
	if err != nil {
		return err
	}
	tree, err := p.tree(m.cfg.Parallel)
	if err != nil {
		return err
	}
	if tree.Len() != h.Nodes {
		return fmt.Errorf("%w: %d nodes of %d", ErrSnapshot, tree.Len(), h.Nodes)
	}
	if tree.Digest() != h.Digest {
		return fmt.Errorf("%w: %#x, computed %#x at %v", ErrDigest, h.Digest, tree.Digest(), h.Zxid)
	}
	m.tree, m.sessions, m.zxid, m.millis, m.marks = tree, sessions, h.Zxid, h.Millis, marks{}
	m.marks.add(h.Zxid, tree.Digest())
	m.showConfig()
	m.Abandon()
	return nil
}

// partReader reads what partWriter wrote.
type partReader struct {
	r     io.Reader
	buf   []byte
	ended bool // the part without bytes was read
}

// part returns the next part, which is good until the next call.
func (p *partReader) part() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(p.r, length[:]); err != nil {
		return nil, cut(err)
	}
	p.buf = p.buf[:0]
	for left := int(binary.BigEndian.Uint32(length[:])); left > 0; {
		at, step := len(p.buf), min(left, readStep)
		if cap(p.buf)-at < step {
			p.buf = append(p.buf, make([]byte, step)...)
		}
		p.buf = p.buf[:at+step]
		if _, err := io.ReadFull(p.r, p.buf[at:]); err != nil {
			return nil, cut(err)
		}
		left -= step
	}
	return p.buf, nil
}

// cut makes the end of the stream in the middle of a snapshot an ErrSnapshot.
func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: cut short", ErrSnapshot)
	}
	return fmt.Errorf("read snapshot: %w", err)
}

func (p *partReader) head() (h head, err error) {
	b, err := p.part()
	if err != nil {
		return h, err
	}
	if err := msgpack.Decode(b, &h); err != nil {
		return h, fmt.Errorf("%w: head: %w", ErrSnapshot, err)
	}
	if h.Version != formatVersion {
		return h, fmt.Errorf("%w: %d, want %d", ErrVersion, h.Version, formatVersion)
	}
	return h, nil
}

func (p *partReader) sessions(h *head) (*session.Table, error) {
	t := session.NewTable()
	if len(h.Secret) > 0 {
		t.SetSecret(h.Secret)
	}
	for _, id := range h.Highest {
		t.Raise(id)
	}
	for t.Len() < h.Sessions {
		b, err := p.part()
		if err != nil {
			return nil, err
		}
		before := t.Len()
		for ; len(b) >= sessionBytes; b = b[sessionBytes:] {
			t.Add(txn.SessionID(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:])))
		}
		if len(b) > 0 || t.Len() == before || t.Len() > h.Sessions {
			return nil, fmt.Errorf("%w: sessions", ErrSnapshot)
		}
	}
	return t, nil
}

// groupParts is how many parts are read at a time: while they are decoded, the next ones are read.
const groupParts = 16

// tree reads the parts that are the tree's. run may have its calls side by side.
func (p *partReader) tree(run func(n int, do func(i int))) (*datatree.Tree, error) {
	l := datatree.NewLoader(run)
	if run == nil {
		run = func(n int, do func(i int)) {
			for i := range n {
				do(i)
			}
		}
	}
	var groups [2]group // one is read while the other is decoded
	var batches []*datatree.Batch
	for k := 0; ; k = 1 - k {
		next := &groups[k]
		var err error
		run(1+len(batches), func(i int) {
			if i == 0 {
				err = p.group(next)
			} else {
				batches[i-1].Decode()
			}
		})
		if err != nil {
			return nil, err
		}
		batches = batches[:0]
		for _, b := range next.parts {
			batch, err := l.Take(b)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
			}
			batches = append(batches, batch)
		}
		if len(batches) == 0 && next.end {
			break
		}
	}
	t, err := l.Tree()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return t, nil
}

// group is some of the tree's parts; its memory is used again.
type group struct {
	parts, spare [][]byte
	end          bool // nothing comes behind them
}

// group reads parts up to the tree's end, groupParts at most.
func (p *partReader) group(g *group) error {
	g.spare, g.parts = append(g.spare, g.parts...), g.parts[:0]
	for len(g.parts) < groupParts && !p.ended {
		p.buf = nil
		if n := len(g.spare); n > 0 {
			p.buf, g.spare = g.spare[n-1], g.spare[:n-1]
		}
		b, err := p.part()
		if err != nil {
			return err
		}
		if p.ended = len(b) == 0; !p.ended {
			g.parts = append(g.parts, b)
		}
	}
	g.end = p.ended
	return nil
}
