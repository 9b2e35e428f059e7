package snapshot

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// Check reads through the newest snapshots until n of them are known to be good, so that Retain can let go of the rest. It may take as
// long as reading them takes. Damaged ones are passed over: List and Verify tell which.
func (s *Store) Check(n int) error {
	infos, err := s.List()
	if err != nil {
		return err
	}
	good := 0
	for _, info := range infos {
		if good >= n {
			break
		}
		ok, known := s.verified(info.Zxid)
		if !known {
			err := s.verify(info.Zxid, s.stopped, s.cfg.Pace)
			var damage *CorruptError
			if err != nil && !errors.As(err, &damage) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			ok = err == nil
		}
		if ok {
			good++
		}
	}
	return nil
}

// Retain says which snapshots stay and which may go, newest first: those older than the newest keep verified ones go, unless they are open for
// sending. Only what was verified since the store was opened counts; nothing is read. Nothing is removed either.
func (s *Store) Retain(keep int) (stay, drop []txn.Zxid, err error) {
	infos, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	good := 0
	for _, info := range infos {
		if good >= max(keep, 1) && !s.pinned(info.Zxid) {
			drop = append(drop, info.Zxid)
			continue
		}
		stay = append(stay, info.Zxid)
		if ok, _ := s.verified(info.Zxid); ok || mutant.On("O10") {
			good++
		}
	}
	return stay, drop, nil
}

// Purge removes all that Retain would let go.
func (s *Store) Purge(keep int) error {
	_, drop, err := s.Retain(keep)
	if err != nil {
		return err
	}
	return s.Remove(drop)
}

// Remove deletes these snapshots in this order and makes that durable. One that is not there is no error.
func (s *Store) Remove(zxids []txn.Zxid) error {
	if len(zxids) == 0 {
		return nil
	}
	for _, z := range zxids {
		if err := s.cfg.Disk.Remove(s.path(z)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove snapshot %v: %w", z, err)
		}
		s.mu.Lock()
		delete(s.verdict, z)
		s.mu.Unlock()
	}
	if err := s.cfg.Disk.SyncDir(s.cfg.Dir); err != nil {
		return fmt.Errorf("sync folder of snapshots: %w", err)
	}
	return nil
}

// RemoveNewerThan deletes every snapshot behind zxid, newest first, and makes that durable: a cut of the history must not be undone by
// one that was taken before it.
func (s *Store) RemoveNewerThan(zxid txn.Zxid) error {
	infos, err := s.List()
	if err != nil {
		return err
	}
	var drop []txn.Zxid
	for _, info := range infos {
		if info.Zxid > zxid {
			drop = append(drop, info.Zxid)
		}
	}
	return s.Remove(drop)
}
