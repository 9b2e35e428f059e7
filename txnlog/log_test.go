package txnlog_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

func TestAppendedRecordsComeBack(t *testing.T) {
	for _, clean := range []bool{true, false} {
		d, h := newDisk(), &history{}
		l, rep, _ := mustOpen(t, d, txnlog.Start{Generation: 1, Unclean: true})
		require.True(t, rep.Created)
		for i := range 60 {
			require.NoError(t, l.Append(h.make(1+i%5, 10+400*(i%7), 1), txn.MakeZxid(1, uint32(i))))
			if i%9 == 0 {
				require.NoError(t, l.Confirm(0))
			}
		}
		require.Greater(t, len(l.Segments()), 5)
		requireHolds(t, l, h, 0)
		for _, name := range l.Segments() {
			scrub(t, l, name)
		}
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Append(nil, 0), txnlog.ErrClosed)

		mid := h.recs[len(h.recs)/2]
		for _, base := range []txn.Record{{}, mid, h.recs[len(h.recs)-1]} {
			end, _ := h.end()
			l, rep, got := mustOpen(t, d, txnlog.Start{Generation: 1, Base: base.Zxid, BaseChain: base.Chain, Watermark: end, Unclean: !clean})
			require.Equal(t, !clean, rep.Rewritten)
			require.Equal(t, rawBytes(h.after(base.Zxid)), rawBytes(got))
			require.Equal(t, max(base.Zxid, txn.MakeZxid(1, 59)), rep.CommitHint)
			require.Equal(t, end, rep.End)
			requireHolds(t, l, h, 0)
			require.NoError(t, l.Append(h.make(2, 100, 1), 0))
			requireHolds(t, l, h, base.Zxid)
			require.NoError(t, l.Close())
		}
	}
}

func TestOpenSaysWhatTheHintCovers(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	require.NoError(t, l.Append(h.make(5, 1, 1), 0))
	require.NoError(t, l.Confirm(txn.MakeZxid(1, 3)))
	require.NoError(t, l.Close())
	var committed []bool
	_, rep, err := txnlog.Open(config(d), txnlog.Start{Generation: 1}, func(_ txn.Record, c bool) error {
		committed = append(committed, c)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true, false, false}, committed)
	require.Equal(t, txn.MakeZxid(1, 3), rep.CommitHint)

	stop := errors.New("stop")
	_, _, err = txnlog.Open(config(d), txnlog.Start{Generation: 1}, func(txn.Record, bool) error { return stop })
	require.ErrorIs(t, err, stop)
}

func TestAppendRefusesAGapAndGoesOn(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	require.NoError(t, l.Append(h.make(3, 1, 1), 0))
	skipped, next := h.make(1, 1, 1), h.make(1, 1, 1)
	require.ErrorIs(t, l.Append(next, 0), txnlog.ErrGap)
	bad := skipped[0]
	bad.Chain++
	require.ErrorIs(t, l.Append([]txn.Record{bad}, 0), txnlog.ErrGap)
	require.NoError(t, l.Append([]txn.Record{skipped[0], next[0]}, 0))
	requireHolds(t, l, h, 0)
}

func TestABatchLargerThanASegment(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	for range 3 {
		require.NoError(t, l.Append(h.make(1, 20*sector, 1), 0))
		require.NoError(t, l.Append(h.make(1, 10, 1), 0))
	}
	requireHolds(t, l, h, 0)
	_, _, got := mustOpen(t, d, txnlog.Start{Generation: 1, Unclean: true})
	require.Equal(t, rawBytes(h.recs), rawBytes(got))
}

func TestConfirmsAloneFillNoSecondSegmentOfOneName(t *testing.T) {
	d, h := newDisk(), &history{base: txn.MakeZxid(1, 50), baseChain: 9}
	s := txnlog.Start{Generation: 1, Base: h.base, BaseChain: 9}
	for range 20 { // each unclean start has something to prove again
		l, _, _ := mustOpen(t, d, s)
		require.NoError(t, l.Confirm(h.base))
		require.NoError(t, l.Confirm(h.base))
		require.NoError(t, l.Close())
		s.Unclean = true
	}
	l, _, _ := mustOpen(t, d, s)
	require.NoError(t, l.Append(h.make(1, 1, 1), 0))
	requireHolds(t, l, h, h.base)
}

