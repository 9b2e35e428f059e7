package peer_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
	"github.com/zkd-project/zkd/zab"
)

func folder() string { return filepath.Join(dataDir, "zkd") }

func (w *world) names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := w.d.List(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out
}

// setAside lists what lies in the sub-folders for damaged files.
func (w *world) setAside(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, name := range w.names(t, dir) {
		if strings.HasPrefix(name, "damaged.") {
			out = append(out, w.names(t, filepath.Join(dir, name))...)
		}
	}
	slices.Sort(out)
	return out
}

func put(t *testing.T, d *simdisk.Disk, path string) {
	t.Helper()
	require.NoError(t, d.MkdirAll(filepath.Dir(path)))
	f, err := d.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func promised(epoch int) zab.HardState {
	return zab.HardState{ClusterID: 5, Accepted: txn.Epoch(epoch), AcceptedLeader: 1, Current: txn.Epoch(epoch)}
}

// grown is a server with three snapshots behind it, of which two are kept, and records behind the last.
func grown(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.mustOpen(t)
	require.NoError(t, w.save(promised(1)))
	require.NoError(t, w.s.Initialize(5))
	for i := 1; i <= 3; i++ {
		require.NoError(t, w.write(1, 30, z(1, 30*i-30)))
		require.NoError(t, w.write(1, 10, z(1, 40*i-10)))
		require.NoError(t, w.snapshot(z(1, 40*i-15)))
	}
	require.NoError(t, w.write(1, 5, z(1, 122)))
	return w
}

func (w *world) corrupt(t *testing.T, name string, off int64) {
	t.Helper()
	require.NoError(t, w.d.Corrupt(filepath.Join(folder(), name), off, 8))
}

func TestFreshUntilSomethingIsPromised(t *testing.T) {
	w := newWorld()
	rec := w.mustOpen(t)
	require.True(t, rec.Fresh)
	require.False(t, rec.Vouched)
	require.False(t, rec.Hard.Recovering)
	require.False(t, rec.Initialized)
	require.NotZero(t, rec.Directory)
	directory := rec.Directory
	for boot := uint64(2); boot < 5; boot++ {
		rec = w.restart(t)
		require.True(t, rec.Fresh, "a restart promises nothing")
		require.Equal(t, boot, rec.Boot)
		require.Equal(t, directory, rec.Directory)
	}
	require.NoError(t, w.save(zab.HardState{ClusterID: 5, Accepted: 1, AcceptedLeader: 1}))
	rec = w.restart(t)
	require.False(t, rec.Fresh)
	require.False(t, rec.Hard.Recovering)
	require.Equal(t, w.hard, rec.Hard)
}

func TestVouchedUntilSomethingIsPromised(t *testing.T) {
	w := newWorld()
	put(t, w.d, filepath.Join(dataDir, "initialize"))
	require.True(t, w.mustOpen(t).Vouched)
	require.NotContains(t, w.names(t, dataDir), "initialize")
	rec := w.restart(t)
	require.True(t, rec.Fresh)
	require.True(t, rec.Vouched, "the marker is gone, the operator's word is not")
	require.NoError(t, w.save(zab.HardState{Accepted: 1, AcceptedLeader: 1}))
	require.False(t, w.restart(t).Vouched)
}

// The marker speaks for an empty member, not for one that has lost its memory.
func TestMarkerDoesNotHealRecovering(t *testing.T) {
	w := grown(t)
	require.NoError(t, w.d.Remove(filepath.Join(folder(), "hardstate")))
	put(t, w.d, filepath.Join(dataDir, "initialize"))
	rec := w.restart(t)
	require.True(t, rec.Hard.Recovering)
	require.False(t, rec.Vouched)
	require.NotContains(t, w.names(t, dataDir), "initialize")
}

func TestForeignFoldersAreRefused(t *testing.T) {
	w := newWorld()
	put(t, w.d, filepath.Join(dataDir, "version-2", "log.1"))
	err := w.open()
	require.Equal(t, zab.ExitWrongCluster, exitCode(t, err))
	require.ErrorContains(t, err, "zkcli cp")
	require.NotContains(t, w.names(t, dataDir), "zkd")

	require.NoError(t, w.d.MkdirAll(folder()))
	w.mustOpen(t) // imported: both are there

	w.d.Kill()
	w.cfg.Self = 2
	err = w.open()
	require.Equal(t, zab.ExitWrongCluster, exitCode(t, err))
	require.ErrorContains(t, err, "myid")
}

func TestLogFolderOfApacheIsRefused(t *testing.T) {
	w := newWorld()
	w.cfg.LogDir = "/logs"
	put(t, w.d, "/logs/version-2/log.1")
	require.Equal(t, zab.ExitWrongCluster, exitCode(t, w.open()))
}

func TestAFolderHasOneProcess(t *testing.T) {
	for _, logDir := range []string{"", "/logs"} {
		w := newWorld()
		w.cfg.LogDir = logDir
		w.mustOpen(t)
		second := *w
		if logDir != "" {
			second.cfg.DataDir = "/other" // only the log's folder is shared
		}
		err := second.open()
		require.Equal(t, zab.ExitWrongCluster, exitCode(t, err))
		require.ErrorContains(t, err, "another process")
		require.NoError(t, w.s.Close(true))
		second.mustOpen(t)
	}
}

func TestOtherClusterIsRefused(t *testing.T) {
	w := grown(t)
	err := w.s.Initialize(6)
	require.Equal(t, zab.ExitWrongCluster, exitCode(t, err))
	rec := w.restart(t)
	require.True(t, rec.Initialized)
	require.NoError(t, w.s.Initialize(5))
}

func TestSnapshotAndLogBringEverythingBack(t *testing.T) {
	for _, logDir := range []string{"", "/logs"} {
		w := newWorld()
		w.cfg.LogDir = logDir
		w.mustOpen(t)
		require.NoError(t, w.save(promised(1)))
		require.NoError(t, w.write(1, 20, z(1, 5)))
		require.NoError(t, w.snapshot(z(1, 10)))
		require.NoError(t, w.write(1, 4, z(1, 15)))
		for _, clean := range []bool{false, true} {
			require.NoError(t, w.s.Close(clean))
			rec := w.mustOpen(t)
			require.Equal(t, w.zxids(), w.found())
			require.Equal(t, z(1, 10), rec.SnapshotAt.Zxid)
			require.Equal(t, w.hist[9], rec.SnapshotAt)
			require.Equal(t, w.hist[14], rec.Applied)
			require.Len(t, rec.Tail, 9)
			require.Equal(t, w.end(), rec.End)
			require.Equal(t, txn.Zxid(7), rec.ConfigVersion)
			require.Equal(t, zab.EpochTable{Whole: true, Ends: []zab.EpochEnd{{Epoch: 1, Last: w.hist[14].Zxid, Chain: w.hist[14].Chain}}}, rec.Table)
			require.Empty(t, rec.Notes)
		}
	}
}

func TestPurgeKeepsTwoSnapshotsAndTheirLog(t *testing.T) {
	w := grown(t)
	require.Equal(t, []string{snapshot.Name(z(1, 65)), snapshot.Name(z(1, 105))}, w.snapshotNames(t))
	_, err := w.s.ReadAfter(z(1, 65), 1)
	require.NoError(t, err)
	_, err = w.s.ReadAfter(0, 1)
	require.ErrorIs(t, err, txnlog.ErrPurged)
	rec := w.restart(t)
	require.Equal(t, w.zxids(), w.found())
	require.Greater(t, rec.Base.Zxid, z(1, 0))
	require.LessOrEqual(t, rec.Base.Zxid, z(1, 65))
}

func (w *world) snapshotNames(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(w.names(t, folder()), func(name string) bool { return !strings.HasPrefix(name, "snap.") })
}

// finish is snapshot without the sweep behind it.
func (w *world) finish(t *testing.T, at txn.Zxid) {
	t.Helper()
	sw, err := w.begin(at)
	require.NoError(t, err)
	_, err = w.s.FinishSnapshot(sw)
	require.NoError(t, err)
}

// What a snapshot lets go of is deleted beside the writer, whenever that is.
func TestSweepDeletesWhatWasLetGo(t *testing.T) {
	letGo := func(t *testing.T) (w *world, all []string) {
		w = newWorld()
		w.mustOpen(t)
		for i := 1; i <= 4; i++ {
			require.NoError(t, w.write(1, 40, 0))
			all = append(all, snapshot.Name(z(1, 40*i)))
			w.finish(t, z(1, 40*i))
		}
		require.Equal(t, all, w.snapshotNames(t), "nothing was deleted")
		_, err := w.s.ReadAfter(0, 1)
		require.ErrorIs(t, err, txnlog.ErrPurged, "but it does not count any more")
		return w, all
	}

	t.Run("one by one", func(t *testing.T) {
		w, all := letGo(t)
		for i, want := range [][]string{{all[0], all[2], all[3]}, all[2:]} {
			more, err := w.s.Sweep()
			require.NoError(t, err)
			require.True(t, more)
			require.Equal(t, want, w.snapshotNames(t), "sweep %d", i)
		}
		before := len(w.names(t, folder()))
		require.NoError(t, w.sweep())
		require.Less(t, len(w.names(t, folder())), before, "log goes too")
		require.NoError(t, w.write(1, 5, 0))
		w.restart(t)
		require.Equal(t, w.zxids(), w.found())
	})

	t.Run("at the next start", func(t *testing.T) {
		w, all := letGo(t)
		rec := w.restart(t)
		require.Equal(t, all[2:], w.snapshotNames(t))
		require.Zero(t, rec.Base.Zxid, "the log is as long as its files")
		require.Equal(t, w.zxids(), w.found())
	})

	t.Run("not when it is closed", func(t *testing.T) {
		w, all := letGo(t)
		require.NoError(t, w.s.Close(true))
		require.NoError(t, w.sweep())
		require.Equal(t, all, w.snapshotNames(t))
	})

	t.Run("not the file of that name that is received", func(t *testing.T) {
		in := leaderSnapshot(t)
		w := newWorld()
		w.mustOpen(t)
		require.NoError(t, w.write(1, 15, 0))
		require.NoError(t, w.write(5, 4, 0))
		w.finish(t, in.begin.At.Zxid)
		for i := 1; i <= 2; i++ {
			require.NoError(t, w.write(5, 4, 0))
			w.finish(t, z(5, 4+4*i))
		}
		require.NoError(t, w.install(in))
		require.NoError(t, w.sweep())
		require.Equal(t, []string{snapshot.Name(in.begin.At.Zxid)}, w.snapshotNames(t))
		w.restart(t)
		require.Equal(t, w.zxids(), w.found())
	})

	t.Run("a disk that fails ends the process", func(t *testing.T) {
		w, _ := letGo(t)
		w.d.FailAt(w.d.Steps()+1, syscall.EIO)
		_, err := w.s.Sweep()
		require.Equal(t, zab.ExitDisk, exitCode(t, err))
		steps := w.d.Steps()
		require.ErrorIs(t, w.write(1, 1, 0), syscall.EIO, "the writer stops at once, not when it is told")
		require.Equal(t, steps, w.d.Steps())
		require.Equal(t, zab.ExitDisk, exitCode(t, w.s.Close(true)), "and no stop is a clean one")
	})
}

// A cut reads the log up to where it ends then. Damage that it meets there is the disk's, not a fault of zkd.
func TestACutThatMeetsDamage(t *testing.T) {
	w := grown(t)
	segments := slices.DeleteFunc(w.names(t, folder()), func(name string) bool { return !strings.HasPrefix(name, "log.") })
	w.corrupt(t, segments[len(segments)-1], 4096+100)
	w.hist = w.hist[:len(w.hist)-1]
	err := w.s.Truncate(w.end())
	require.Equal(t, zab.ExitDisk, exitCode(t, err))
	var damage *txnlog.CorruptError
	require.ErrorAs(t, err, &damage)
	require.NotContains(t, err.Error(), "fault in zkd")
}

// As long as there are fewer snapshots than are to be kept, the whole log is what a damaged one falls back to.
func TestFirstSnapshotPurgesNothing(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	for range 4 {
		require.NoError(t, w.write(1, 30, 0))
	}
	require.NoError(t, w.snapshot(z(1, 100)))
	_, err := w.s.ReadAfter(0, 1)
	require.NoError(t, err)
	w.corrupt(t, snapshot.Name(z(1, 100)), 50)
	require.False(t, w.restart(t).Hard.Recovering)
	require.Equal(t, w.zxids(), w.found())
}

func TestLogIsKeptForDiff(t *testing.T) {
	w := newWorld()
	w.cfg.RetainLogBytes = 1 << 30
	w.mustOpen(t)
	for i := 1; i <= 4; i++ {
		require.NoError(t, w.write(1, 40, 0))
		require.NoError(t, w.snapshot(z(1, 40*i)))
	}
	_, err := w.s.ReadAfter(0, 1)
	require.NoError(t, err)
}

// While a snapshot is on its way to a learner, it and the log behind it stay.
func TestSendingPinsSnapshotAndLog(t *testing.T) {
	w := grown(t)
	x, err := w.s.SendSnapshot()
	require.NoError(t, err)
	require.Equal(t, z(1, 105), x.Head.At.Zxid)
	for i := range 4 {
		require.NoError(t, w.write(1, 40, 0))
		require.NoError(t, w.snapshot(w.end().Zxid-1), i)
	}
	require.Contains(t, w.snapshotNames(t), snapshot.Name(z(1, 105)))
	_, err = w.s.ReadAfter(z(1, 105), 1)
	require.NoError(t, err)
	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	require.NoError(t, w.write(1, 40, 0))
	require.NoError(t, w.snapshot(w.end().Zxid-1))
	require.NotContains(t, w.snapshotNames(t), snapshot.Name(z(1, 105)))
	_, err = w.s.ReadAfter(z(1, 105), 1)
	require.ErrorIs(t, err, txnlog.ErrPurged)
}

func TestNoSnapshotToSendOrLoad(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	_, err := w.s.SendSnapshot()
	require.ErrorIs(t, err, peer.ErrNoSnapshot)
	sm := &state{zxids: []txn.Zxid{9}}
	_, err = w.s.Load(sm)
	require.ErrorIs(t, err, peer.ErrNoSnapshot)
	require.Empty(t, sm.zxids)
}

// A damaged newest snapshot is passed over: the one before it and the log give the same history.
func TestDamagedSnapshotFallsBack(t *testing.T) {
	name := snapshot.Name(z(1, 105))
	for _, off := range []int64{3, 30, 100, 400, -5} {
		w := grown(t)
		if off < 0 {
			_, size, ok := w.s.Newest()
			require.True(t, ok)
			off += size
		}
		w.corrupt(t, name, off)
		rec := w.restart(t)
		require.False(t, rec.Hard.Recovering)
		require.Equal(t, z(1, 65), rec.SnapshotAt.Zxid)
		require.Equal(t, w.zxids(), w.found())
		require.Equal(t, []string{name}, w.setAside(t, folder()))
		require.NotEmpty(t, rec.Notes)
		h, _, ok := w.s.Newest()
		require.True(t, ok)
		require.Equal(t, z(1, 65), h.At.Zxid)

		require.Empty(t, w.restart(t).Notes, "said once")
		require.Equal(t, w.zxids(), w.found())
	}
}

// newerState cannot read the snapshots that are there: a newer version wrote them.
type newerState struct{ state }

func (*newerState) Restore(io.Reader) error { return zab.ErrNewerVersion }

func TestASnapshotOfANewerVersionIsNoDamage(t *testing.T) {
	w := grown(t)
	w.d.Kill()
	_, _, err := peer.OpenStorage(w.cfg, &newerState{})
	require.Equal(t, zab.ExitWrongCluster, exitCode(t, err))
	w.d.Kill()
	rec := w.mustOpen(t)
	require.Empty(t, rec.Notes, "nothing was set aside")
	require.Equal(t, z(1, 105), rec.SnapshotAt.Zxid)
	require.Equal(t, w.zxids(), w.found())
}

func TestMissingSnapshotFallsBack(t *testing.T) {
	w := grown(t)
	require.NoError(t, w.d.Remove(filepath.Join(folder(), snapshot.Name(z(1, 105)))))
	rec := w.restart(t)
	require.False(t, rec.Hard.Recovering)
	require.Equal(t, w.zxids(), w.found())
}

// recovering starts a damaged server and checks that it knows, that it stays so, that nothing was thrown away, and that it can
// be brought up again by a leader.
func (w *world) recovering(t *testing.T, in sent, left []txn.Zxid, aside []string) {
	t.Helper()
	rec := w.restart(t)
	require.True(t, rec.Hard.Recovering)
	require.NotZero(t, rec.Hard.RecoveryID)
	require.NotEmpty(t, rec.Recovering)
	require.False(t, rec.Fresh)
	require.Equal(t, left, w.found())
	w.checkAside(t, aside)
	for _, name := range w.setAside(t, folder()) {
		require.Contains(t, strings.Join(rec.Notes, "\n"), name)
	}
	id := rec.Hard.RecoveryID
	rec = w.restart(t)
	require.True(t, rec.Hard.Recovering)
	require.Equal(t, id, rec.Hard.RecoveryID, "nothing new was found")
	require.NotEmpty(t, rec.Recovering)
	require.Equal(t, left, w.found())

	require.NoError(t, w.install(in))
	require.NoError(t, w.write(5, 2, 0))
	h := promised(5)
	require.NoError(t, w.save(h))
	rec = w.restart(t)
	require.Equal(t, h, rec.Hard)
	require.Equal(t, w.zxids(), w.found())
}

// checkAside looks for files set aside whose names begin so.
func (w *world) checkAside(t *testing.T, want []string) {
	t.Helper()
	have := w.setAside(t, folder())
	for _, name := range want {
		require.True(t, slices.ContainsFunc(have, func(have string) bool { return strings.HasPrefix(have, name) }), "%s in %v", name, have)
	}
}

func (w *world) segment(t *testing.T, newest bool) string {
	t.Helper()
	names := slices.DeleteFunc(w.names(t, folder()), func(name string) bool { return !strings.HasPrefix(name, "log.") })
	if newest {
		return names[len(names)-1]
	}
	return names[0]
}

type damage struct {
	do    func(t *testing.T, w *world)
	left  []txn.Zxid
	aside []string // beginnings of names
}

// damages are what no power cut explains.
func damages(t *testing.T) map[string]damage {
	t.Helper()
	upTo := func(n int) (out []txn.Zxid) {
		for i := 1; i <= n; i++ {
			out = append(out, z(1, i))
		}
		return out
	}
	remove := func(pick func(name string) bool) func(t *testing.T, w *world) {
		return func(t *testing.T, w *world) {
			for _, name := range w.names(t, folder()) {
				if pick(name) {
					require.NoError(t, w.d.Remove(filepath.Join(folder(), name)))
				}
			}
		}
	}
	is := func(want string) func(name string) bool { return func(name string) bool { return name == want } }
	return map[string]damage{
		"hardstate wiped": {remove(is("hardstate")), upTo(125), nil},
		"hardstate rotten": {func(t *testing.T, w *world) {
			w.corrupt(t, "hardstate", 8)
			w.corrupt(t, "hardstate", 8+peer.HardStride)
		}, upTo(125), []string{"hardstate"}},
		"manifest wiped":           {remove(is("manifest")), nil, []string{"log.", "snap."}},
		"manifest rotten":          {func(t *testing.T, w *world) { w.corrupt(t, "manifest", 20) }, nil, []string{"manifest", "log.", "snap."}},
		"log rotten in the middle": {func(t *testing.T, w *world) { w.corrupt(t, w.segment(t, true), 4096+200) }, upTo(105), []string{"log."}},
		"log gone":                 {remove(func(name string) bool { return strings.HasPrefix(name, "log.") }), upTo(105), nil},
		"last segment gone":        {func(t *testing.T, w *world) { remove(is(w.segment(t, true)))(t, w) }, upTo(105), []string{"log."}},
		"snapshots rotten": {func(t *testing.T, w *world) {
			for _, name := range w.snapshotNames(t) {
				w.corrupt(t, name, 60)
			}
		}, nil, []string{"snap.", "log."}},
		"everything but hardstate wiped": {remove(func(name string) bool { return name != "hardstate" }), nil, nil},
	}
}

func TestRecovering(t *testing.T) {
	in := leaderSnapshot(t)
	for name, c := range damages(t) {
		t.Run(name, func(t *testing.T) {
			w := grown(t)
			c.do(t, w)
			w.recovering(t, in, c.left, c.aside)
		})
	}
}

// TestADivergedHistoryIsSetAside, also when the power goes off at any step of that; the promises stay.
func TestADivergedHistoryIsSetAside(t *testing.T) {
	for cut := 1; ; cut++ {
		w := grown(t)
		h := w.hard
		h.Recovering, h.RecoveryID, h.Diverged = true, 77, true
		require.NoError(t, w.save(h))
		w.d.Kill()
		w.d.CrashAt(w.d.Steps() + cut)
		if w.open() == nil {
			require.Greater(t, cut, 10)
			return
		}
		w.d.Crash(rand.New(rand.NewPCG(uint64(cut), 9)))
		w.d.Reboot()
		rec := w.mustOpen(t)
		require.Zero(t, rec.End.Zxid)
		require.Empty(t, w.found())
		require.False(t, rec.Fresh)
		h.Diverged = false
		require.Equal(t, h, rec.Hard)
		w.checkAside(t, []string{"log.", "snap."})
	}
}

// flaky is a disk that gives one byte wrong, once, in the read of a log file at which countdown comes to 0: so many sixths into it.
type flaky struct {
	*simdisk.Disk
	countdown, sixths int
}

func (d *flaky) Open(path string) (env.File, error) {
	f, err := d.Disk.Open(path)
	if err != nil || !strings.HasPrefix(filepath.Base(path), "log.") {
		return f, err
	}
	return flakyFile{f, d}, nil
}

type flakyFile struct {
	env.File
	d *flaky
}

func (f flakyFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.d.countdown--
	if f.d.countdown == 0 {
		b[n*f.d.sixths/6] ^= 4
	}
	return n, err
}

// Whichever read of the log goes wrong, the state holds the whole history or the server knows that it does not.
func TestReadErrorDuringRecovery(t *testing.T) {
	lost := 0
	for k := 6; ; k++ {
		w := grown(t)
		require.NoError(t, w.s.Confirm(0)) // without it the last batch could be a torn one
		w.d.Kill()
		d := &flaky{w.d, k / 6, k % 6}
		w.cfg.Disk = d
		rec := w.mustOpen(t)
		if d.countdown > 0 {
			require.Positive(t, lost)
			return
		}
		if rec.Hard.Recovering {
			lost++
			require.Equal(t, w.zxids()[:105], w.found(), "read %d", k)
			require.Equal(t, w.hist[104], rec.Applied)
			require.Equal(t, w.hist[104], rec.End)
		} else {
			require.Equal(t, w.zxids(), w.found(), "read %d", k)
		}
	}
}

// What was promised before the damage is still promised after it, where it can be read.
func TestRecoveringKeepsPromises(t *testing.T) {
	w := grown(t)
	w.corrupt(t, "manifest", 20)
	rec := w.restart(t)
	require.Equal(t, w.hard.Accepted, rec.Hard.Accepted)
	require.Equal(t, w.hard.Current, rec.Hard.Current)
	require.Equal(t, w.hard.ClusterID, rec.Hard.ClusterID)
}

// A second fault gets a second number: a readmission for the first does not cover it.
func TestNewDamageNewRecoveryID(t *testing.T) {
	w := grown(t)
	w.corrupt(t, w.segment(t, true), 4096+200)
	first := w.restart(t).Hard.RecoveryID
	w.corrupt(t, "manifest", 20)
	second := w.restart(t).Hard.RecoveryID
	require.NotEqual(t, first, second)
}

func TestDamagedInitializedIsSetAside(t *testing.T) {
	w := grown(t)
	w.corrupt(t, "initialized", 10)
	rec := w.restart(t)
	require.False(t, rec.Initialized)
	require.False(t, rec.Hard.Recovering)
	require.Equal(t, []string{"initialized"}, w.setAside(t, folder()))
	require.NoError(t, w.s.Initialize(5))
	require.True(t, w.restart(t).Initialized)
}

// A log that ends, as if cleanly, below what hardstate knows to have been durable has lost something.
func TestLogBelowTheWatermark(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	require.NoError(t, w.write(1, 3, 0))
	before := w.end()
	require.NoError(t, w.write(1, 3, 0))
	require.NoError(t, w.save(promised(1)))
	l, _, err := txnlog.Open(txnlog.Config{Disk: w.d, Dir: folder(), SegmentBytes: w.cfg.SegmentBytes}, txnlog.Start{Generation: 1}, nil)
	require.NoError(t, err)
	require.NoError(t, l.Truncate(before.Zxid, before.Chain))
	require.True(t, w.restart(t).Hard.Recovering)
}

// Truncate lowers the watermark first, so that a cut is not taken for a loss.
func TestTruncateIsNotALoss(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	require.NoError(t, w.write(1, 6, 0))
	require.NoError(t, w.save(promised(1)))
	require.NoError(t, w.truncate(z(1, 2)))
	require.NoError(t, w.write(2, 1, 0))
	rec := w.restart(t)
	require.False(t, rec.Hard.Recovering)
	require.Equal(t, []txn.Zxid{z(1, 1), z(1, 2), z(2, 1)}, w.found())
}

func TestTruncateTakesNewerSnapshotsAlong(t *testing.T) {
	w := grown(t)
	require.NoError(t, w.truncate(z(1, 100)))
	require.Equal(t, []string{snapshot.Name(z(1, 65))}, w.snapshotNames(t))
	h, err := w.s.Load(w.state)
	require.NoError(t, err)
	require.Equal(t, z(1, 65), h.At.Zxid)
	w.restart(t)
	require.Equal(t, w.zxids(), w.found())
}

// A cut that could not be started from, or to a place that is not in the log, is refused before anything is touched.
func TestImpossibleTruncate(t *testing.T) {
	for _, to := range []zab.Position{{Zxid: z(1, 100), Chain: 1}, {Zxid: z(1, 126)}, {Zxid: z(1, 60)}, {Zxid: z(1, 3)}, {}} {
		w := grown(t)
		if i := w.index(to.Zxid); i >= 0 && to.Chain == 0 {
			to = w.hist[i]
		}
		require.Equal(t, zab.ExitBrokenInvariant, exitCode(t, w.s.Truncate(to)), "%v", to.Zxid)
		require.False(t, w.restart(t).Hard.Recovering)
		require.Equal(t, w.zxids(), w.found())
	}
}

func TestEpochsNeverShrink(t *testing.T) {
	for _, h := range []zab.HardState{
		{Accepted: 1, Current: 2},
		{Accepted: 2, Current: 2},
		{Accepted: 3, Current: 1},
	} {
		w := newWorld()
		w.mustOpen(t)
		require.NoError(t, w.save(zab.HardState{Accepted: 3, AcceptedLeader: 1, Current: 2}))
		require.Equal(t, zab.ExitBrokenInvariant, exitCode(t, w.s.SaveHardState(h)))
	}
}

func TestGapIsABrokenInvariant(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	require.NoError(t, w.write(1, 1, 0))
	w.hist = nil
	require.Equal(t, zab.ExitBrokenInvariant, exitCode(t, w.write(1, 3, 0)))
	require.Error(t, w.s.Confirm(0))
}

func TestDiskErrorSaysWhatToDo(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	boom := errors.New("boom")
	w.d.FailAt(w.d.Steps()+1, boom)
	err := w.write(1, 1, 0)
	require.Equal(t, zab.ExitDisk, exitCode(t, err))
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, folder())
	require.Equal(t, err, w.s.SaveHardState(promised(1)), "the first cause is told again")

	w = newWorld()
	w.mustOpen(t)
	w.d.SetCapacity(1)
	err = w.write(1, 200, 0)
	require.Equal(t, zab.ExitDisk, exitCode(t, err))
	require.ErrorContains(t, err, "free space")

	w = newWorld()
	w.mustOpen(t)
	w.d.FailAt(w.d.Steps()+1, syscall.EACCES)
	require.ErrorContains(t, w.write(1, 1, 0), "let zkd read and write everything under "+folder())
}

