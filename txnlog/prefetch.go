package txnlog

import (
	"path/filepath"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
)

// Prefetch has the device begin to read what Open will read of a generation if its Base is base: the segment with the record behind it, and
// those behind that. Small batches go past the page cache, so that nothing of them is there (ADR 0019). It is a hint: errors are Open's to find.
func Prefetch(disk env.Disk, dir string, generation uint64, base txn.Zxid) {
	entries, err := disk.List(dir)
	if err != nil {
		return
	}
	var names []string // in the order of the log, as List sorts by name
	for _, e := range entries {
		g, first, tmp, ok := parseSegmentName(e.Name)
		if !ok || tmp || g != generation {
			continue
		}
		if first <= base+1 {
			names = names[:0] // whatever was before is not read
		}
		names = append(names, e.Name)
	}
	for _, name := range names {
		if f, err := disk.Open(filepath.Join(dir, name)); err == nil {
			env.Prefetch(f)
			f.Close()
		}
	}
}