func TestTruncateAtEveryPosition(t *testing.T) {
	full := &history{}
	batches := [][2]int{}
	for i := range 25 {
		n := 1 + i%4
		batches = append(batches, [2]int{len(full.recs), n})
		full.make(n, 700*(i%5), 1+txn.Epoch(i/9))
	}
	for k := -1; k < len(full.recs); k++ {
		d, h := newDisk(), &history{recs: full.recs[:len(full.recs):len(full.recs)]}
		l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
		for _, b := range batches {
			require.NoError(t, l.Append(full.recs[b[0]:b[0]+b[1]], 0))
		}
		var to txn.Record
		if k >= 0 {
			to = full.recs[k]
		}
		if end, _ := h.end(); to.Zxid != end {
			require.ErrorIs(t, l.Truncate(to.Zxid, to.Chain+1), txnlog.ErrNoSuchZxid)
		}
		require.ErrorIs(t, l.Truncate(txn.MakeZxid(9, 1), 0), txnlog.ErrNoSuchZxid)
		require.ErrorIs(t, l.Truncate(txn.MakeZxid(1, 999), 0), txnlog.ErrNoSuchZxid)
		requireHolds(t, l, h, 0)
		require.NoError(t, l.Truncate(to.Zxid, to.Chain))
		h.cut(to.Zxid)
		requireHolds(t, l, h, 0)
		for i := range 8 { // K23: no gap behind the cut, without a restart
			require.NoError(t, l.Append(h.make(1+i%3, 900, 7), 0))
		}
		requireHolds(t, l, h, 0)
		end, _ := h.end()
		l2, rep, got := mustOpen(t, d, txnlog.Start{Generation: 1, Watermark: end})
		require.False(t, rep.Rewritten, "a cut leaves nothing to repair")
		require.Equal(t, rawBytes(h.recs), rawBytes(got))
		for _, name := range l2.Segments() {
			scrub(t, l2, name)
		}
	}
}

