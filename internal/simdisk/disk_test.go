package simdisk

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
)

var _ env.Disk = (*Disk)(nil)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// diskWith returns a disk with the folder /d and in it the durable file /d/a of two sectors of x.
func diskWith(t *testing.T) (*Disk, env.File) {
	t.Helper()
	d := NewDisk(0)
	require.NoError(t, d.MkdirAll("/d"))
	f, err := d.Create("/d/a")
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte("x"), 2*SectorBytes), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, d.SyncDir("/d"))
	return d, f
}

func content(t *testing.T, d *Disk, path string) string {
	t.Helper()
	f, err := d.Open(path)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return string(b)
}

func names(t *testing.T, d *Disk) (out []string) {
	t.Helper()
	es, err := d.List("/d")
	require.NoError(t, err)
	for _, e := range es {
		out = append(out, e.Name)
	}
	return out
}

// outcomes cuts the power after what do did, many times, and counts what is left.
func outcomes(t *testing.T, do func(d *Disk, f env.File), look func(d *Disk) string) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for seed := range uint64(60) {
		d, f := diskWith(t)
		do(d, f)
		d.Crash(rng(seed))
		_, err := d.Open("/d/a")
		require.ErrorIs(t, err, ErrPowerCut)
		d.Reboot()
		_, err = f.ReadAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, ErrPowerCut, "files do not outlive the power")
		seen[look(d)]++
	}
	return seen
}

func TestAnySubsetOfUnsyncedSectorsSurvives(t *testing.T) {
	write := func(f env.File) {
		_, err := f.WriteAt(bytes.Repeat([]byte("y"), 2*SectorBytes), 0)
		require.NoError(t, err)
	}
	look := func(d *Disk) string {
		s := content(t, d, "/d/a")
		require.Equal(t, bytes.Repeat([]byte(s[:1]), SectorBytes), []byte(s[:SectorBytes]), "a sector is old or new")
		return s[:1] + s[SectorBytes:SectorBytes+1]
	}
	require.Len(t, outcomes(t, func(_ *Disk, f env.File) { write(f) }, look), 4)
	require.Equal(t, map[string]int{"yy": 60}, outcomes(t, func(_ *Disk, f env.File) {
		write(f)
		require.NoError(t, f.Sync())
	}, look))
	require.Len(t, outcomes(t, func(d *Disk, f env.File) {
		write(f)
		d.FailAt(d.Steps()+1, syscall.EIO)
		require.ErrorIs(t, f.Sync(), syscall.EIO)
		require.NoError(t, f.Sync(), "the lie: nothing is dirty any more")
		d.Kill()
		require.Equal(t, "yy", look(d), "and it can be read")
	}, look), 4)
}

func TestSizeIsUnsyncedToo(t *testing.T) {
	look := func(d *Disk) string {
		s := content(t, d, "/d/a")
		require.Contains(t, []int{2 * SectorBytes, 700}, len(s))
		return map[bool]string{true: "cut", false: "whole"}[len(s) == 700]
	}
	require.Len(t, outcomes(t, func(_ *Disk, f env.File) { require.NoError(t, f.Truncate(700)) }, look), 2)
	require.Equal(t, map[string]int{"cut": 60}, outcomes(t, func(_ *Disk, f env.File) {
		require.NoError(t, f.Truncate(700))
		require.NoError(t, f.Sync())
	}, look))
	d, f := diskWith(t)
	require.NoError(t, f.Truncate(700))
	require.NoError(t, f.Truncate(900))
	s := content(t, d, "/d/a")
	require.Equal(t, string(bytes.Repeat([]byte("x"), 700))+string(make([]byte, 200)), s, "zeros behind a cut")
}

func TestNamesAreDurableAfterSyncDir(t *testing.T) {
	change := func(d *Disk) {
		f, err := d.Create("/d/b")
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, d.Rename("/d/a", "/d/c"))
	}
	look := func(d *Disk) string {
		s := ""
		for _, n := range names(t, d) {
			s += n
		}
		return s
	}
	require.Len(t, outcomes(t, func(d *Disk, _ env.File) { change(d) }, look), 4)
	require.Equal(t, map[string]int{"bc": 60}, outcomes(t, func(d *Disk, _ env.File) {
		change(d)
		require.NoError(t, d.SyncDir("/d"))
	}, look))
	require.Len(t, outcomes(t, func(d *Disk, _ env.File) {
		change(d)
		d.FailAt(d.Steps()+1, syscall.EIO)
		require.ErrorIs(t, d.SyncDir("/d"), syscall.EIO)
		require.NoError(t, d.SyncDir("/d"))
	}, look), 4)
	require.Equal(t, map[string]int{"a": 60}, outcomes(t, func(d *Disk, _ env.File) {
		d.FailAt(d.Steps()+2, syscall.EIO)
		require.NoError(t, d.Remove("/d/a"))
		require.ErrorIs(t, d.SyncDir("/d"), syscall.EIO)
		f, err := d.Create("/d/a")
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, d.SyncDir("/d"))
	}, look), "what is durable now is not undone by what was lost before")
}

