package txnlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/txn"
)

// Purge takes out of the log the oldest segments whose records are all <= upTo while the rest keeps at least keepBytes, and returns how many.
// It touches no file: Sweep deletes them. The active segment and files of unknown name stay.
func (l *Log) Purge(upTo txn.Zxid, keepBytes int64) (removed int, err error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.segs) > 1 && l.segs[1].head.Prev <= upTo && bytesOf(l.segs[1:]) >= keepBytes {
		l.purged = append(l.purged, l.segs[0].path)
		l.segs = l.segs[1:]
		removed++
	}
	return removed, nil
}

// Sweep deletes the oldest file that Purge took out of the log and has not been deleted yet; more is false if there was none. Each is durably
// gone before the next, so that a crash leaves a contiguous rest; what it leaves is part of the log again at the next Open. Any goroutine: to
// delete a large file may take a file system as long as many appends, which need not wait for it.
func (l *Log) Sweep() (more bool, err error) {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	l.mu.Lock()
	if l.err != nil || len(l.purged) == 0 {
		defer l.mu.Unlock()
		return false, l.err
	}
	path := l.purged[0]
	l.mu.Unlock()
	if err := l.removeAll([]string{path}); err != nil {
		return false, fmt.Errorf("purge the log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.purged = l.purged[1:]
	return true, nil
}

// Segments returns the names of the segments, oldest first. The last is the active one.
func (l *Log) Segments() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]string, len(l.segs))
	for i, s := range l.segs {
		out[i] = s.name
	}
	return out
}

// SetAside takes a cold segment whose records are all <= upTo out of the log and moves its file into the folder to, made if missing; what
// is older is deleted, since nothing links it to the rest any more. done is false, and nothing was changed, if the segment is the active one or holds
// more than that. A segment that is not in the log any more is done.
func (l *Log) SetAside(name string, upTo txn.Zxid, to string) (done bool, err error) {
	if err := l.usable(); err != nil {
		return false, err
	}
	i := slices.IndexFunc(l.segs, func(s *segment) bool { return s.name == name })
	if i < 0 {
		return true, nil
	}
	if i+1 == len(l.segs) || l.segs[i+1].head.Prev > upTo {
		return false, nil
	}
	if err := l.disk.MkdirAll(to); err != nil {
		return false, l.fail(err)
	}
	gone := l.segs[:i+1]
	l.mu.Lock()
	l.segs = l.segs[i+1:]
	l.mu.Unlock()
	for _, s := range gone[:i] {
		if err := l.removeAll([]string{s.path}); err != nil {
			return false, l.fail(err)
		}
	}
	err = l.disk.Rename(gone[i].path, filepath.Join(to, name))
	if err == nil {
		err = errors.Join(l.disk.SyncDir(to), l.disk.SyncDir(l.dir))
	}
	if err != nil {
		return false, l.fail(err)
	}
	return true, nil
}
