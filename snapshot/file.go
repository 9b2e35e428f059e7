package snapshot

import (
	"io/fs"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/env"
)

// OpenFile opens one snapshot file by its path, without a Store and without touching anything else: for tools that look at files
// offline. The name must be a snapshot's, because the head is checked against the zxid in it.
func OpenFile(disk env.Disk, path string) (*Reader, error) {
	zxid, temp, err := parseName(filepath.Base(path))
	if err == nil && temp {
		err = errName
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil {
		var r *Reader
		if r, err = newReader(f, size, path, zxid); err == nil {
			r.file = f
			return r, nil
		}
	}
	f.Close()
	return nil, err
}
