package txnlog_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

// wreck is a log of one or more segments that a test damages. offsets are those of the batches in the last segment.
type wreck struct {
	t       testing.TB
	d       *simdisk.Disk
	h       *history
	names   []string
	offsets []int64
}

// newWreck appends one-sector batches until the log has the wanted segments, the last with three batches.
func newWreck(t testing.TB, segments int) *wreck {
	w := &wreck{t: t, d: newDisk(), h: &history{}}
	l, _, _ := mustOpen(t, w.d, txnlog.Start{Generation: 1})
	inLast := 0
	for len(l.Segments()) < segments || inLast < 3 {
		before := len(l.Segments())
		require.NoError(t, l.Append(w.h.make(1, 3000, 1), 0))
		if inLast++; len(l.Segments()) > before {
			inLast = 1
		}
	}
	w.names = l.Segments()
	require.NoError(t, l.Close())
	for i := range 3 {
		w.offsets = append(w.offsets, int64(i+1)*sector)
	}
	return w
}

func (w *wreck) path(i int) string { return dir + "/" + w.names[i] }

func (w *wreck) last() string { return w.path(len(w.names) - 1) }

func (w *wreck) flip(path string, off int64) { require.NoError(w.t, w.d.Corrupt(path, off, 0x10)) }

func (w *wreck) file(path string, do func(f env.File)) {
	f, err := w.d.Open(path)
	require.NoError(w.t, err)
	do(f)
	require.NoError(w.t, f.Close())
}

func (w *wreck) write(path string, off int64, b []byte) {
	w.file(path, func(f env.File) {
		_, err := f.WriteAt(b, off)
		require.NoError(w.t, err)
	})
}