// A snapshot of a state that the history has left meanwhile does not count (the log was cut, or another snapshot installed).
func TestSupersededSnapshots(t *testing.T) {
	in := leaderSnapshot(t)
	for name, meanwhile := range map[string]func(w *world) error{
		"cut":       func(w *world) error { return w.truncate(z(1, 110)) },
		"cut+write": func(w *world) error { return errors.Join(w.truncate(z(1, 110)), w.write(2, 30, 0)) },
		"installed": func(w *world) error { return w.install(in) },
		"older":     func(w *world) error { return w.snapshot(z(1, 124)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t)
			sw, err := w.begin(z(1, 120))
			require.NoError(t, err)
			require.NoError(t, meanwhile(w))
			_, err = w.s.FinishSnapshot(sw)
			require.ErrorIs(t, err, peer.ErrSuperseded)
			require.NotContains(t, w.snapshotNames(t), snapshot.Name(z(1, 120)))
			require.NoError(t, w.s.Confirm(0), "nothing is wrong")
			w.restart(t)
			require.Equal(t, w.zxids(), w.found())
		})
	}
}

func TestSnapshotTakenReports(t *testing.T) {
	w := grown(t)
	sw, err := w.begin(z(1, 120))
	require.NoError(t, err)
	taken, err := w.s.FinishSnapshot(sw)
	require.NoError(t, err)
	require.Equal(t, w.hist[119], taken.At)
	h, size, ok := w.s.Newest()
	require.True(t, ok)
	require.Equal(t, taken.At, h.At)
	require.Equal(t, size, taken.Size)
	_, err = w.s.ReadAfter(taken.LogBase.Zxid, 1)
	require.NoError(t, err)
}

