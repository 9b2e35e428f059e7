package txnlog_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

const (
	dir    = "/data/zkd"
	sector = 4096
)

// history makes records and remembers them: the twin that a log is compared with.
type history struct {
	base      txn.Zxid
	baseChain uint64
	recs      []txn.Record
}

func (h *history) end() (txn.Zxid, uint64) {
	if len(h.recs) == 0 {
		return h.base, h.baseChain
	}
	last := h.recs[len(h.recs)-1]
	return last.Zxid, last.Chain
}

// make adds n records with size bytes of data each; epoch 0 stays in the current one.
func (h *history) make(n, size int, epoch txn.Epoch) []txn.Record {
	start := len(h.recs)
	for range n {
		end, chain := h.end()
		zxid := end + 1
		if epoch > end.Epoch() {
			zxid = txn.MakeZxid(epoch, 1)
		}
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(uint64(zxid) + uint64(epoch) + uint64(i)*7)
		}
		d := txn.NewDraft(&txn.Txn{Body: &txn.SetData{Path: "/x", Data: data}}, &txn.Request{})
		h.recs = append(h.recs, d.Seal(zxid, end, chain))
	}
	return h.recs[start:]
}

func (h *history) after(z txn.Zxid) []txn.Record {
	for i := range h.recs {
		if h.recs[i].Zxid > z {
			return h.recs[i:]
		}
	}
	return nil
}

func (h *history) cut(to txn.Zxid) {
	h.recs = slices.Clip(h.recs[:len(h.recs)-len(h.after(to))])
}

func rawBytes(recs []txn.Record) []string {
	out := make([]string, len(recs))
	for i, r := range recs {
		out[i] = string(r.Bytes)
	}
	return out
}

func config(d env.Disk) txnlog.Config {
	return txnlog.Config{Disk: d, Dir: dir, SegmentBytes: 8 * sector, ClusterID: 7}
}

// reopen opens the log and returns what it holds after s.Base.
func reopen(d env.Disk, s txnlog.Start) (*txnlog.Log, txnlog.Report, []txn.Record, error) {
	var got []txn.Record
	l, rep, err := txnlog.Open(config(d), s, func(r txn.Record, _ bool) error {
		got = append(got, r)
		return nil
	})
	return l, rep, got, err
}

func mustOpen(t testing.TB, d env.Disk, s txnlog.Start) (*txnlog.Log, txnlog.Report, []txn.Record) {
	t.Helper()
	l, rep, got, err := reopen(d, s)
	require.NoError(t, err)
	return l, rep, got
}

// requireHolds demands that the log holds exactly the history from z on, by every way of reading it.
func requireHolds(t testing.TB, l *txnlog.Log, h *history, z txn.Zxid) {
	t.Helper()
	want := h.after(z)
	for _, maxBytes := range []int{1, 5000, 1 << 30} {
		var got []txn.Record
		for at := z; ; at = got[len(got)-1].Zxid {
			recs, err := l.ReadAfter(at, maxBytes)
			require.NoError(t, err)
			if len(recs) == 0 {
				break
			}
			got = append(got, recs...)
		}
		require.Equal(t, rawBytes(want), rawBytes(got))
	}
	for _, r := range want {
		chain, err := l.ChainAt(r.Zxid)
		require.NoError(t, err)
		require.Equal(t, r.Chain, chain)
	}
	end, chain := l.End()
	wantEnd, wantChain := h.end()
	require.Equal(t, wantEnd, end)
	require.Equal(t, wantChain, chain)
}

func scrub(t testing.TB, l *txnlog.Log, name string) {
	t.Helper()
	_, err := l.Scrub(name, nil)
	require.NoError(t, err)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func newDisk() *simdisk.Disk { return simdisk.NewDisk(0) }
