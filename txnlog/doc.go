// Package txnlog keeps the history of transactions on disk: segments of batches of records, where a record is exactly the bytes
// that package txn sealed. It decides what a damaged log means; it knows no peers and no trees.
//
// A segment is the file log.<generation>.<zxid>, both as 16 hexadecimal digits; the zxid is no larger than that of its first
// record. It is preallocated, so that running out of space shows when it is made and not under an acknowledgement:
//
//	0         4096                                                        size
//	┌────────┬──────────┬──────────┬─── … ───┬──────────┬─────────────────┐
//	│ header │ batch    │ batch    │         │ seal     │ zeros           │   every batch starts on a sector boundary (4096)
//	└────────┴──────────┴──────────┴─── … ───┴──────────┴─────────────────┘   and is filled up to the next with zeros
//
// Segment header, 96 bytes, big-endian like everything here:
//
//	magic "zkdlog01" 8 | version u32 | clusterId u64 | generation u64 | life u64 | first zxid u64 | prev zxid u64 |
//	chain u64 at prev | firstSeq u64 | first zxid of the segment before u64 (0: none) | crc of its seal u32 | crc32c u32 of all before |
//	size of the file u64 | crc32c u32 of all before (the last two may be zeros: not known)
//
// Batch, 88 bytes of header, then the body, then 4 bytes of trailer:
//
//	magic "zkdB" 4 | kind u32 | generation u64 | seq u64 | own offset in the file u64 | first zxid u64 | last zxid u64 |
//	prev zxid u64 | chain u64 at last | commit hint u64 | count u32 | body length u32 | crc of the batch before u32 |
//	crc32c u32 of all before
//	records, count of them
//	crc32c u32 of header and body: "the crc of the batch"
//
// Kinds: 1 records. 2 confirm: empty, written to prove that the batch before it is durable; first = last = prev. 3 seal: empty,
// the last of a segment; first names the segment that follows it, last = prev.
//
// seq counts batches through all segments of a generation, without a gap. life counts how often the end of the log was made
// anew (Open after an unclean stop, Truncate): the last segment is then copied up to where it is good and renamed into place
// with the next life, which is the one moment at which the cut happens. Whatever lies behind it with a smaller life was
// superseded and may go, in whatever order the power lets it.
// A segment also names the one before it, so that a purged one whose removal the power undid is told from the log's beginning.
//
// Invariants:
//
//   - Batch k+1 is written after the fsync of batch k returned nil. A valid header of k+1 proves that k was durable.
//   - A segment's header, its size and its name are durable before its predecessor is sealed, and that before its first batch is written.
//   - record n+1 has prev = zxid of n and the chain that follows; the log's end is that of its last record, or its base.
//   - Any error of a write, fsync, rename or removal ends the Log: every later call returns ErrBroken with that first cause.
//     Nothing is tried again, because after a failed fsync the kernel may call pages clean that never reached the disk.
//   - Corruption is reported and nothing is deleted. A torn tail is what one crash explains: an invalid batch j, no valid batch
//     after it anywhere, and no watermark above what stands before it.
//
// One goroutine, the writer, calls everything that changes the log; ReadAfter, ChainAt, BytesAfter, End, Oldest, Bytes, Segments
// and Scrub may be called from any goroutine meanwhile.
//
// The rules are of docs/protocol.md; the log's place in the protocol is described there.
package txnlog
