package snapshot_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
)

const dir = "/data"

func newStore(t *testing.T) (*simdisk.Disk, *snapshot.Store) {
	t.Helper()
	d := simdisk.NewDisk(0)
	require.NoError(t, d.MkdirAll(dir))
	return d, reopen(t, d)
}

func reopen(t *testing.T, d *simdisk.Disk) *snapshot.Store {
	t.Helper()
	s, err := snapshot.Open(snapshot.Config{Disk: d, Dir: dir})
	require.NoError(t, err)
	return s
}

func content(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func write(t *testing.T, s *snapshot.Store, z txn.Zxid, data []byte) {
	t.Helper()
	w, err := s.Create(z)
	require.NoError(t, err)
	for part := range bytes.SplitAfterSeq(data, []byte{0}) {
		n, err := w.Write(part)
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.NoError(t, w.Commit())
}

func read(s *snapshot.Store, z txn.Zxid) ([]byte, error) {
	r, err := s.Open(z)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func zxids(t *testing.T, s *snapshot.Store) (out []txn.Zxid) {
	t.Helper()
	infos, err := s.List()
	require.NoError(t, err)
	for _, i := range infos {
		out = append(out, i.Zxid)
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 256<<10 - 1, 256 << 10, 256<<10 + 1, 700_000} {
		_, s := newStore(t)
		write(t, s, 7, content(n))
		got, err := read(s, 7)
		require.NoError(t, err, "%d bytes", n)
		require.True(t, bytes.Equal(content(n), got), "%d bytes", n)
		require.NoError(t, s.Verify(7, nil))
	}
}

func TestListIsNewestFirstAndLeavesStrangersAlone(t *testing.T) {
	d, s := newStore(t)
	strangers := []string{"snap.12", "snap.000000000000000g", "snap.0000000000000001.old", "log.1", "snap.000000000000000A"}
	for _, name := range strangers {
		_, err := d.Create(filepath.Join(dir, name))
		require.NoError(t, err)
	}
	for _, z := range []txn.Zxid{3, 1 << 33, 2} {
		write(t, s, z, content(10))
	}
	require.Equal(t, []txn.Zxid{1 << 33, 3, 2}, zxids(t, s))
	require.NoError(t, s.RemoveNewerThan(0))
	require.Empty(t, zxids(t, reopen(t, d)))
	entries, err := d.List(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(strangers))
}

func TestAnyFlippedByteIsFound(t *testing.T) {
	d, s := newStore(t)
	data := content(300_000)
	write(t, s, 5, data)
	path := filepath.Join(dir, snapshot.Name(5))
	infos, err := s.List()
	require.NoError(t, err)
	size := infos[0].Size
	offsets := []int64{size / 2}
	for i := range int64(40) { // the head and first block's head, the trailer
		offsets = append(offsets, i, size-1-i)
	}
	for _, off := range offsets {
		require.NoError(t, d.Corrupt(path, off, 0x10))
		got, err := read(s, 5)
		var damage *snapshot.CorruptError
		require.ErrorAs(t, err, &damage, "byte %d", off)
		require.True(t, bytes.HasPrefix(data, got), "byte %d: a block was handed out that is not right", off)
		require.Error(t, s.Verify(5, nil))
		require.NoError(t, d.Corrupt(path, off, 0x10))
	}
	require.NoError(t, s.Verify(5, nil))
}

func TestEveryTruncationAndExtensionIsFound(t *testing.T) {
	d, s := newStore(t)
	write(t, s, 5, content(3000))
	path := filepath.Join(dir, snapshot.Name(5))
	f, err := d.Open(path)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size+1))
	require.ErrorIs(t, s.Verify(5, nil), snapshot.ErrTooLong)
	for n := size - 1; n >= 0; n -= 7 {
		require.NoError(t, f.Truncate(n))
		require.ErrorIs(t, s.Verify(5, nil), snapshot.ErrShort, "%d bytes", n)
	}
}

func TestSnapshotOfAnotherZxidIsRefused(t *testing.T) {
	d, s := newStore(t)
	write(t, s, 5, content(10))
	require.NoError(t, d.Rename(filepath.Join(dir, snapshot.Name(5)), filepath.Join(dir, snapshot.Name(6))))
	require.ErrorIs(t, s.Verify(6, nil), snapshot.ErrHead)
}

func TestAbortLeavesNothing(t *testing.T) {
	d, s := newStore(t)
	w, err := s.Create(1)
	require.NoError(t, err)
	_, err = w.Write(content(300_000))
	require.NoError(t, err)
	w.Abort()
	_, err = w.Write([]byte("x"))
	require.ErrorIs(t, err, snapshot.ErrClosed)
	r, err := s.Receive(1)
	require.NoError(t, err)
	r.Abort()
	entries, err := d.List(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestUnfinishedFilesGoAtOpen(t *testing.T) {
	d, s := newStore(t)
	w, err := s.Create(1)
	require.NoError(t, err)
	require.NoError(t, w.Finish())
	d.Kill()
	require.Empty(t, zxids(t, reopen(t, d)))
	entries, err := d.List(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestInstallNeedsFinish(t *testing.T) {
	_, s := newStore(t)
	w, err := s.Create(1)
	require.NoError(t, err)
	require.Error(t, w.Install())
	require.Empty(t, zxids(t, s))
}

// A power cut in any step leaves no snapshot or a whole one; after Commit it is there.
func TestPowerCutAtEveryStep(t *testing.T) {
	data := content(600_000)
	for step := 1; ; step++ {
		done := false
		for seed := range uint64(6) {
			d, s := newStore(t)
			d.CrashAt(d.Steps() + step)
			w, err := s.Create(9)
			if err == nil {
				_, err = w.Write(data)
			}
			if err == nil {
				err = w.Commit()
			}
			done = err == nil
			d.Crash(rand.New(rand.NewPCG(seed, uint64(step))))
			d.Reboot()
			s = reopen(t, d)
			got, rerr := read(s, 9)
			switch {
			case rerr == nil:
				require.True(t, bytes.Equal(data, got))
			case done:
				require.NoError(t, rerr, "step %d: a committed snapshot is gone", step)
			default:
				require.ErrorIs(t, rerr, fs.ErrNotExist, "step %d", step)
			}
		}
		if done {
			return
		}
	}
}

func TestFailedSyncIsNoSnapshot(t *testing.T) {
	d, s := newStore(t)
	w, err := s.Create(9)
	require.NoError(t, err)
	_, err = w.Write(content(100))
	require.NoError(t, err)
	boom := errors.New("boom")
	d.FailAt(d.Steps()+3, boom) // block, trailer, sync
	require.ErrorIs(t, w.Commit(), boom)
	require.ErrorIs(t, w.Install(), boom)
	w.Abort()
	require.Empty(t, zxids(t, s))
}

func TestFileSentAndReceived(t *testing.T) {
	_, from := newStore(t)
	d, to := newStore(t)
	data := content(600_000)
	write(t, from, 9, data)
	raw, err := from.OpenRaw(9)
	require.NoError(t, err)
	defer raw.Close()
	send := func(length int64) (*snapshot.RawWriter, error) {
		w, err := to.Receive(9)
		require.NoError(t, err)
		_, err = io.CopyBuffer(w, io.NewSectionReader(raw, 0, length), make([]byte, 10_000))
		require.NoError(t, err)
		return w, w.Finish()
	}
	w, err := send(raw.Length - 1)
	require.ErrorIs(t, err, snapshot.ErrShort)
	require.Error(t, w.Install())
	w.Abort()

	w, err = send(raw.Length)
	require.NoError(t, err)
	require.Empty(t, zxids(t, to))
	r, err := w.Open()
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	require.NoError(t, w.Install())
	w.Abort()
	d.Crash(rand.New(rand.NewPCG(1, 1)))
	d.Reboot()
	got, err = read(reopen(t, d), 9)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

func TestPurgeCountsOnlyVerifiedOnes(t *testing.T) {
	d, s := newStore(t)
	for z := txn.Zxid(1); z <= 5; z++ {
		write(t, s, z, content(1000))
	}
	require.NoError(t, d.Corrupt(filepath.Join(dir, snapshot.Name(4)), 500, 1))
	s = reopen(t, d)
	require.NoError(t, s.Purge(2))
	require.Len(t, zxids(t, s), 5, "nothing was read, so nothing may go")
	require.NoError(t, s.Check(2))
	require.NoError(t, s.Purge(2))
	require.Equal(t, []txn.Zxid{5, 4, 3}, zxids(t, s))
}

func TestPurgeLeavesWhatIsBeingSent(t *testing.T) {
	_, s := newStore(t)
	for z := txn.Zxid(1); z <= 4; z++ {
		write(t, s, z, content(1000))
	}
	raw, err := s.OpenRaw(2)
	require.NoError(t, err)
	require.NoError(t, s.Purge(1))
	require.Equal(t, []txn.Zxid{4, 2}, zxids(t, s))
	require.NoError(t, raw.Close())
	require.NoError(t, raw.Close())
	require.NoError(t, s.Purge(1))
	require.Equal(t, []txn.Zxid{4}, zxids(t, s))
}

// Cut in the middle, the newer ones are gone first.
func TestRemoveNewerThanRemovesTheNewestFirst(t *testing.T) {
	for step := 1; step <= 3; step++ {
		d, s := newStore(t)
		for z := txn.Zxid(1); z <= 4; z++ {
			write(t, s, z, content(100))
		}
		boom := errors.New("boom")
		d.FailAt(d.Steps()+step, boom)
		require.ErrorIs(t, s.RemoveNewerThan(1), boom)
		require.Equal(t, []txn.Zxid{4, 3, 2, 1}[step-1:], zxids(t, s))
	}
}

// hoard notes how much of a file ever waited for a sync.
type hoard struct {
	env.Disk
	most int64
}

type hoarded struct {
	env.File
	of      *hoard
	waiting int64
}

func (h *hoard) Create(path string) (env.File, error) {
	f, err := h.Disk.Create(path)
	return &hoarded{File: f, of: h}, err
}

func (f *hoarded) WriteAt(b []byte, off int64) (int, error) {
	f.waiting += int64(len(b))
	f.of.most = max(f.of.most, f.waiting)
	return f.File.WriteAt(b, off)
}

func (f *hoarded) Sync() error {
	f.waiting = 0
	return f.File.Sync()
}

// The log's sync waits behind what a snapshot has left in the page cache: never much.
func TestLittleWaitsForASync(t *testing.T) {
	disk := &hoard{Disk: simdisk.NewDisk(0)}
	require.NoError(t, disk.MkdirAll(dir))
	s, err := snapshot.Open(snapshot.Config{Disk: disk, Dir: dir})
	require.NoError(t, err)
	write(t, s, 7, content(10<<20))
	require.Less(t, disk.most, int64(3<<20))
	require.Greater(t, disk.most, int64(1<<20))
	got, err := read(s, 7)
	require.NoError(t, err)
	require.Len(t, got, 10<<20)
}

func TestPaceSeesEveryBlockWrittenReadBackAndJudged(t *testing.T) {
	d := simdisk.NewDisk(0)
	require.NoError(t, d.MkdirAll(dir))
	sum := 0
	open := func() *snapshot.Store {
		s, err := snapshot.Open(snapshot.Config{Disk: d, Dir: dir, Pace: func(n int) { sum += n }})
		require.NoError(t, err)
		return s
	}
	s := open()
	write(t, s, 1, content(600_000))
	require.Equal(t, 2*(600_000+3*8), sum)
	require.NoError(t, s.Check(1))
	require.Equal(t, 2*(600_000+3*8), sum, "it is known")
	require.NoError(t, open().Check(1))
	require.Equal(t, 3*(600_000+3*8), sum, "after a start it has to be read")
}

// A process that ends gives up what may take long, and has no opinion about what it had not read through.
func TestStoppedEndsWritingAndReadingThrough(t *testing.T) {
	d := simdisk.NewDisk(0)
	require.NoError(t, d.MkdirAll(dir))
	var stopped error
	s, err := snapshot.Open(snapshot.Config{Disk: d, Dir: dir, Stopped: func() error { return stopped }})
	require.NoError(t, err)
	write(t, s, 1, content(600_000))

	begin := func() *snapshot.Writer {
		stopped = nil
		w, err := s.Create(2)
		require.NoError(t, err)
		return w
	}
	end := errors.New("the process ends")
	w := begin()
	stopped = end
	_, err = w.Write(content(3 << 20))
	require.ErrorIs(t, err, end)
	w.Abort()

	w = begin()
	_, err = w.Write(content(10))
	require.NoError(t, err)
	stopped = end
	require.ErrorIs(t, w.Finish(), end)
	require.ErrorIs(t, w.Install(), end)
	w.Abort()

	stopped = nil
	s, err = snapshot.Open(snapshot.Config{Disk: d, Dir: dir, Stopped: func() error { return stopped }})
	require.NoError(t, err)
	stopped = end
	require.ErrorIs(t, s.Check(1), end)
	_, drop, err := s.Retain(1)
	require.NoError(t, err)
	require.Empty(t, drop)
	infos, err := s.List()
	require.NoError(t, err)
	require.Len(t, infos, 1)
	stopped = nil
	require.NoError(t, s.Verify(1, nil))
}

func FuzzReader(f *testing.F) {
	d := simdisk.NewDisk(0)
	require.NoError(f, d.MkdirAll(dir))
	s, err := snapshot.Open(snapshot.Config{Disk: d, Dir: dir})
	require.NoError(f, err)
	for i, n := range []int{0, 10, 5000} {
		w, err := s.Create(txn.Zxid(i))
		require.NoError(f, err)
		_, err = w.Write(content(n))
		require.NoError(f, err)
		require.NoError(f, w.Commit())
		raw, err := s.OpenRaw(txn.Zxid(i))
		require.NoError(f, err)
		b, err := io.ReadAll(io.NewSectionReader(raw, 0, raw.Length))
		require.NoError(f, err)
		f.Add(uint64(i), b, uint16(3))
	}
	f.Fuzz(func(t *testing.T, z uint64, file []byte, flip uint16) {
		_, s := newStore(t)
		w, err := s.Receive(txn.Zxid(z))
		require.NoError(t, err)
		_, err = w.Write(file)
		require.NoError(t, err)
		if err := w.Finish(); err != nil {
			var damage *snapshot.CorruptError
			require.ErrorAs(t, err, &damage)
			return
		}
		// What passes is what a Writer would have written; and with any bit changed it does not pass.
		require.NoError(t, w.Install())
		data, err := read(s, txn.Zxid(z))
		require.NoError(t, err)
		bad := bytes.Clone(file)
		bad[int(flip)%len(bad)] ^= 1
		w, err = s.Receive(txn.Zxid(z))
		require.NoError(t, err)
		_, err = w.Write(bad)
		require.NoError(t, err)
		require.Error(t, w.Finish())
		require.LessOrEqual(t, len(data), len(file))
	})
}
