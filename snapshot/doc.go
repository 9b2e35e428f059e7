// Package snapshot keeps verified byte streams in files that are named by a zxid. It knows nothing of trees: whoever writes a
// stream gets exactly those bytes back, or an error.
//
// One file, all numbers big-endian, all sums CRC-32C:
//
//	head     | magic "zkd.snap" 8 | version 4 | zxid 8 | sum of what stands before 4 |
//	block    | length 4, 1 to 256 KiB | sum 4 | data |                 as many as it takes
//	trailer  | 0 4 | blocks 8 | bytes of data 8 | sum of all data 4 | "BenWasHere" | sum 4 |
//
// A block's sum starts from the head's and covers the block's number, its length and its data; the trailer's starts there too and
// covers the trailer. So a block of another snapshot, or one in another place, does not pass. Nothing may follow the trailer.
//
// Names: snap.<zxid in 16 hexadecimal digits>, and the same with .<n>.tmp behind it while it is being written or received. A file
// becomes visible only by a rename, after it was synced and read back. Files with other names are never touched.
//
// Invariants:
//
//   - a Reader hands out a block only after its sum held, and io.EOF only after the trailer held;
//   - only files that were read through count as verified, and only verified ones let older ones go (ZOOKEEPER-1549 and its
//     relatives; docs/protocol.md R-59).
//
// Source: ZooKeeper's snapshots for the end mark, docs/protocol.md §19 and §20 for the rest.
package snapshot
