package peer

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
)

// used reports whether the folders show that a server has run here.
func (st *starting) used() (bool, error) {
	files, err := st.files()
	if err != nil {
		return false, err
	}
	for _, f := range files {
		if f.name == manifestName || f.name == initializedName || isData(f.name) || strings.HasPrefix(f.name, damagedPrefix) {
			return true, nil
		}
	}
	return false, nil
}

// isData reports whether a name is that of log or snapshots, finished or not.
func isData(name string) bool {
	return strings.HasPrefix(name, "log.") || strings.HasPrefix(name, "snap.")
}

type place struct{ dir, name string }

// files lists both folders.
func (st *starting) files() ([]place, error) {
	var out []place
	for _, dir := range st.dirs() {
		entries, err := st.cfg.Disk.List(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, place{dir, e.Name})
		}
	}
	return out, nil
}

// lose makes it durable that this server may have forgotten something (O14).
func (st *starting) lose(why string) error {
	st.lost = append(st.lost, why)
	if len(st.lost) > 1 {
		return nil // flagged by this start already
	}
	rec := st.hard.rec
	rec.Recovering, rec.RecoveryID = true, st.cfg.NewID()
	if mutant.On("O14") { // until rewrite
		st.hard.rec = rec
		return nil
	}
	if mutant.On("K33") {
		return nil
	}
	return st.hard.save(rec)
}

func (st *starting) note(format string, args ...any) {
	st.out.Notes = append(st.out.Notes, fmt.Sprintf(format, args...))
}

// nextGeneration is one that no file and no promise knows.
func (st *starting) nextGeneration(files []place) uint64 {
	newest := max(st.man.Generation, st.hard.rec.Generation)
	for _, f := range files {
		if parts := strings.Split(f.name, "."); len(parts) > 2 && parts[0] == "log" {
			if g, err := strconv.ParseUint(parts[1], 16, 64); err == nil {
				newest = max(newest, g)
			}
		}
	}
	return newest + 1
}

// setAside moves the files that pick chooses into this start's sub-folder, beside where they are.
func (st *starting) setAside(files []place, pick func(name string) bool) error {
	for _, dir := range st.dirs() {
		to, moved := "", []string(nil)
		for _, f := range files {
			if f.dir != dir || !pick(f.name) {
				continue
			}
			if len(moved) == 0 {
				var err error
				if to, err = st.asideFolder(dir); err != nil {
					return err
				}
			}
			moved = append(moved, f.name)
			if err := st.cfg.Disk.Rename(filepath.Join(dir, f.name), filepath.Join(to, f.name)); err != nil {
				return err
			}
		}
		if len(moved) == 0 {
			continue
		}
		st.note("set aside in %s: %s", to, strings.Join(moved, " "))
		if err := errors.Join(st.cfg.Disk.SyncDir(to), st.cfg.Disk.SyncDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

func (st *starting) asideFolder(dir string) (string, error) {
	if st.damagedDir == "" {
		st.damagedDir = damagedPrefix + fmt.Sprintf("%016x", st.cfg.NewID())
	}
	to := filepath.Join(dir, st.damagedDir)
	return to, st.cfg.Disk.MkdirAll(to)
}

// copyAside keeps a small file's content where the file itself is about to be replaced. What cannot be read is not kept.
func (st *starting) copyAside(name string) error {
	b, err := readWhole(st.cfg.Disk, st.path(name))
	if err != nil {
		st.note("%s could not be kept: %v", name, err)
		return nil
	}
	to, err := st.asideFolder(st.dir)
	if err != nil {
		return err
	}
	st.note("%s is kept in %s", name, to)
	return writeWhole(st.cfg.Disk, to, name, b)
}

// moveDamaged sets aside what was passed over, while the manifest still names it: what it does not name is removed.
func (st *starting) moveDamaged() error {
	files, err := st.files()
	if err != nil {
		return err
	}
	return st.setAside(files, func(name string) bool {
		damaged := slices.ContainsFunc(st.broken, func(z txn.Zxid) bool { return snapshot.Name(z) == name })
		return damaged || slices.Contains(st.aside, name) || name == initializedName && st.initialText == nil
	})
}

// leaveDiverged sets the whole history aside: the state that it led to was not the ensemble's (I-17), and nobody knows which of the files is to
// blame. The promises stay; the history comes from the leader. Until rewrite the flag stands, so that a crash begins here again.
func (st *starting) leaveDiverged() error {
	files, err := st.files()
	if err != nil {
		return err
	}
	next := st.nextGeneration(files)
	st.note("the state of this server had diverged from the others'; its history is set aside, and it takes the leader's")
	if err := st.setAside(files, func(name string) bool { return name == manifestName || isData(name) }); err != nil {
		return err
	}
	return st.saveManifest(manifest{Generation: next})
}