// Failing to write a snapshot costs the snapshot, nothing else (K63).
func TestFailedSnapshotIsNotFatal(t *testing.T) {
	w := grown(t)
	w.d.SetCapacity(1)
	_, err := w.begin(z(1, 120))
	require.Error(t, err)
	w.d.SetCapacity(0)
	require.NoError(t, w.write(1, 1, 0))
}

// The sync of the folder is another matter: the manifest and the log are in it too. Were the file taken for one of the good ones, though no manifest names
// it, those that are named would go.
func TestAFolderThatIsNotSyncedForASnapshotIsFatal(t *testing.T) {
	w := grown(t)
	sw, err := w.begin(w.end().Zxid)
	require.NoError(t, err)
	w.d.FailAt(w.d.Steps()+2, syscall.EIO) // behind the rename
	_, err = w.s.FinishSnapshot(sw)
	require.ErrorIs(t, err, snapshot.ErrFolder)
	require.Equal(t, zab.ExitDisk, exitCode(t, err))
	require.Equal(t, err, w.write(1, 1, 0))
	require.Error(t, w.s.Close(true))
	w.hist = w.hist[:len(w.hist)-1]
	m, err := peer.ReadManifest(w.d, folder())
	require.NoError(t, err)
	w.restart(t)
	require.Equal(t, w.zxids(), w.found())
	require.Len(t, w.snapshotNames(t), len(m.Snapshots))
}

