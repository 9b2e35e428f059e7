// Package statemachine turns requests into transactions, and transactions into answers. It is the replicated state of one
// server: the tree of znodes, the table of sessions and the zxid at which they stand. It is pure: memory only.
//
//	leader:   Request ──Prepare──▶ Draft (an encoded Txn)      against applied + outstanding; decides everything
//	everyone: Record  ──Apply────▶ Result                      decides nothing, cannot fail
//	          Result  ──AppendReply──▶ the client's reply;  Result.Events ──▶ watches
//	reads:    payload ──Read─────▶ the client's reply, and the watch that it asked for
//	files:    Snapshot().WriteTo, Restore
//
// What is outstanding lives beside the tree, never in it: for each touched path the fields that a check may look at, as they
// will be once everything prepared is applied. Apply drops what its transaction had put there, Abandon drops all.
//
//	length u32 | msgpack head: version, zxid, time, digest, number of sessions and nodes, secret      a snapshot's bytes
//	length u32 | sessions: id i64, timeout i32 …                                                   repeated
//	length u32 | nodes in the order of (parent, name), and the ACLs that appear first there        repeated
//	0 u32
//
// Invariants:
//
//   - The state is a function of the sequence of transactions alone: no clock, configuration or map order gets in. Two
//     kinds of znodes below /zookeeper are not covered by the digest and may differ: config, which shows what a server was started
//     with, and the figures of quotas within quotas, which are counted anew by a server that starts.
//   - A request that fails, a multi too, and one that is refused leave applied + outstanding as they were.
//   - Every Draft that is not refused is applied later in the order of Prepare, or Abandon is called.
//   - Times of transactions never sink.
//
// A Machine has no lock. One goroutine calls Prepare, Apply, Abandon, Snapshot and Restore. Of these, Apply, Snapshot and Restore exclude
// every other call; the others may run beside reads, for they change nothing that a read looks at.
//
// Order of checks and codes follow Apache ZooKeeper 3.9.
package statemachine
