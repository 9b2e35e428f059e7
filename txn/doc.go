// Package txn is the ground floor that four parties share: the leader numbers transactions, datatree applies them, txnlog
// stores them, zab carries them. It knows what a transaction is and how it looks in bytes, and nothing of who keeps it.
//
// A transaction is the outcome of a request, not the request: the final name, the version, the time, or the error. Applying it
// can therefore not fail and decides nothing. It is encoded once, by the leader, into a record:
//
//	length u32 | crc32c u32 | zxid u64 | prev u64 | chain u64 | payload: msgpack of Header, then of the body
//
// length counts everything after itself. The checksum runs over the payload first and then over zxid, prev and chain, so that
// the checksum of the payload alone is known on the way; chain mixes it and the zxid into the predecessor's chain. Two logs
// that agree on the chain at a zxid agree on everything up to it. All integers are big-endian.
//
// Invariants of a sequence of records: prev is the zxid of the record before (0 for the first of a history);
// inside an epoch counters are contiguous and start at 1; zxid > prev; chain = Chain(chain before, zxid, payload checksum).
package txn