// Somebody may take the last byte of the disk while a snapshot is finished. Then there is no new snapshot, and the server goes on.
func TestNoSpaceToFinishASnapshot(t *testing.T) {
	w := grown(t)
	before := w.snapshotNames(t)
	newest, _, _ := w.s.Newest()
	at := w.end().Zxid
	sw, err := w.begin(at)
	require.NoError(t, err)
	w.d.SetCapacity(w.d.Used())
	_, err = w.s.FinishSnapshot(sw)
	require.ErrorIs(t, err, syscall.ENOSPC)
	var fatal *peer.StorageError
	require.False(t, errors.As(err, &fatal), "%v", err)
	require.Equal(t, before, w.snapshotNames(t))
	is, _, _ := w.s.Newest()
	require.Equal(t, newest, is)

	w.d.SetCapacity(0)
	require.NoError(t, w.write(1, 5, at))
	require.NoError(t, w.snapshot(w.end().Zxid))
	end := w.end()
	w.restart(t)
	require.Equal(t, end, w.end())
	require.NotEqual(t, before, w.snapshotNames(t))
}

func TestReceivedSnapshotIsChecked(t *testing.T) {
	in := leaderSnapshot(t)
	w := grown(t)
	for name, spoil := range map[string]func(in *sent){
		"size":     func(in *sent) { in.begin.Size++ },
		"too long": func(in *sent) { in.begin.Size-- },
		"zxid":     func(in *sent) { in.begin.At.Zxid++ },
		"chain":    func(in *sent) { in.begin.At.Chain++ },
		"bytes":    func(in *sent) { in.file[50] ^= 1 },
	} {
		bad := in
		bad.file = slices.Clone(in.file)
		spoil(&bad)
		r, err := w.receive(bad)
		require.Error(t, err, name)
		require.Error(t, w.s.InstallReceived(r), name)
		w.restart(t)
		require.Equal(t, w.zxids(), w.found(), name)
	}
}

