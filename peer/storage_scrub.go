package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
	"github.com/zkd-project/zkd/zab"
)

// Damage is a file whose bytes are not what was written, found while the server runs.
type Damage struct {
	File   string // path
	Offset int64  // where the faulty piece begins
	Err    error  // what is wrong there

	segment string   // its name if it is one of the log, else it is
	zxid    txn.Zxid // a snapshot
}

func (d Damage) String() string { return fmt.Sprintf("%s at %d: %v", d.File, d.Offset, d.Err) }

// Scrub reads all snapshots and all segments of the log but the active one, and returns what is newly found to be damaged. Such a file is served to
// nobody from then on; SetDamagedAside gets rid of it. pace is called after each read with its length in bytes and may wait; its error ends Scrub. Any
// goroutine.
func (s *Storage) Scrub(pace func(n int) error) ([]Damage, error) {
	infos, err := s.snaps.List()
	if err != nil {
		return nil, err
	}
	var found []Damage
	for _, info := range infos {
		d, err := s.checkSnapshot(info.Zxid, pace)
		if err != nil {
			return found, err
		}
		found = append(found, d...)
	}
	names := s.log.Segments()
	for _, name := range names[:len(names)-1] {
		_, err := s.log.Scrub(name, pace)
		var damage *txnlog.CorruptError
		if errors.As(err, &damage) {
			found = append(found, s.condemn(Damage{File: damage.File, Offset: damage.Offset, Err: damage.Err, segment: name})...)
		} else if err != nil {
			return found, err
		}
	}
	return found, nil
}

// checkSnapshot returns the damage if there is any that was not known.
func (s *Storage) checkSnapshot(z txn.Zxid, pace func(n int) error) ([]Damage, error) {
	err := s.snaps.Verify(z, pace)
	var damage *snapshot.CorruptError
	switch {
	case errors.As(err, &damage):
		return s.condemn(Damage{File: damage.File, Offset: damage.Offset, Err: damage.Err, zxid: z}), nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // it was let go meanwhile
	}
	return nil, err
}

// condemn notes d, and returns it unless it was known.
func (s *Storage) condemn(d Damage) []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.condemned, func(have Damage) bool { return have.File == d.File }) {
		return nil
	}
	s.condemned = append(s.condemned, d)
	return []Damage{d}
}

// Condemned returns the damage that is still in the folder. Any goroutine.
func (s *Storage) Condemned() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.condemned)
}

func (s *Storage) isCondemned(z txn.Zxid) bool {
	return slices.ContainsFunc(s.Condemned(), func(d Damage) bool { return d.segment == "" && d.zxid == z })
}

// acquit forgets a snapshot that was written anew.
func (s *Storage) acquit(z txn.Zxid) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.condemned = slices.DeleteFunc(s.condemned, func(d Damage) bool { return d.segment == "" && d.zxid == z })
}

// SetDamagedAside moves damaged files into a folder damaged.<number> beside them, as far as the newest snapshot covers what they held: it is a good one,
// so nothing is lost by that. notes says what was moved where. When left is true, a new snapshot is needed for the rest.
func (s *Storage) SetDamagedAside() (taken zab.SnapshotTaken, notes []string, left bool, err error) {
	todo := s.Condemned()
	if err := s.hasFailed(); err != nil || len(todo) == 0 {
		return taken, nil, false, err
	}
	newest, size, ok := s.Newest()
	if !ok || s.isCondemned(newest.At.Zxid) {
		return taken, nil, true, nil
	}
	folder := damagedPrefix + fmt.Sprintf("%016x", s.cfg.NewID())
	err = s.do("set damaged files aside", func() error {
		for _, d := range todo {
			done, err := s.setOneAside(d, newest.At.Zxid, folder)
			if err != nil {
				return err
			}
			if !done {
				left = true
				continue
			}
			notes = append(notes, fmt.Sprintf("%s is not used any more; if it was still there it is in %s beside it", d.File, folder))
			s.mu.Lock()
			s.condemned = slices.DeleteFunc(s.condemned, func(have Damage) bool { return have.File == d.File })
			s.mu.Unlock()
		}
		return nil
	})
	return zab.SnapshotTaken{At: newest.At, Size: size, LogBase: s.oldest()}, notes, left, err
}

func (s *Storage) setOneAside(d Damage, covered txn.Zxid, folder string) (done bool, err error) {
	if d.segment != "" {
		return s.log.SetAside(d.segment, covered, filepath.Join(s.logDir, folder))
	}
	to := filepath.Join(s.dir, folder)
	if err := s.cfg.Disk.MkdirAll(to); err != nil {
		return false, err
	}
	err = s.cfg.Disk.Rename(d.File, filepath.Join(to, filepath.Base(d.File)))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err == nil {
		err = errors.Join(s.cfg.Disk.SyncDir(to), s.cfg.Disk.SyncDir(s.dir))
	}
	if err != nil {
		return false, err
	}
	m := s.man
	m.Snapshots = slices.DeleteFunc(slices.Clone(m.Snapshots), func(z txn.Zxid) bool { return z == d.zxid })
	return true, s.saveManifest(m)
}