func TestCrashAtAStep(t *testing.T) {
	seen := outcomes(t, func(d *Disk, f env.File) {
		d.CrashAt(d.Steps() + 2)
		_, err := f.WriteAt([]byte("y"), 0)
		require.NoError(t, err)
		require.ErrorIs(t, f.Sync(), ErrPowerCut)
		require.ErrorIs(t, d.SyncDir("/d"), ErrPowerCut)
	}, func(d *Disk) string { return content(t, d, "/d/a")[:1] })
	require.Len(t, seen, 2)
}

func TestInjectedWriteErrorIsAShortWrite(t *testing.T) {
	d, f := diskWith(t)
	d.FailAt(d.Steps()+1, syscall.EIO)
	n, err := f.WriteAt(bytes.Repeat([]byte("z"), 2*SectorBytes), 0)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, SectorBytes, n)
	require.Equal(t, "zx", content(t, d, "/d/a")[SectorBytes-1:SectorBytes+1])
	require.NoError(t, d.Corrupt("/d/a", 0, 1))
	require.Equal(t, "{", content(t, d, "/d/a")[:1])
}

func TestCapacity(t *testing.T) {
	d := NewDisk(8 * SectorBytes)
	f, err := d.Create("a")
	require.NoError(t, err)
	require.NoError(t, f.Allocate(6*SectorBytes))
	free, err := d.Free(".")
	require.NoError(t, err)
	require.Equal(t, int64(2*SectorBytes), free)
	g, err := d.Create("b")
	require.NoError(t, err)
	require.ErrorIs(t, g.Allocate(3*SectorBytes), syscall.ENOSPC)
	_, err = g.WriteAt(make([]byte, 3*SectorBytes), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = g.WriteAt(make([]byte, 2*SectorBytes), 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, 6*SectorBytes), 0)
	require.NoError(t, err, "the space was reserved")
	require.NoError(t, d.Remove("b"))
	_, err = f.WriteAt(make([]byte, SectorBytes), 7*SectorBytes)
	require.NoError(t, err)
	n, err := f.ReadAt(make([]byte, 9*SectorBytes), 0)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 8*SectorBytes, n)
}

func TestNamesAndLocks(t *testing.T) {
	d, _ := diskWith(t)
	_, err := d.Create("/d/a")
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = d.Open("/d/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = d.Create("/none/a")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, d.Rename("/d/none", "/d/a"), fs.ErrNotExist)
	require.ErrorIs(t, d.Remove("/d"), syscall.ENOTEMPTY)
	require.NoError(t, d.MkdirAll("/d/e/f"))
	require.Equal(t, []string{"a", "e"}, names(t, d))

	lock, err := d.Lock("/d/lock")
	require.NoError(t, err)
	_, err = d.Lock("/d/lock")
	require.ErrorIs(t, err, env.ErrLocked)
	d.Kill()
	second, err := d.Lock("/d/lock")
	require.NoError(t, err, "a lock dies with its process")
	require.NoError(t, lock.Close())
	_, err = d.Lock("/d/lock")
	require.ErrorIs(t, err, env.ErrLocked, "the dead one's Close does not free the living one's")
	require.NoError(t, second.Close())
	_, err = d.Lock("/d/lock")
	require.NoError(t, err)
}

func TestTheSameSeedLosesTheSame(t *testing.T) {
	run := func() string {
		d, f := diskWith(t)
		for i := range 40 {
			_, err := f.WriteAt([]byte{byte(i + 1)}, int64(i)*SectorBytes)
			require.NoError(t, err)
		}
		d.Crash(rng(3))
		d.Reboot()
		return content(t, d, "/d/a")
	}
	for range 5 {
		require.Equal(t, run(), run())
	}
}
