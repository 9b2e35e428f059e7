package zab

import (
	"fmt"
	"slices"
	"sort"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// History is what a server's cores know of its own log:
//
//	Base <= tail's first prev <= Applied <= min(Commit, Durable) <= End
//
// Base is the lowest position from which the log on disk can be streamed. The tail in memory always holds everything
// behind Applied, and more as far as its bound allows.
type History struct {
	Base     Position
	End      Position // last record appended, durable or not
	Durable  txn.Zxid // last record that is on disk
	Commit   txn.Zxid // largest zxid known to be committed
	Applied  txn.Zxid
	Table    EpochTable
	Snapshot Position // newest snapshot on disk; Zxid 0: none
	SnapSize int64

	tail      []txn.Record
	tailPrev  Position // position before tail[0]
	tailBytes int
	TailMax   int // bytes
}

// NewHistory starts from what recovery found. tail are the records behind applied, which the log holds durably.
func NewHistory(base, applied Position, commit txn.Zxid, table EpochTable, tail []txn.Record, tailMax int) *History {
	h := &History{Base: base, End: applied, Durable: applied.Zxid, Commit: commit, Applied: applied.Zxid, Table: table,
		tailPrev: applied, TailMax: tailMax}
	for _, r := range tail {
		h.push(r)
	}
	h.Durable = h.End.Zxid
	return h
}

// Append puts r behind the end. The error says what does not fit: it is a gap or another history (I-9, I-10).
func (h *History) Append(r txn.Record) error {
	if !r.Links(h.End.Zxid, h.End.Chain) {
		return fmt.Errorf("record %v with predecessor %v does not continue the history that ends at %v", r.Zxid, r.Prev, h.End.Zxid)
	}
	h.push(r)
	return nil
}

func (h *History) push(r txn.Record) {
	h.tail = append(h.tail, r)
	h.tailBytes += len(r.Bytes)
	h.End = Position{Zxid: r.Zxid, Chain: r.Chain}
	h.Table.Extend(r.Zxid, r.Chain)
	h.trim()
}

// trim forgets the oldest records of the tail while it is over its bound, never one that is not applied.
func (h *History) trim() {
	if h.tailBytes <= h.TailMax {
		return
	}
	n := 0
	for n < len(h.tail) && h.tailBytes > h.TailMax/2 && h.tail[n].Zxid <= h.Applied {
		h.tailBytes -= len(h.tail[n].Bytes)
		h.tailPrev = Position{Zxid: h.tail[n].Zxid, Chain: h.tail[n].Chain}
		n++
	}
	if n > 0 { // the tail is about to grow as long as it was: with that much room it is not moved again on the way
		h.tail = append(make([]txn.Record, 0, len(h.tail)+64), h.tail[n:]...)
	}
}

// TailStart is the position behind which the memory tail holds everything.
func (h *History) TailStart() Position { return h.tailPrev }

// TailBytes is the size of the memory tail.
func (h *History) TailBytes() int { return h.tailBytes }

// After returns the records of the memory tail directly behind z: at most maxBytes and maxCount of them, at least one if there
// is one. inTail is false when z is below the tail or no record's place: the caller must read the disk. The slice is a view: do not change it.
func (h *History) After(z txn.Zxid, maxBytes, maxCount int) (recs []txn.Record, inTail bool) {
	i, ok := h.index(z)
	if !ok {
		return nil, false
	}
	j, bytes := i, 0
	for j < len(h.tail) && j-i < maxCount && (j == i || bytes+len(h.tail[j].Bytes) <= maxBytes) {
		bytes += len(h.tail[j].Bytes)
		j++
	}
	return h.tail[i:j:j], true
}

// BytesAfter is the size of the records behind z in the tail; ok as for After.
func (h *History) BytesAfter(z txn.Zxid) (n int64, ok bool) {
	i, ok := h.index(z)
	if !ok {
		return 0, false
	}
	for _, r := range h.tail[i:] {
		n += int64(len(r.Bytes))
	}
	return n, true
}

// index finds the place of the first record behind z.
func (h *History) index(z txn.Zxid) (int, bool) {
	if z == h.tailPrev.Zxid {
		return 0, true
	}
	i := sort.Search(len(h.tail), func(i int) bool { return h.tail[i].Zxid >= z })
	if i == len(h.tail) || h.tail[i].Zxid != z {
		return 0, false
	}
	return i + 1, true
}

// ChainAt returns the chain at z where memory knows it: in the tail, at an epoch's end, at Base and the end.
func (h *History) ChainAt(z txn.Zxid) (uint64, bool) {
	switch z {
	case 0:
		return 0, true
	case h.End.Zxid:
		return h.End.Chain, true
	case h.tailPrev.Zxid:
		return h.tailPrev.Chain, true
	case h.Base.Zxid:
		return h.Base.Chain, true
	}
	if i, ok := h.index(z); ok {
		return h.tail[i-1].Chain, true
	}
	if e, ok := h.Table.Find(z.Epoch()); ok && e.Last == z {
		return e.Chain, true
	}
	return 0, false
}

// CutTo forgets everything behind to, which must not be below Applied (R-31 was checked by the caller, who also truncates the
// disk). Known commit falls to the new end at most. Views handed out before stay as they were.
func (h *History) CutTo(to Position) {
	n := sort.Search(len(h.tail), func(i int) bool { return h.tail[i].Zxid > to.Zxid })
	if n < len(h.tail) {
		h.tail = append(make([]txn.Record, 0, n+64), h.tail[:n]...)
		h.tailBytes = 0
		for _, r := range h.tail {
			h.tailBytes += len(r.Bytes)
		}
	}
	h.Table.Cut(to)
	h.End = to
	if !mutant.On("K41") {
		h.Durable = min(h.Durable, to.Zxid)
	}
	h.Commit = min(h.Commit, to.Zxid)
}

// Rebase makes a snapshot at the whole history (§19): nothing but it is left.
func (h *History) Rebase(at Position, size int64, table EpochTable) {
	*h = History{Base: at, End: at, Durable: at.Zxid, Commit: at.Zxid, Applied: at.Zxid, Table: table, Snapshot: at, SnapSize: size,
		tailPrev: at, TailMax: h.TailMax}
}

// applyMax bounds what is applied in one piece, so that a long catch-up leaves turns in which pings are answered.
const (
	applyMaxBytes   = 4 << 20
	applyMaxRecords = 10_000
)

// TakeApplicable returns records that may be applied now, committed and durable here, and counts them as applied. There may be more:
// Applicable tells.
func (h *History) TakeApplicable() []txn.Record {
	if !h.Applicable() {
		return nil
	}
	i, ok := h.index(h.Applied)
	if !ok {
		panic(fmt.Sprintf("zab: applied %v is not in the tail that starts at %v", h.Applied, h.tailPrev.Zxid))
	}
	to := h.applicable()
	j, bytes := i, 0
	for j < len(h.tail) && h.tail[j].Zxid <= to && j-i < applyMaxRecords && bytes < applyMaxBytes {
		bytes += len(h.tail[j].Bytes)
		j++
	}
	if i == j {
		return nil
	}
	recs := slices.Clone(h.tail[i:j])
	for k := i; k < j; k++ {
		h.tail[k].Forget() // the tail is for learners, who get bytes
	}
	h.Applied = recs[len(recs)-1].Zxid
	h.trim()
	return recs
}

// applicable is how far applying may go (O9).
func (h *History) applicable() txn.Zxid {
	if mutant.On("O9") {
		return h.Commit
	}
	return min(h.Commit, h.Durable)
}

// Applicable reports whether there is something to apply. A commit between two records of the tail is not enough: the next record
// itself must be covered.
func (h *History) Applicable() bool {
	to := h.applicable()
	if to <= h.Applied {
		return false
	}
	i, ok := h.index(h.Applied)
	return !ok || i < len(h.tail) && h.tail[i].Zxid <= to
}
