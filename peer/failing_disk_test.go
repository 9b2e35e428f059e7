package peer

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

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

func TestADiskErrorWithoutAPathNamesTheFoldersThatItMayMean(t *testing.T) {
	two := &Storage{dir: "/data/zkd", logDir: "/logs/zkd"}
	require.ErrorContains(t, two.fatal("append to the log", errBadDisk), "check the disk under /data/zkd or /logs/zkd and start again")
	one := &Storage{dir: "/data/zkd", logDir: "/data/zkd"}
	require.ErrorContains(t, one.fatal("append to the log", errBadDisk), "check the disk under /data/zkd and start again")
	full := &Storage{dir: "/data/zkd", logDir: "/logs/zkd"}
	require.ErrorContains(t, full.sweepFailed("/logs/zkd", syscall.ENOSPC), "free space on the disk under /logs/zkd and start again")
}