func (w *wreck) create(path string, b []byte) {
	f, err := w.d.Create(path)
	require.NoError(w.t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(w.t, err)
	require.NoError(w.t, f.Close())
}

// wipeTail zeroes the last n batches of the log.
func (w *wreck) wipeTail(n int) { w.write(w.last(), w.offsets[3-n], make([]byte, n*sector)) }

// nextSegment is the name and bytes of an empty segment that could follow.
func (w *wreck) nextSegment() (string, []byte) {
	twin := newDisk()
	l, _, _ := mustOpen(w.t, twin, txnlog.Start{Generation: 1})
	require.NoError(w.t, l.Append(w.h.recs, 0))
	h := &history{recs: append([]txn.Record{}, w.h.recs...)}
	for n := len(l.Segments()); len(l.Segments()) == n; {
		require.NoError(w.t, l.Append(h.make(1, 3000, 1), 0))
	}
	names := l.Segments()
	f, err := twin.Open(dir + "/" + names[len(names)-1])
	require.NoError(w.t, err)
	b := make([]byte, 2*sector)
	_, err = f.ReadAt(b, 0)
	require.NoError(w.t, err)
	return dir + "/" + names[len(names)-1], b
}

func TestTornTailOrCorruption(t *testing.T) {
	end := func(w *wreck) txn.Zxid { z, _ := w.h.end(); return z }
	for _, c := range []struct {
		name     string
		segments int
		damage   func(w *wreck) (watermark txn.Zxid)
		lost     int // records cut off the end; or corruption:
		corrupt  bool
	}{
		{"nothing", 2, func(w *wreck) txn.Zxid { return end(w) }, 0, false},
		{"a batch with a valid one behind it: corruption", 1, func(w *wreck) txn.Zxid { w.flip(w.last(), w.offsets[1]+100); return 0 }, 0, true},
		{"a batch header with a valid batch behind it: corruption", 1, func(w *wreck) txn.Zxid { w.flip(w.last(), w.offsets[1]+20); return 0 }, 0, true},
		{"zeros with a valid batch behind them: corruption", 1, func(w *wreck) txn.Zxid { w.write(w.last(), w.offsets[0], make([]byte, 2*sector)); return 0 }, 0, true},
		{"a batch in an earlier segment: corruption", 3, func(w *wreck) txn.Zxid { w.flip(w.path(1), w.offsets[1]+100); return 0 }, 0, true},
		{"a seal with batches behind it: corruption", 2, func(w *wreck) txn.Zxid { w.flip(w.path(0), 7*sector+5); return 0 }, 0, true},
		{"last batch torn, watermark on it: corruption", 1, func(w *wreck) txn.Zxid { w.flip(w.last(), w.offsets[2]+100); return end(w) }, 0, true},
		{"last batch torn, watermark before it: cut", 1, func(w *wreck) txn.Zxid { w.flip(w.last(), w.offsets[2]+100); return end(w) - 1 }, 1, false},
		{"last batch's header torn: cut", 2, func(w *wreck) txn.Zxid { w.flip(w.last(), w.offsets[2]+20); return 0 }, 1, false},
		{"first batch of the last segment torn: cut", 2, func(w *wreck) txn.Zxid {
			w.wipeTail(2)
			w.flip(w.last(), w.offsets[0]+2000)
			return 0
		}, 3, false},
		{"last batch half written: cut", 2, func(w *wreck) txn.Zxid { w.write(w.last(), w.offsets[2]+1024, make([]byte, 3072)); return 0 }, 1, false},
		{"header of a segment that is not the newest: corruption", 2, func(w *wreck) txn.Zxid { w.flip(w.path(0), 30); return 0 }, 0, true},
		{"newest empty: deleted", 1, func(w *wreck) txn.Zxid {
			path, _ := w.nextSegment()
			w.create(path, nil)
			return end(w)
		}, 0, false},
		{"newest with a torn header: deleted", 1, func(w *wreck) txn.Zxid {
			path, b := w.nextSegment()
			b[9] ^= 1
			w.create(path, b[:sector])
			return end(w)
		}, 0, false},
		{"newest with a torn header, log below the watermark: corruption", 1, func(w *wreck) txn.Zxid {
			path, _ := w.nextSegment()
			w.create(path, make([]byte, sector))
			return end(w) + 1
		}, 0, true},
		{"newest with a torn header and a batch: corruption", 1, func(w *wreck) txn.Zxid {
			path, b := w.nextSegment()
			b[9] ^= 1
			w.create(path, b)
			return 0
		}, 0, true},
		{"newest with a torn header behind a sealed one: corruption", 2, func(w *wreck) txn.Zxid {
			w.wipeTail(3)
			w.flip(w.last(), 30)
			return 0
		}, 0, true},
		{"newest with a whole header, seal not written: goes on", 2, func(w *wreck) txn.Zxid {
			w.wipeTail(3)
			w.write(w.path(0), 7*sector, make([]byte, sector))
			return end(w) - 3
		}, 3, false},
		{"newest with a whole header, seal torn: goes on", 2, func(w *wreck) txn.Zxid {
			w.wipeTail(3)
			w.flip(w.path(0), 7*sector+70)
			return 0
		}, 3, false},
		{"newest empty behind a sealed one: goes on", 2, func(w *wreck) txn.Zxid { w.wipeTail(3); return end(w) - 3 }, 3, false},
		{"log ends cleanly below the watermark: corruption", 2, func(w *wreck) txn.Zxid { w.wipeTail(1); return end(w) }, 0, true},
		{"log ends cleanly at the watermark", 2, func(w *wreck) txn.Zxid { w.wipeTail(1); return end(w) - 1 }, 1, false},
		{"newest segment missing behind a seal: corruption", 3, func(w *wreck) txn.Zxid {
			require.NoError(w.t, w.d.Remove(w.last()))
			return 0
		}, 0, true},
		{"middle segment missing: corruption", 3, func(w *wreck) txn.Zxid {
			require.NoError(w.t, w.d.Remove(w.path(1)))
			return 0
		}, 0, true},
		{"oldest segment missing: corruption", 2, func(w *wreck) txn.Zxid {
			require.NoError(w.t, w.d.Remove(w.path(0)))
			return 0
		}, 0, true},
		{"all missing below the watermark: corruption", 1, func(w *wreck) txn.Zxid {
			require.NoError(w.t, w.d.Remove(w.path(0)))
			return 1
		}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, unclean := range []bool{true, false} {
				w := newWreck(t, c.segments)
				mark := c.damage(w)
				before, err := w.d.List(dir)
				require.NoError(t, err)
				s := txnlog.Start{Generation: 1, Watermark: mark, Unclean: unclean}
				l, rep, got, err := reopen(w.d, s)
				if c.corrupt {
					var corrupt *txnlog.CorruptError
					require.ErrorAs(t, err, &corrupt)
					require.NotEmpty(t, corrupt.File)
					after, err := w.d.List(dir)
					require.NoError(t, err)
					require.Equal(t, before, after, "nothing is deleted")
					continue
				}
				require.NoError(t, err)
				w.h.recs = w.h.recs[:len(w.h.recs)-c.lost]
				require.Equal(t, rawBytes(w.h.recs), rawBytes(got))
				require.Zero(t, rep.CommitHint, "none was written")
				for i := range 10 {
					require.NoError(t, l.Append(w.h.make(1+i%2, 2000, 2), 0))
				}
				requireHolds(t, l, w.h, 0)
				s.Watermark, _ = w.h.end()
				s.Unclean = false
				_, rep, got = mustOpen(t, w.d, s)
				require.False(t, rep.Rewritten)
				require.Zero(t, rep.CutBytes)
				require.Equal(t, rawBytes(w.h.recs), rawBytes(got))
			}
		})
	}
}

