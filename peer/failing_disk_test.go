package peer

import (
	"errors"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/env"
)

var errBadDisk = errors.New("the disk is broken")

// failingDisk is a disk whose fsyncs fail while fail is set.
type failingDisk struct {
	env.Disk
	fail atomic.Bool
}

type failingFile struct {
	env.File
	d *failingDisk
}

func (d *failingDisk) Open(path string) (env.File, error) {
	f, err := d.Disk.Open(path)
	return failingFile{f, d}, err
}

func (d *failingDisk) Create(path string) (env.File, error) {
	f, err := d.Disk.Create(path)
	return failingFile{f, d}, err
}

func (f failingFile) Sync() error {
	if f.d.fail.Load() {
		return errBadDisk
	}
	return f.File.Sync()
}
