package txnlog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/txn"
)

// A segment that was made anew is read back: every byte that counts, and that it ends where the one before it did.
func TestCopyIsReadBack(t *testing.T) {
	d := simdisk.NewDisk(0)
	l, _, err := Open(Config{Disk: d, Dir: "/data", SegmentBytes: 8 * sectorBytes}, Start{Generation: 1}, nil)
	require.NoError(t, err)
	end, chain := l.End()
	next := txn.MakeZxid(1, 1)
	for range 3 {
		draft := txn.NewDraft(&txn.Txn{Body: &txn.SetData{Path: "/x", Data: make([]byte, 100)}}, &txn.Request{})
		rec := draft.Seal(next, end, chain)
		end, chain, next = rec.Zxid, rec.Chain, next+1
		require.NoError(t, l.Append([]txn.Record{rec}, end))
	}
	seg := l.active()
	require.NoError(t, l.checkCopy(seg, l.crc))
	var damage *CorruptError
	require.ErrorAs(t, l.checkCopy(seg, l.crc+1), &damage, "another end")

	f, err := d.Open(seg.path)
	require.NoError(t, err)
	defer f.Close()
	var b [1]byte
	for _, at := range []int64{sectorBytes, sectorBytes + batchHeaderBytes + 50, 3*sectorBytes + 90} {
		_, err = f.ReadAt(b[:], at)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
		require.NoError(t, err)
		require.ErrorAs(t, l.checkCopy(seg, l.crc), &damage, "byte %d", at)
		_, err = f.WriteAt(b[:], at)
		require.NoError(t, err)
	}
	require.NoError(t, l.checkCopy(seg, l.crc))
	seg.end -= sectorBytes
	require.ErrorAs(t, l.checkCopy(seg, l.crc), &damage, "a batch is missing")
}

// Records come as soon as a hint covers them, those that none covers at the end, and each once.
func TestReplayGivesWhatHintsCover(t *testing.T) {
	var got []txn.Zxid
	var sure []bool
	p := replay{base: 2, each: func(rec txn.Record, committed bool) error {
		got, sure = append(got, rec.Zxid), append(sure, committed)
		return nil
	}}
	recs := func(zxids ...txn.Zxid) (out []txn.Record) {
		for _, z := range zxids {
			out = append(out, txn.Record{Zxid: z})
		}
		return out
	}
	require.NoError(t, p.batch(recs(1, 2), 2))
	require.Empty(t, got, "the snapshot has them")
	require.NoError(t, p.batch(recs(3, 4), 3))
	require.Equal(t, []txn.Zxid{3}, got)
	require.NoError(t, p.batch(nil, 3))
	require.NoError(t, p.batch(recs(5, 6, 7), 5))
	require.Equal(t, []txn.Zxid{3, 4, 5}, got)
	require.NoError(t, p.end())
	require.NoError(t, p.end())
	require.Equal(t, []txn.Zxid{3, 4, 5, 6, 7}, got)
	require.Equal(t, []bool{true, true, true, false, false}, sure)
}

// With Transient, records are whole while each has them, whatever waits meanwhile, and their memory is used again.
func TestTransientRecordsAreWholeUntilEachReturns(t *testing.T) {
	var got []string
	p := replay{transient: true, each: func(rec txn.Record, _ bool) error {
		got = append(got, string(rec.Bytes))
		return nil
	}}
	var want []string
	text := func(z txn.Zxid) string { return strings.Repeat(fmt.Sprintf("%d.", z), 1+int(z%7)) }
	z := txn.Zxid(0)
	for round := range 50 {
		var recs []txn.Record
		for range 1 + round%5 {
			z++
			recs = append(recs, txn.Record{Zxid: z, Bytes: []byte(text(z))})
			want = append(want, text(z))
		}
		require.NoError(t, p.batch(recs, z-txn.Zxid(round%4)))
		for i := range recs {
			clear(recs[i].Bytes)
		}
	}
	require.NoError(t, p.end())
	require.Equal(t, want, got)
	require.LessOrEqual(t, len(p.free)+len(p.slabs), 5)
}