func TestInstallReplacesEverything(t *testing.T) {
	in := leaderSnapshot(t)
	w := grown(t)
	require.NoError(t, w.install(in))
	h, err := w.s.Load(w.state)
	require.NoError(t, err)
	require.Equal(t, in.begin.At, h.At)
	require.Equal(t, in.begin.Table, h.Table)
	require.Equal(t, w.zxids(), w.state.zxids)
	require.NoError(t, w.write(5, 3, 0))
	rec := w.restart(t)
	require.Equal(t, in.begin.At, rec.Base)
	require.Equal(t, w.zxids(), w.found())
	for _, name := range w.names(t, folder()) {
		require.False(t, strings.HasPrefix(name, "log.0000000000000001."), "the old generation is gone: %s", name)
	}
}

// The log that stands behind a received snapshot is there from then on: without it something acknowledged is lost (simulator seed 0xf5316).
func TestTheLogBehindAReceivedSnapshotIsMissed(t *testing.T) {
	w := grown(t)
	require.NoError(t, w.install(leaderSnapshot(t)))
	require.NoError(t, w.write(5, 3, 0))
	require.NoError(t, w.d.Remove(filepath.Join(folder(), w.segment(t, true))))
	rec := w.restart(t)
	require.True(t, rec.Hard.Recovering)
	require.Contains(t, rec.Recovering, "missing")
}