func TestPurgeKeepsWhatIsNeeded(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	for range 40 {
		require.NoError(t, l.Append(h.make(1, 3000, 1), 0))
	}
	stranger, err := d.Create(dir + "/log.bak")
	require.NoError(t, err)
	require.NoError(t, stranger.Close())
	n, err := l.Purge(h.recs[20].Zxid, 1<<40)
	require.NoError(t, err)
	require.Zero(t, n, "the bytes to keep are more than there are")
	n, err = l.Purge(h.recs[20].Zxid, 0)
	require.NoError(t, err)
	require.Positive(t, n)
	require.Equal(t, n, sweep(t, l))
	oldest, chain := l.Oldest()
	require.LessOrEqual(t, oldest, h.recs[20].Zxid)
	got, err := l.ChainAt(oldest)
	require.NoError(t, err)
	require.Equal(t, chain, got)
	requireHolds(t, l, h, oldest)
	_, err = l.ReadAfter(oldest-1, 1)
	require.ErrorIs(t, err, txnlog.ErrPurged)
	_, err = l.ReadAfter(h.recs[39].Zxid+1, 1)
	require.ErrorIs(t, err, txnlog.ErrNoSuchZxid)
	require.Less(t, l.BytesAfter(h.recs[38].Zxid), l.BytesAfter(h.recs[20].Zxid))
	require.Zero(t, l.BytesAfter(h.recs[39].Zxid))

	_, err = l.Purge(h.recs[39].Zxid, 0)
	require.NoError(t, err)
	sweep(t, l)
	require.Len(t, l.Segments(), 1, "the active one stays")
	entries, err := d.List(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the stranger stays")

	_, _, _, err = reopen(d, txnlog.Start{Generation: 1})
	var corrupt *txnlog.CorruptError
	require.ErrorAs(t, err, &corrupt, "without a snapshot this log has no beginning")
}

// sweep deletes all that was purged and returns how many files that were.
func sweep(t *testing.T, l *txnlog.Log) (n int) {
	t.Helper()
	for {
		more, err := l.Sweep()
		require.NoError(t, err)
		if !more {
			return n
		}
		n++
	}
}

// To delete a file takes a file system as long as many appends, so Purge leaves it to Sweep, which may run beside all that the writer does.
func TestPurgeTouchesNoFile(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	for range 60 {
		require.NoError(t, l.Append(h.make(1, 3000, 1), 0))
	}
	files := names(t, d)
	steps := d.Steps()
	n, err := l.Purge(h.recs[30].Zxid, 0)
	require.NoError(t, err)
	require.Greater(t, n, 3)
	require.Equal(t, steps, d.Steps())
	require.Len(t, l.Segments(), len(files)-n)
	oldest, _ := l.Oldest()

	for i := range 2 {
		more, err := l.Sweep()
		require.NoError(t, err)
		require.True(t, more)
		require.Equal(t, files[i+1:], names(t, d), "the oldest first, one by one")
	}

	t.Run("what is left is log again", func(t *testing.T) {
		_, chain := l.Oldest()
		require.NoError(t, l.Close())
		more, err := l.Sweep()
		require.ErrorIs(t, err, txnlog.ErrClosed)
		require.False(t, more)
		base := txnlog.Start{Generation: 1, Base: oldest, BaseChain: chain}
		l, _, _ = mustOpen(t, d, base)
		require.Equal(t, files[2:], names(t, d))
		require.Equal(t, files[2:], l.Segments())
		requireHolds(t, l, h, oldest)
	})

	t.Run("a cut beside it", func(t *testing.T) {
		n, err = l.Purge(h.recs[30].Zxid, 0)
		require.NoError(t, err)
		require.Positive(t, n)
		to := h.recs[50]
		require.NoError(t, l.Truncate(to.Zxid, to.Chain))
		h.cut(to.Zxid)
		require.Equal(t, n, sweep(t, l))
		require.Equal(t, l.Segments(), names(t, d))
		requireHolds(t, l, h, oldest)
	})

	t.Run("a new generation deletes them too", func(t *testing.T) {
		n, err = l.Purge(h.recs[45].Zxid, 0)
		require.NoError(t, err)
		require.Positive(t, n)
		end, chain := h.end()
		require.NoError(t, l.Reset(2, end, chain))
		require.NoError(t, l.RemoveOldGenerations())
		require.Zero(t, sweep(t, l), "they are gone")
		require.Equal(t, l.Segments(), names(t, d))
	})
}

func TestOldSegmentsAreReadOnlyWhenAsked(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	for range 60 {
		require.NoError(t, l.Append(h.make(1, 3000, 1), 0))
	}
	require.NoError(t, d.Corrupt(dir+"/"+l.Segments()[1], 2*sector+200, 1))
	base := h.recs[50]
	l, _, got := mustOpen(t, d, txnlog.Start{Generation: 1, Base: base.Zxid, BaseChain: base.Chain, Unclean: true})
	require.Len(t, got, 9)
	requireHolds(t, l, h, h.recs[30].Zxid)
	var corrupt *txnlog.CorruptError
	_, err := l.Scrub(l.Segments()[1], nil)
	require.ErrorAs(t, err, &corrupt)
	scrub(t, l, l.Segments()[0])
	_, err = l.ReadAfter(0, 1<<30)
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, int64(2*sector), corrupt.Offset)
}

