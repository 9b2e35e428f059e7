package txnlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

// recorder notes what is written to files.
type recorder struct {
	env.Disk
	copies bool
	wrote  [][2]int64 // offset, length
}

func (r *recorder) InPlace(path string) bool { return !r.copies && r.Disk.InPlace(path) }

type recordedFile struct {
	env.File
	to *recorder
}

func (r *recorder) Create(path string) (env.File, error) { return r.wrap(r.Disk.Create(path)) }
func (r *recorder) Open(path string) (env.File, error)   { return r.wrap(r.Disk.Open(path)) }

func (r *recorder) wrap(f env.File, err error) (env.File, error) {
	if err != nil {
		return nil, err
	}
	return recordedFile{f, r}, nil
}

func (f recordedFile) WriteAt(b []byte, off int64) (int, error) {
	f.to.wrote = append(f.to.wrote, [2]int64{off, int64(len(b))})
	return f.File.WriteAt(b, off)
}

// A small batch behind other small ones that reaches untouched space writes zeros behind itself, once for all that fit into them; a large
// one does not, nor do the next ones, and nobody writes past the segment's end.
func TestWritesAhead(t *testing.T) {
	const size = 256 * sector // of a segment; a sixteenth of it is written ahead
	disk := &recorder{Disk: newDisk()}
	cfg := txnlog.Config{Disk: disk, Dir: dir, SegmentBytes: size}
	l, _, err := txnlog.Open(cfg, txnlog.Start{Generation: 1}, func(txn.Record, bool) error { return nil })
	require.NoError(t, err)
	var h history
	at := int64(sector)
	disk.wrote = nil
	appends := func(bytes int, want int64) {
		t.Helper()
		disk.wrote = nil
		require.NoError(t, l.Append(h.make(1, bytes, 1), 0))
		require.Equal(t, [][2]int64{{at, want}}, disk.wrote)
		at += (int64(bytes) + sector) / sector * sector
	}
	fewSmall := func() {
		for range 7 {
			appends(100, sector)
		}
	}
	fewSmall()
	for range 2 {
		appends(100, 17*sector)
		for range 16 {
			appends(100, sector)
		}
	}
	appends(70_000, 18*sector) // large
	fewSmall()
	appends(100, 17*sector)
	appends(60_000, 15*sector) // within
	appends(60_000, 31*sector)
	for at < size-3*sector {
		disk.wrote = nil
		require.NoError(t, l.Append(h.make(1, 100, 1), 0))
		require.LessOrEqual(t, disk.wrote[0][0]+disk.wrote[0][1], int64(size))
		at += sector
	}
	require.NoError(t, l.Close())
	read := 0
	l, _, err = txnlog.Open(cfg, txnlog.Start{Generation: 1}, func(txn.Record, bool) error { read++; return nil })
	require.NoError(t, err)
	require.Equal(t, len(h.recs), read)
	end, _ := l.End()
	want, _ := h.end()
	require.Equal(t, want, end, "zeros behind the last batch are no batch")
	require.NoError(t, l.Close())
}

func TestWritesNothingAheadWhereItCopies(t *testing.T) {
	disk := &recorder{Disk: newDisk(), copies: true}
	l, _, err := txnlog.Open(txnlog.Config{Disk: disk, Dir: dir, SegmentBytes: 32 * sector}, txnlog.Start{Generation: 1},
		func(txn.Record, bool) error { return nil })
	require.NoError(t, err)
	var h history
	for range 100 { // several segments
		disk.wrote = nil
		require.NoError(t, l.Append(h.make(1, 100, 1), 0))
		require.EqualValues(t, sector, disk.wrote[len(disk.wrote)-1][1])
	}
	require.NoError(t, l.Close())
}