// In RECOVERING a server takes a snapshot that is older than what it has; its own newer ones must not come back.
func TestInstallOfAnOlderSnapshot(t *testing.T) {
	old := newWorld()
	old.mustOpen(t)
	require.NoError(t, old.write(1, 20, z(1, 20)))
	require.NoError(t, old.snapshot(z(1, 20)))
	x, err := old.s.SendSnapshot()
	require.NoError(t, err)
	file := make([]byte, x.Length)
	_, err = x.ReadAt(file, 0)
	require.NoError(t, err)
	in := sent{begin: zab.SnapBegin{At: x.Head.At, Size: x.Length, Table: x.Head.Table}, file: file, hist: old.hist}

	w := grown(t)
	require.NoError(t, w.install(in))
	require.Equal(t, []string{snapshot.Name(z(1, 20))}, w.snapshotNames(t))
	w.restart(t)
	require.Equal(t, old.zxids(), w.found())
}

// The simulated disk is not the only one.
func TestOnARealDisk(t *testing.T) {
	in := leaderSnapshot(t)
	w := newWorld()
	w.cfg.Disk, w.cfg.DataDir, w.cfg.LogDir = env.OSDisk{}, filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "log")
	for _, op := range life(in) {
		require.NoError(t, op(w))
	}
	w.mustOpen(t)
	w.check(t, w.memory())
	require.NoError(t, w.s.Close(false))
	w.mustOpen(t)
	w.check(t, w.memory())
	require.NoError(t, w.s.Close(true))
}