// The bytes that a client writes may look like a batch; where they stand in a torn one they prove nothing.
func TestAClientCannotForgeEvidence(t *testing.T) {
	twin := newWreck(t, 1)
	forged := make([]byte, sector)
	twin.file(twin.last(), func(f env.File) {
		_, err := f.ReadAt(forged, twin.offsets[2])
		require.NoError(t, err)
	})
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	require.NoError(t, l.Append(h.make(1, 10, 1), 0))
	z, chain := h.end()
	seal := func(data []byte) txn.Record {
		draft := txn.NewDraft(&txn.Txn{Body: &txn.SetData{Path: "/x", Data: data}}, &txn.Request{})
		return draft.Seal(z+1, z, chain)
	}
	data := append([]byte("here"), make([]byte, 3*sector)...)
	at := 2*sector + 88 + bytes.Index(seal(data).Bytes, []byte("here")) // where the client's bytes start in the file
	copy(data[3*sector-at:], forged)
	require.NoError(t, l.Append([]txn.Record{seal(data)}, 0))
	name := dir + "/" + l.Segments()[0]
	require.NoError(t, l.Close())
	(&wreck{t: t, d: d}).file(name, func(f env.File) {
		b := make([]byte, sector)
		_, err := f.ReadAt(b, 3*sector)
		require.NoError(t, err)
		require.Equal(t, forged, b, "a batch with a larger seq, at its own offset")
	})
	require.NoError(t, d.Corrupt(name, 2*sector+1000, 1))
	_, rep, got := mustOpen(t, d, txnlog.Start{Generation: 1, Watermark: z, Unclean: true})
	require.Equal(t, rawBytes(h.recs), rawBytes(got))
	require.Positive(t, rep.CutBytes)
	require.Contains(t, rep.CutAt, name)
}

// The removal of a purged segment may come undone. If there is a hole behind it, it is no part of the log any more.
func TestAPurgedSegmentThatComesBack(t *testing.T) {
	w := newWreck(t, 4)
	var old []byte
	w.file(w.path(0), func(f env.File) {
		old = make([]byte, 8*sector)
		_, err := f.ReadAt(old, 0)
		require.NoError(t, err)
	})
	base := w.h.recs[len(w.h.recs)-4]
	s := txnlog.Start{Generation: 1, Base: base.Zxid, BaseChain: base.Chain}
	l, _, _ := mustOpen(t, w.d, s)
	n, err := l.Purge(w.h.recs[14].Zxid, 0)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, 2, sweep(t, l))
	require.NoError(t, l.Close())
	w.create(w.path(0), old)
	l, rep, _ := mustOpen(t, w.d, s)
	require.Equal(t, 2, rep.Segments)
	requireHolds(t, l, w.h, rep.Oldest)
	require.Len(t, names(t, w.d), 2)
	s.Base, s.BaseChain = w.h.recs[8].Zxid, w.h.recs[8].Chain
	w.create(w.path(0), old)
	_, _, _, err = reopen(w.d, s)
	var corrupt *txnlog.CorruptError
	require.ErrorAs(t, err, &corrupt, "the snapshot does not cover the hole")
}

// (1) The power goes off while a segment is made: its name is there, its header is not. (2) A start removes it; the fsync of the folder fails,
// the process ends, and no later fsync covers that removal. (3) The log grows past that name. (4) The power goes off again, and the name is back.
func TestTheRestOfACreationThatComesBack(t *testing.T) {
	for _, at := range []int{0, 1, 2} { // between which segments
		w := newWreck(t, 3)
		last := w.h.recs[len(w.h.recs)-1].Zxid
		var gen, first uint64
		_, err := fmt.Sscanf(w.names[at], "log.%016x.%016x", &gen, &first)
		require.NoError(t, err)
		w.create(fmt.Sprintf("%s/log.%016x.%016x", dir, gen, first+1), make([]byte, 8*sector))
		l, rep, got := mustOpen(t, w.d, txnlog.Start{Generation: 1, Watermark: last, Unclean: true})
		require.Equal(t, rawBytes(w.h.recs), rawBytes(got))
		require.Empty(t, rep.Aside)
		require.Equal(t, w.names, l.Segments())
		require.Equal(t, w.names, names(t, w.d), "it is gone")
		require.NoError(t, l.Append(w.h.make(12, 3000, 1), 0))
		requireHolds(t, l, w.h, 0)
	}
}