func TestResetStartsANewGeneration(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	for range 20 {
		require.NoError(t, l.Append(h.make(1, 3000, 1), 0))
	}
	old := *h
	h = &history{base: txn.MakeZxid(3, 9), baseChain: 77}
	require.Error(t, l.Reset(1, h.base, 77))
	require.NoError(t, l.Reset(2, h.base, h.baseChain))
	require.NoError(t, l.Append(h.make(3, 10, 3), 0))
	requireHolds(t, l, h, h.base)
	require.NoError(t, l.Close())

	// The manifest was not written: the old generation counts, and a second install takes the new one's name.
	l, _, got := mustOpen(t, d, txnlog.Start{Generation: 1, Unclean: true})
	require.Equal(t, rawBytes(old.recs), rawBytes(got))
	require.NoError(t, l.Reset(2, h.base, h.baseChain))
	require.NoError(t, l.Append(h.recs, 0))
	require.NoError(t, l.RemoveOldGenerations())
	requireHolds(t, l, h, h.base)
	require.NoError(t, l.Close())
	entries, err := d.List(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	_, _, got = mustOpen(t, d, txnlog.Start{Generation: 2, Base: h.base, BaseChain: 77, Unclean: true})
	require.Equal(t, rawBytes(h.recs), rawBytes(got))
	_, _, _, err = reopen(d, txnlog.Start{Generation: 2, Base: h.base, BaseChain: 78})
	var corrupt *txnlog.CorruptError
	require.ErrorAs(t, err, &corrupt, "another chain at the base")
}

func TestWrongCluster(t *testing.T) {
	d := newDisk()
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	require.NoError(t, l.Close())
	c := config(d)
	c.ClusterID = 8
	_, _, err := txnlog.Open(c, txnlog.Start{Generation: 1}, nil)
	require.ErrorIs(t, err, txnlog.ErrWrongCluster)
	c.ClusterID = 0
	_, _, err = txnlog.Open(c, txnlog.Start{Generation: 1}, nil)
	require.NoError(t, err)
}

func TestNoSpaceForASegmentLosesNothing(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	d.SetCapacity(3 * 8 * sector)
	var err error
	for err == nil {
		err = l.Append(h.make(1, 3000, 1), 0)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, txnlog.ErrBroken)
	require.ErrorIs(t, l.Append(nil, 0), txnlog.ErrBroken)
	require.ErrorIs(t, l.Append(nil, 0), syscall.ENOSPC, "the first cause stays")
	lost := h.recs[len(h.recs)-1]
	h.recs = h.recs[:len(h.recs)-1]
	d.Kill()
	d.SetCapacity(0)
	l, _, got := mustOpen(t, d, txnlog.Start{Generation: 1, Unclean: true})
	require.Equal(t, rawBytes(h.recs), rawBytes(got))
	require.NoError(t, l.Append([]txn.Record{lost}, 0))
}

func TestReadersBesideTheWriter(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	all := h.make(300, 900, 1)
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 2))
			for at := txn.Zxid(0); at < all[299].Zxid; {
				recs, err := l.ReadAfter(at, 1+rng.IntN(9000))
				if errors.Is(err, txnlog.ErrPurged) {
					at, _ = l.Oldest()
					continue
				}
				if err != nil {
					t.Errorf("read after %v: %v", at, err)
					return
				}
				for _, rec := range recs {
					if rec.Prev != at && at != 0 {
						t.Errorf("gap after %v", at)
					}
					at = rec.Zxid
				}
				l.BytesAfter(at)
			}
		})
	}
	wg.Go(func() {
		for last := all[len(all)-1].Zxid; ; {
			if _, err := l.Sweep(); err != nil {
				t.Errorf("sweep: %v", err)
				return
			}
			if end, _ := l.End(); end == last {
				return
			}
			runtime.Gosched()
		}
	})
	for i := range all {
		require.NoError(t, l.Append(all[i:i+1], 0))
		if i%50 == 49 {
			_, err := l.Purge(all[i-30].Zxid, 0)
			require.NoError(t, err)
		}
	}
	wg.Wait()
}

func benchmarkAppend(b *testing.B, perBatch int) {
	l, _, err := txnlog.Open(txnlog.Config{Disk: env.OSDisk{}, Dir: b.TempDir()}, txnlog.Start{Generation: 1}, nil)
	require.NoError(b, err)
	h := &history{}
	recs := h.make(perBatch*b.N, 256, 1)
	b.SetBytes(int64(perBatch * len(recs[0].Bytes)))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := l.Append(recs[i*perBatch:(i+1)*perBatch], 0); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	require.NoError(b, l.Close())
}

func BenchmarkAppend1(b *testing.B)   { benchmarkAppend(b, 1) }
func BenchmarkAppend100(b *testing.B) { benchmarkAppend(b, 100) }
