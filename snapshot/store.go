package snapshot

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
)

// Config says where snapshots are.
type Config struct {
	Disk env.Disk
	Dir  string // must be there
	// Pace is called after each block that a Writer wrote, with its length in bytes, and after each that it read back or that Check read; it may
	// wait. nil: nothing waits.
	Pace func(n int)
	// Stopped is asked after each block that a Writer wrote, and while snapshots are read through to judge them (Writer.Finish, Check). Its error
	// ends that and is no verdict. nil: nothing does.
	Stopped func() error
}

// Store is the snapshots of one folder. All methods may be called from any goroutine, but whoever removes and whoever installs
// must agree on an order.
type Store struct {
	cfg  Config
	temp atomic.Uint64

	mu      sync.Mutex
	verdict map[txn.Zxid]bool // of those that were read through since the store was opened
	pins    map[txn.Zxid]int
}

// Open removes what an earlier process left unfinished.
func Open(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, verdict: map[txn.Zxid]bool{}, pins: map[txn.Zxid]int{}}
	entries, err := cfg.Disk.List(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	for _, e := range entries {
		if _, temp, err := parseName(e.Name); err != nil || !temp || e.Dir {
			continue
		}
		if err := cfg.Disk.Remove(filepath.Join(cfg.Dir, e.Name)); err != nil {
			return nil, fmt.Errorf("remove unfinished snapshot: %w", err)
		}
	}
	return s, nil
}

// Info is one snapshot file. That it is listed does not say that it is good.
type Info struct {
	Zxid txn.Zxid
	Name string
	Size int64 // of the file, in bytes
}

// List returns the snapshots, newest first.
func (s *Store) List() ([]Info, error) {
	entries, err := s.cfg.Disk.List(s.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var out []Info
	for _, e := range entries {
		if zxid, temp, err := parseName(e.Name); err == nil && !temp && !e.Dir {
			out = append(out, Info{Zxid: zxid, Name: e.Name, Size: e.Size})
		}
	}
	slices.SortFunc(out, func(a, b Info) int {
		if a.Zxid > b.Zxid {
			return -1
		}
		return 1
	})
	return out, nil
}

func (s *Store) path(zxid txn.Zxid) string { return filepath.Join(s.cfg.Dir, fileName(zxid)) }

// Name returns the file name of a snapshot.
func Name(zxid txn.Zxid) string { return fileName(zxid) }

// Create starts a new snapshot.
func (s *Store) Create(zxid txn.Zxid) (*Writer, error) {
	t, err := s.newTemp(zxid)
	if err != nil {
		return nil, err
	}
	w := &Writer{temp: t, buf: make([]byte, blockHead, blockHead+blockMax)}
	head, seed := appendHead(nil, zxid)
	w.seed = seed
	if err := w.temp.write(head); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// Receive starts a snapshot whose file comes from elsewhere.
func (s *Store) Receive(zxid txn.Zxid) (*RawWriter, error) {
	t, err := s.newTemp(zxid)
	if err != nil {
		return nil, err
	}
	return &RawWriter{temp: t}, nil
}

func (s *Store) newTemp(zxid txn.Zxid) (temp, error) {
	path := s.path(zxid) + "." + strconv.FormatUint(s.temp.Add(1), 10) + tempSuffix
	f, err := s.cfg.Disk.Create(path)
	if err != nil {
		return temp{}, fmt.Errorf("create snapshot %v: %w", zxid, err)
	}
	return temp{store: s, zxid: zxid, path: path, file: f}, nil
}

// Open opens a snapshot for reading; fs.ErrNotExist if there is none, a *CorruptError if its head is not right.
func (s *Store) Open(zxid txn.Zxid) (*Reader, error) {
	f, size, err := s.openFile(zxid)
	if err != nil {
		return nil, err
	}
	r, err := newReader(f, size, s.path(zxid), zxid)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.file, r.good = f, func() { s.setVerdict(zxid, true) }
	return r, nil
}

func (s *Store) openFile(zxid txn.Zxid) (env.File, int64, error) {
	f, err := s.cfg.Disk.Open(s.path(zxid))
	if err != nil {
		return nil, 0, fmt.Errorf("open snapshot %v: %w", zxid, err)
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("size of snapshot %v: %w", zxid, err)
	}
	return f, size, nil
}

// Verify reads a snapshot through. It returns a *CorruptError if it is damaged or the disk does not give it, fs.ErrNotExist if there is none. pace
// is called after each read and may wait; its error ends Verify and is no verdict. nil: nothing waits.
func (s *Store) Verify(zxid txn.Zxid, pace func(n int) error) error { return s.verify(zxid, pace, nil) }

// verify is Verify; blocks, which may be nil, is called after each block, and may wait.
func (s *Store) verify(zxid txn.Zxid, pace func(n int) error, blocks func(n int)) error {
	f, size, err := s.openFile(zxid)
	if err != nil {
		return err
	}
	defer f.Close()
	p := &paced{ReaderAt: f, pace: pace}
	r, err := newReader(p, size, s.path(zxid), zxid)
	if err == nil {
		err = r.drain(blocks)
	}
	if p.stopped != nil {
		return p.stopped
	}
	s.setVerdict(zxid, err == nil)
	var damage *CorruptError
	if err != nil && !errors.As(err, &damage) {
		err = &CorruptError{File: s.path(zxid), Offset: p.at, Err: err}
	}
	return err
}

// stopped is a pace that only asks whether to go on.
func (s *Store) stopped(int) error {
	if s.cfg.Stopped == nil {
		return nil
	}
	return s.cfg.Stopped()
}

// paced is a file that is read no faster than pace lets it.
type paced struct {
	io.ReaderAt
	pace    func(n int) error
	at      int64 // of the last read
	stopped error // of pace
}

// ReadAt implements io.ReaderAt.
func (p *paced) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, off)
	p.at = off
	if p.pace != nil {
		if p.stopped = p.pace(n); p.stopped != nil {
			return 0, p.stopped
		}
	}
	return n, err
}

func (s *Store) setVerdict(zxid txn.Zxid, good bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdict[zxid] = good
}

// verified tells whether a snapshot was read through since the store was opened, and with what result.
func (s *Store) verified(zxid txn.Zxid) (good, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	good, known = s.verdict[zxid]
	return good, known
}

// Raw is a snapshot file as it is, for sending. The file stays until Close, whatever Retain says. ReadAt may be called from any
// goroutine.
type Raw struct {
	env.File
	Zxid   txn.Zxid
	Length int64 // bytes
	unpin  func()
}

// OpenRaw opens a snapshot file as it is; fs.ErrNotExist if there is none.
func (s *Store) OpenRaw(zxid txn.Zxid) (*Raw, error) {
	unpin := s.pin(zxid)
	f, size, err := s.openFile(zxid)
	if err != nil {
		unpin()
		return nil, err
	}
	return &Raw{File: f, Zxid: zxid, Length: size, unpin: unpin}, nil
}

// Close releases the file. It may be called twice.
func (r *Raw) Close() error {
	if r.unpin == nil {
		return nil
	}
	r.unpin()
	r.unpin = nil
	return r.File.Close()
}

func (s *Store) pin(zxid txn.Zxid) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins[zxid]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pins[zxid]--; s.pins[zxid] == 0 {
			delete(s.pins, zxid)
		}
	}
}

func (s *Store) pinned(zxid txn.Zxid) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pins[zxid] > 0
}
