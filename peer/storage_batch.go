package peer

import "github.com/zkd-project/zkd/txn"

// batch is some records of the log on their way to the state, with the memory that is behind them.
type batch struct {
	recs    []txn.Record
	bytes   int    // of the records
	slab    []byte // the newest piece of memory for them
	decoder *txn.Decoder
}

// firstSlab is how much memory a batch begins with; each further piece is twice as large, up to replayBytes.
const firstSlab = 4 << 10

// add copies a record.
func (b *batch) add(r txn.Record) {
	n := len(r.Bytes)
	if cap(b.slab)-len(b.slab) < n { // what is in the old piece stays there
		b.slab = make([]byte, 0, max(n, firstSlab, min(2*cap(b.slab), replayBytes)))
	}
	at := len(b.slab)
	b.slab = append(b.slab, r.Bytes...)
	r.Bytes = b.slab[at : at+n : at+n]
	b.recs = append(b.recs, r)
	b.bytes += n
}

// decode does what the state would do. An error is the state's to find.
func (b *batch) decode() {
	for i := range b.recs {
		if b.decoder.Decode(&b.recs[i]) != nil {
			return
		}
	}
}

// reset makes the batch an empty one; nobody may look at its records any more.
func (b *batch) reset() {
	clear(b.recs)
	b.recs, b.bytes, b.slab = b.recs[:0], 0, b.slab[:0]
	b.decoder.Reset()
}
