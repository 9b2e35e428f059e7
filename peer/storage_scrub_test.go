package peer_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/snapshot"
)

// scrubbed is a server with snapshots at 1:6 and 1:20 and a dozen segments up to 1:40.
func scrubbed(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.cfg.RetainLogBytes = 1 << 30
	w.mustOpen(t)
	for i := range 40 {
		require.NoError(t, w.write(1, 1, z(1, i)))
		if i == 5 || i == 19 {
			require.NoError(t, w.snapshot(z(1, i+1)))
		}
	}
	found, err := w.s.Scrub(nil)
	require.NoError(t, err)
	require.Empty(t, found)
	return w
}

// segments are the paths of the log, oldest first.
func (w *world) segments(t *testing.T) (out []string) {
	t.Helper()
	entries, err := w.d.List("/data/zkd")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "log.") {
			out = append(out, "/data/zkd/"+e.Name)
		}
	}
	return out
}

// scrub finds the one damage that was done, and asks once for its repair.
func (w *world) scrub(t *testing.T, path string) (left bool) {
	t.Helper()
	require.NoError(t, w.d.Corrupt(path, 4096/2, 0x20)) // in the fill of a segment's header sector …
	if strings.Contains(path, "log.") {
		require.NoError(t, w.d.Corrupt(path, 4096+50, 0x20)) // … and in its first batch
	} else {
		require.NoError(t, w.d.Corrupt(path, 40, 0x20))
	}
	found, err := w.s.Scrub(nil)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, path, found[0].File)
	require.Contains(t, found[0].String(), path+" at ")
	again, err := w.s.Scrub(nil)
	require.NoError(t, err)
	require.Empty(t, again, "it is told once")
	require.Len(t, w.s.Condemned(), 1)
	taken, _, left, err := w.s.SetDamagedAside()
	require.NoError(t, err)
	if !left {
		require.Empty(t, w.s.Condemned())
		require.Equal(t, z(1, 20), taken.At.Zxid)
	}
	return left
}

// requireSound restarts the server: nothing is lost, and it does not think so.
func (w *world) requireSound(t *testing.T, pieces int) {
	t.Helper()
	require.Empty(t, w.s.Condemned())
	rec := w.restart(t)
	require.False(t, rec.Hard.Recovering, rec.Recovering)
	require.Equal(t, w.zxids(), w.found())
	entries, err := w.d.List("/data/zkd")
	require.NoError(t, err)
	aside := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "damaged.") {
			files, err := w.d.List("/data/zkd/" + e.Name)
			require.NoError(t, err)
			aside += len(files)
		}
	}
	require.Equal(t, pieces, aside)
}

func TestARottenSegmentThatASnapshotCoversIsSetAside(t *testing.T) {
	w := scrubbed(t)
	segs := w.segments(t)
	require.Greater(t, len(segs), 6)
	require.False(t, w.scrub(t, segs[2]))
	require.Equal(t, segs[3:], w.segments(t), "and what was before it is of no use")
	w.requireSound(t, 1)
	require.Greater(t, w.rec.Base.Zxid, z(1, 1))
}

func TestARottenSegmentThatNoSnapshotCoversWaitsForOne(t *testing.T) {
	w := scrubbed(t)
	segs := w.segments(t)
	bad := segs[len(segs)-2]
	require.True(t, w.scrub(t, bad))
	require.Equal(t, segs, w.segments(t))
	require.NoError(t, w.snapshot(z(1, 40)))
	_, notes, left, err := w.s.SetDamagedAside()
	require.NoError(t, err)
	require.False(t, left)
	require.Len(t, notes, 1)
	w.requireSound(t, 1)
}

func TestARottenOldSnapshotIsSetAside(t *testing.T) {
	w := scrubbed(t)
	require.False(t, w.scrub(t, "/data/zkd/"+snapshot.Name(z(1, 6))))
	w.requireSound(t, 1)
}

func TestARottenNewestSnapshotIsWrittenAnewAtTheSamePlaceOrLater(t *testing.T) {
	for _, at := range []int{20, 40} {
		w := scrubbed(t)
		require.True(t, w.scrub(t, "/data/zkd/"+snapshot.Name(z(1, 20))))
		x, err := w.s.SendSnapshot()
		require.NoError(t, err)
		_, err = x.Check(nil)
		require.Error(t, err, "it is sent to nobody")
		require.NoError(t, x.Close())
		require.NoError(t, w.snapshot(z(1, at)))
		_, _, left, err := w.s.SetDamagedAside()
		require.NoError(t, err)
		require.False(t, left)
		w.requireSound(t, map[int]int{20: 0, 40: 1}[at])
		require.Equal(t, z(1, at), w.rec.SnapshotAt.Zxid)
	}
}

// Between the finding and the repair a crash is met by what the next start finds.
func TestPowerCutsWhileDamageIsSetAside(t *testing.T) {
	for cut := 1; ; cut++ {
		w := scrubbed(t)
		bad := w.segments(t)[2]
		require.NoError(t, w.d.Corrupt(bad, 4096+50, 0x20))
		_, err := w.s.Scrub(nil)
		require.NoError(t, err)
		w.d.CrashAt(w.d.Steps() + cut)
		_, _, _, err = w.s.SetDamagedAside()
		w.d.Crash(rand.New(rand.NewPCG(uint64(cut), 1)))
		w.d.Reboot()
		rec := w.mustOpen(t)
		require.False(t, rec.Hard.Recovering, rec.Recovering)
		require.Equal(t, w.zxids(), w.found())
		if err == nil {
			require.Greater(t, cut, 3)
			return
		}
	}
}