// By its content an old copy looks healthy; the operator has to say so, and is believed for good.
func TestARestoredCopyIsRecovering(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	require.NoError(t, w.save(zab.HardState{ClusterID: 5, Accepted: 1, AcceptedLeader: 2, Current: 1}))
	require.NoError(t, w.write(1, 3, 0))
	require.NoError(t, w.s.Close(true))
	put(t, w.d, filepath.Join(dataDir, "restored"))
	rec := w.restart(t)
	require.True(t, rec.Hard.Recovering)
	require.NotZero(t, rec.Hard.RecoveryID)
	require.Contains(t, rec.Recovering, "/data/restored")
	require.Equal(t, z(1, 3), rec.End.Zxid, "it keeps what it has: the leader need not send it again")
	require.NotContains(t, w.names(t, dataDir), "restored")
	id := rec.Hard.RecoveryID
	rec = w.restart(t)
	require.True(t, rec.Hard.Recovering)
	require.Equal(t, id, rec.Hard.RecoveryID)
}

// stubborn is a state that breaks at some record, and a Starter.
type stubborn struct {
	state
	at    txn.Zxid
	calls []string
}

func (s *stubborn) Begin() { s.calls = append(s.calls, "begin") }
func (s *stubborn) Ready() { s.calls = append(s.calls, "ready") }

