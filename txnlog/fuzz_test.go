package txnlog_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mend gives the headers and batches in b the checksums that they should have, so that the fuzzer gets behind them.
func mend(b []byte) {
	put := func(at int, sum uint32) { binary.BigEndian.PutUint32(b[at:], sum) }
	if len(b) < sector {
		return
	}
	put(80, crc32.Checksum(b[:80], castagnoli))
	for off := sector; off+88 <= len(b); {
		h := b[off:]
		binary.BigEndian.PutUint64(h[24:], uint64(off))
		sum := crc32.Checksum(h[:84], castagnoli)
		put(off+84, sum)
		n := 88 + int(binary.BigEndian.Uint32(h[76:]))
		if n+4 > len(h) {
			return
		}
		put(off+n, crc32.Update(sum, castagnoli, h[88:n]))
		off += (n + 4 + sector - 1) / sector * sector
	}
}

// FuzzReadSegment: no panic, no records out of line, and Open finds what the dump shows.
func FuzzReadSegment(f *testing.F) {
	w := newWreck(f, 1)
	seed := make([]byte, 4*sector)
	w.file(w.last(), func(file env.File) {
		_, err := file.ReadAt(seed, 0)
		require.NoError(f, err)
	})
	f.Add(seed[:2*sector], true)
	f.Add(seed, false)
	path := w.last()
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		b = bytes.Clone(b)
		if whole {
			mend(b)
		}
		d := newDisk()
		require.NoError(t, d.MkdirAll(dir))
		(&wreck{t: t, d: d}).create(path, b)
		var seen []string
		end := txn.Zxid(0)
		h, err := txnlog.ReadSegment(d, path, func(_ txnlog.BatchHeader, recs []txn.Record) error {
			for _, r := range recs {
				require.True(t, end == 0 || r.Prev == end)
				end = r.Zxid
			}
			seen = append(seen, rawBytes(recs)...)
			return nil
		})
		_, _, got, openErr := reopen(d, txnlog.Start{Generation: 1, Base: h.Prev, BaseChain: h.Chain, Unclean: true})
		if err == nil && openErr == nil {
			require.Equal(t, seen, append([]string(nil), rawBytes(got)...))
		}
	})
}
