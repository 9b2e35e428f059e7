// Package server is the edge that ZooKeeper clients talk to: the client port, sessions, watches and four-letter words, and this
// server's copy of the replicated state.
//
//	client ──▶ reader ──┬─ reads ──▶ Machine.Read, its watch registered in the same step ──▶ reply, written by the reader
//	                    └─ writes ─▶ Replicator.Submit …… Replica.Apply ──▶ events, then replies ──▶ flusher ──▶ client
//	peer ──▶ Replica (Prepare, Apply, Snapshot, Restore; touches, expiry, owners)      the state
//	     ──▶ Server  (Serve, Freeze, Refused, Synced, Revalidated)                     the edge
//
// A connection is served in order. While nothing of it waits, a read is executed where its frame lies. Otherwise requests queue:
// writes are submitted at once all the same, reads run when everything before them is answered, and always before a later write of the
// connection is applied: if need be in the apply itself. So a write is not submitted before the reads ahead of it are few (maxAhead): the peer's turn must
// not wait for what one client has piled up. A sync holds back what stands behind it.
//
// Goroutines, and who ends them:
//
//	Run        its caller's; ends with its context; waits for all others
//	sweeper    started by Run; gives up on handshakes and requests that take too long; ends with Run's context
//	fader      started by Run; while this server leads it asks for the deletion of what goes by itself; ends with Run's context
//	reader     one per connection, started by Run; waits for input, room, or a role; ends when the connection is closed
//	flusher    at most one per connection, started by whoever made a reply due that the reader does not write itself; ends when
//	           nothing is left to write; when very many have something to write, one for every 32 of them
//
// Behind a start, or a snapshot that came, a goroutine waits for the order of the znodes and brings on who asked for lists too early; it ends when the order
// is there, which Run does not wait for.
//
// A timer ends the rest of a connection between large writes (pace.go); closing the connection stops it.
//
// The exported methods of Replica, and Serve, Freeze, Refused, Synced and Revalidated of Server, are called in the peer's turns: by its
// loop, or by the goroutine that brought the event, but by one at a time. None waits for a client; Freeze waits for Config.DrainTime at
// most.
//
// Locks, in the order in which they may be taken: Replica.mu (shared by batches of reads, exclusive for a batch of applies and a
// change of role), registry.mu, conn.mu, then watchTable.mu, locals.mu, stats.mu, asks.mu or the Replicator's own. None is held while a
// socket is written.
//
// Invariants:
//
//   - A connection never has two writers, and bytes leave in the order of out.
//   - A notification is in out before any reply that shows its change (I-38).
//   - Nothing is answered unless Replica.serving is true, or readOnly is and the connection is too; never both. No connection outlives a role with something under way.
//   - queue.waiting is the number of entries under way, queue.pending the bytes of their records; Replica.outstanding and outstandingBytes
//     are the sums over all connections.
//   - What a client can make this server remember is bounded: MaxFrame of input, MaxInFlight requests of
//     OutstandingBytes, maxIDs of identity, MaxUnsent of output. Not its watches: as in ZooKeeper it may set as many as it likes.
//
// A local session is one that only this server knows: no transaction opened it. It becomes one of the ensemble when it makes an
// ephemeral: a createSession under its id goes right before that write.
//
// The protocol is Apache ZooKeeper's, 3.9 where versions differ; docs/compatibility.md has the chosen differences.
package server