func (s *stubborn) Apply(recs []txn.Record) error {
	for _, r := range recs {
		if r.Zxid == s.at {
			return errors.New("it does not fit")
		}
	}
	return s.state.Apply(recs)
}

// A state that refuses a record ends the start with its error, however far the log was read ahead.
func TestAStateThatBreaksEndsTheStart(t *testing.T) {
	w := newWorld()
	w.mustOpen(t)
	require.NoError(t, w.save(zab.HardState{ClusterID: 5, Accepted: 1, AcceptedLeader: 2, Current: 1}))
	for range 20 { // many more batches than are read ahead
		require.NoError(t, w.write(1, 1000, 0))
	}
	require.NoError(t, w.s.Confirm(w.end().Zxid))
	for _, ahead := range []bool{true, false} {
		w.d.Kill()
		w.cfg.ReadAhead = ahead
		sm := &stubborn{at: w.hist[len(w.hist)/3].Zxid}
		_, _, err := peer.OpenStorage(w.cfg, sm)
		var broken *peer.StorageError
		require.ErrorAs(t, err, &broken)
		require.Equal(t, zab.ExitBrokenInvariant, broken.Code)
		require.ErrorContains(t, err, "it does not fit")
		require.Equal(t, []string{"begin"}, sm.calls)

		w.d.Kill()
		sm = &stubborn{}
		s, rec, err := peer.OpenStorage(w.cfg, sm)
		require.NoError(t, err)
		require.Equal(t, w.zxids(), sm.zxids)
		require.Equal(t, len(w.hist), rec.Replayed)
		require.Equal(t, []string{"begin", "ready"}, sm.calls)
		require.NoError(t, s.Close(false))
	}
}

// An operator with two disks must look after the right one.
func TestADiskErrorNamesTheFileThatFailed(t *testing.T) {
	for _, c := range []struct {
		do          func(w *world) error
		file, other string
	}{
		{func(w *world) error { return w.write(1, 1, 0) }, "/logs/zkd/log.", "/data"},
		{func(w *world) error { return w.save(promised(2)) }, "/data/zkd/hardstate", "/logs"},
	} {
		w := newWorld()
		w.cfg.LogDir = "/logs"
		w.mustOpen(t)
		require.NoError(t, w.save(promised(1)))
		require.NoError(t, w.write(1, 1, 0))
		w.d.FailSync(syscall.EIO)
		err := c.do(w)
		require.Equal(t, zab.ExitDisk, exitCode(t, err))
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, 1, strings.Count(err.Error(), c.file), err)
		require.NotContains(t, err.Error(), c.other)
		require.ErrorContains(t, err, "check the disk of that file")
	}
}
