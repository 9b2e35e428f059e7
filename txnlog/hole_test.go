package txnlog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

// What nobody wrote is stepped over without reading it, where the file system tells; a batch behind it is found all the same, and so is garbage.
func TestABatchBehindAHole(t *testing.T) {
	const segment = 4 << 20
	folder := t.TempDir()
	cfg := txnlog.Config{Disk: env.OSDisk{}, Dir: folder, SegmentBytes: segment, ClusterID: 7}
	h := &history{}
	l, _, err := txnlog.Open(cfg, txnlog.Start{Generation: 1}, nil)
	require.NoError(t, err)
	for range 300 {
		require.NoError(t, l.Append(h.make(1, 5000, 1), 0))
	}
	require.NoError(t, l.Close())
	names, err := filepath.Glob(filepath.Join(folder, "log.*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	whole, err := os.ReadFile(names[0])
	require.NoError(t, err)
	const batch = 2 * sector
	open := func(parts map[int]int) (txnlog.Report, error) { // a file that has nothing but these parts of the whole
		require.NoError(t, os.Remove(names[0]))
		f, err := os.Create(names[0])
		require.NoError(t, err)
		require.NoError(t, f.Truncate(segment))
		for from, to := range parts {
			_, err := f.WriteAt(whole[from:to], int64(from))
			require.NoError(t, err)
		}
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		l, rep, err := txnlog.Open(cfg, txnlog.Start{Generation: 1, Existed: true}, func(txn.Record, bool) error { return nil })
		if err == nil {
			require.NoError(t, l.Close())
		}
		return rep, err
	}

	rep, err := open(map[int]int{0: sector + 300*batch})
	require.NoError(t, err)
	require.Zero(t, rep.CutBytes)
	rep, err = open(map[int]int{0: sector + 10*batch})
	require.NoError(t, err)
	require.Zero(t, rep.CutBytes)
	var damage *txnlog.CorruptError
	_, err = open(map[int]int{0: sector + 10*batch, sector + 250*batch: sector + 251*batch})
	require.ErrorAs(t, err, &damage)
	require.EqualValues(t, sector+10*batch, damage.Offset)
	rep, err = open(map[int]int{0: sector + 10*batch, sector + 250*batch + 700: sector + 250*batch + 900}) // the middle of a batch
	require.NoError(t, err)
	require.EqualValues(t, 240*batch+900, rep.CutBytes)
}
