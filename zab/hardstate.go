package zab

import (
	"errors"

	"github.com/zkd-project/zkd/txn"
)

// ErrNewerVersion is wrapped by a state that is asked to restore what a newer version wrote. Such bytes are whole: nobody may take them
// for damage.
var ErrNewerVersion = errors.New("written by a newer version")

// HardState is what a server has promised and must remember (docs/protocol.md §3). Current <= Accepted; both only grow.
type HardState struct {
	ClusterID      uint64    // 0 until learnt (§18.7)
	Accepted       txn.Epoch // largest epoch promised to a would-be leader
	AcceptedLeader ServerID  // to whom
	Current        txn.Epoch // largest epoch whose initial history is stored here
	Recovering     bool      // may have lost something it promised or acked: neither votes nor counts (§18.5)
	RecoveryID     uint64    // drawn when Recovering was noticed; the readmit record carries it
	Diverged       bool      // the state that log and snapshots here lead to is not the ensemble's: the next start sets them aside (I-17)
}

// Doubted is h for a server that may have lost something that it promised or acked, with a RecoveryID that an earlier loss of memory will
// not have used.
func (h HardState) Doubted(seed uint64, now Instant) HardState {
	x := seed ^ uint64(now) ^ uint64(h.Accepted)<<32 ^ h.RecoveryID
	for range 2 {
		x = (x ^ x>>31) * 0x9e3779b97f4a7c15
	}
	h.Recovering, h.RecoveryID = true, x|1
	return h
}

// Position is a place in a history.
type Position struct {
	Zxid  txn.Zxid
	Chain uint64
}

// EpochEnd is the last record of one epoch in a history.
type EpochEnd struct {
	Epoch txn.Epoch
	Last  txn.Zxid
	Chain uint64
}

// EpochTable lists the epochs of a history, ascending. Whole says that it reaches back to the first record. At most
// EpochTableMax entries are kept, the newest ones.
type EpochTable struct {
	Whole bool
	Ends  []EpochEnd
}

// EpochTableMax bounds an epoch table.
const EpochTableMax = 4096

// Extend notes that the history now ends with r.
func (t *EpochTable) Extend(zxid txn.Zxid, chain uint64) {
	end := EpochEnd{Epoch: zxid.Epoch(), Last: zxid, Chain: chain}
	if n := len(t.Ends); n > 0 && t.Ends[n-1].Epoch == end.Epoch {
		t.Ends[n-1] = end
		return
	}
	if len(t.Ends) >= EpochTableMax {
		t.Ends = append(t.Ends[:0:0], t.Ends[len(t.Ends)-EpochTableMax+1:]...)
		t.Whole = false
	}
	t.Ends = append(t.Ends, end)
}

// Cut removes everything behind to, which must be a position of the history.
func (t *EpochTable) Cut(to Position) {
	for n := len(t.Ends); n > 0 && t.Ends[n-1].Last > to.Zxid; n = len(t.Ends) {
		if t.Ends[n-1].Epoch == to.Zxid.Epoch() {
			t.Ends[n-1].Last, t.Ends[n-1].Chain = to.Zxid, to.Chain
			return
		}
		t.Ends = t.Ends[:n-1]
	}
}

// Between counts the records in (from, to] of the history.
func (t *EpochTable) Between(from, to txn.Zxid) (n int64) {
	for _, e := range t.Ends {
		first := max(from, txn.MakeZxid(e.Epoch, 0))
		if last := min(to, e.Last); last > first {
			n += int64(last - first)
		}
	}
	return n
}

// Clone returns a table that shares nothing with t.
func (t *EpochTable) Clone() EpochTable {
	return EpochTable{Whole: t.Whole, Ends: append([]EpochEnd(nil), t.Ends...)}
}

// Find returns the entry of an epoch.
func (t *EpochTable) Find(e txn.Epoch) (EpochEnd, bool) {
	for i := len(t.Ends) - 1; i >= 0 && t.Ends[i].Epoch >= e; i-- {
		if t.Ends[i].Epoch == e {
			return t.Ends[i], true
		}
	}
	return EpochEnd{}, false
}