// What a good snapshot covers is no loss, wherever the damage is.
func TestDamageThatTheSnapshotCovers(t *testing.T) {
	for name, c := range map[string]struct {
		seg, off int64
		aside    bool
	}{"header": {1, 30, true}, "oldest header": {0, 30, true}, "batch": {1, 2*sector + 100, false}, "seal": {1, 7*sector + 5, false},
		"batch in the segment before the last": {2, 2*sector + 100, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWreck(t, 4)
			base := w.h.recs[len(w.h.recs)-2]
			w.flip(w.path(int(c.seg)), c.off)
			s := txnlog.Start{Generation: 1, Base: base.Zxid, BaseChain: base.Chain, Watermark: base.Zxid + 1, Unclean: true}
			l, rep, got := mustOpen(t, w.d, s)
			require.Equal(t, rawBytes(w.h.after(base.Zxid)), rawBytes(got))
			if c.aside {
				require.Equal(t, []string{w.path(int(c.seg))}, rep.Aside)
				require.NotContains(t, l.Segments(), w.names[c.seg])
				require.Contains(t, names(t, w.d), w.names[c.seg], "it is evidence")
			}
			require.NoError(t, l.Close())

			w = newWreck(t, 4)
			w.flip(w.path(int(c.seg)), c.off)
			base = w.h.recs[1]
			_, _, _, err := reopen(w.d, txnlog.Start{Generation: 1, Base: base.Zxid, BaseChain: base.Chain, Unclean: true})
			var corrupt *txnlog.CorruptError
			require.ErrorAs(t, err, &corrupt, "an older snapshot does not cover it")
			require.Equal(t, w.path(int(c.seg)), corrupt.File)
		})
	}
}

// A flipped bit anywhere is found, or lies in the last batch that nothing proves, or changes nothing that is read.
func TestNoFlippedBitBecomesWrongData(t *testing.T) {
	twin := newWreck(t, 2)
	all := rawBytes(twin.h.recs)
	for seg := range twin.names {
		for off := int64(0); off < 8*sector; off += 509 { // a prime below 512: every sector, at changing places
			w := newWreck(t, 2)
			w.flip(w.path(seg), off)
			_, rep, got, err := reopen(w.d, txnlog.Start{Generation: 1, Unclean: true})
			if err != nil {
				var corrupt *txnlog.CorruptError
				require.ErrorAs(t, err, &corrupt, "segment %d byte %d", seg, off)
				continue
			}
			lost := len(all) - len(got)
			require.LessOrEqual(t, lost, 1, "segment %d byte %d", seg, off)
			require.Equal(t, all[:len(got)], rawBytes(got))
			if lost == 1 {
				require.True(t, seg == 1 && off >= 3*sector && off < 4*sector, "segment %d byte %d", seg, off)
				require.Positive(t, rep.CutBytes)
			}
			_, _, _, err = reopen(w.d, txnlog.Start{Generation: 1, Watermark: twin.h.recs[len(all)-1].Zxid, Unclean: true})
			if lost == 1 {
				var corrupt *txnlog.CorruptError
				require.ErrorAs(t, err, &corrupt)
			} else {
				require.NoError(t, err)
			}
		}
	}
}

func TestReadSegmentForADump(t *testing.T) {
	w := newWreck(t, 2)
	var seen []txn.Zxid
	var kinds []txnlog.Kind
	each := func(h txnlog.BatchHeader, recs []txn.Record) error {
		kinds = append(kinds, h.Kind)
		for _, r := range recs {
			seen = append(seen, r.Zxid)
		}
		return nil
	}
	h, err := txnlog.ReadSegment(w.d, w.path(0), each)
	require.NoError(t, err)
	require.Equal(t, uint64(1), h.Generation)
	require.Equal(t, txnlog.KindSeal, kinds[len(kinds)-1])
	_, err = txnlog.ReadSegment(w.d, w.path(1), each)
	require.NoError(t, err)
	require.Len(t, seen, len(w.h.recs))
	w.flip(w.path(1), w.offsets[2]+9)
	_, err = txnlog.ReadSegment(w.d, w.path(1), each)
	var corrupt *txnlog.CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, w.offsets[2], corrupt.Offset)
	_, err = txnlog.ReadSegment(w.d, dir+"/none", each)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
