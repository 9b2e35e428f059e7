package txnlog

import "slices"

const (
	// aheadBytes is how much is written ahead at most, and aheadShare what share of a segment.
	aheadBytes = 256 << 10
	aheadShare = 16
	// smallBatch is the largest batch that is worth it, and smallRun how many of them in a row: zeros before a large one are a waste.
	smallBatch = 64 << 10
	smallRun   = 8
)

// withZeros returns the batch in l.buf, to be written at off, and now and then zeros behind it.
//
// In a file that is only reserved, the first write to a block changes the file's map of blocks, and every sync of such a write costs the
// device a second write for the map, or a commit of the file system's journal. Where zeros were written, a batch changes nothing but its
// own blocks. So a small batch that reaches what is only reserved takes some of that with it; the next ones find it written. Large
// batches spread the cost of their own accord. On a file system that copies on write the zeros would use up the space that was reserved for
// the batch, and gain nothing. A reader cannot tell written zeros from reserved ones, before or after a crash.
func (l *Log) withZeros(off int64) []byte {
	n := int64(len(l.buf))
	if l.small++; n > smallBatch {
		l.small = 0
	}
	end := off + n
	if end <= l.ahead {
		return l.buf
	}
	l.ahead = end
	zeros := min(aheadBytes, roundUp(l.size/aheadShare), l.size-end)
	if l.small < smallRun || zeros <= 0 {
		return l.buf
	}
	l.ahead += zeros
	l.buf = slices.Grow(l.buf, int(zeros))
	b := l.buf[:n+zeros]
	clear(b[n:])
	return b
}
