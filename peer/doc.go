// Package peer runs the pure cores of quorum, leader and follower on goroutines, disks and sockets. It takes no protocol decision: it
// tells the core what happened (events) and carries out what the core asks for (effects), in order.
//
//	           election mesh ─┐                       ┌─▶ disk writer ─▶ txnlog, hard state, snapshots
//	           data streams ──┤                       ├─▶ streams, mesh slots
//	Submit, Sync, Revalidate ─┼─▶ inbox ─▶ loop: Step ┼─▶ StateMachine: Prepare, Apply (on the loop)
//	           disk writer ───┤                       ├─▶ Edge: Serve, Freeze, Refused, Synced, Revalidated
//	           timer ─────────┘                       └─▶ timer
//
// Goroutines. All are started by Run or by what Run started, are in Peer.wg, end when Run's context has ended and the core has
// said Ended (or at once after a fatal error), and are waited for before Run returns:
//
//	loop            one, Run's own: takes turns; see below
//	disk writer     one: carries out disk effects in order, merges adjacent appends into one fsync, reports DiskDone
//	accept          one per listening port; one short-lived goroutine per connection until its hello is through
//	mesh dialler    one per other server; reader and writer per live election connection
//	stream          reader and writer per data connection; a dial in progress
//	snapshot sender one per SendSnapshot; log reader: one per ReadLog
//	space watcher   one: looks at the free space once a second
//	scrubber        one: reads old segments and snapshots through, slowly, once a day
//	snapshotter     at most one: writes a clone of the state to disk, then deletes old files
//	log reader      at a start, within OpenStorage: reads and decodes the log while the state is given what came before (ReadAhead)
//
// A turn is one Step and everything that follows from it; only in a turn are the core, the StateMachine and the Edge called. Turns are
// taken one at a time, under Peer.turning: by the loop for timers and for what clients submit, and by a stream's reader or the disk
// writer itself for what it has just brought, if that is little and no turn is under way. Likewise a turn writes short packets to the
// streams itself as far as the kernel takes them at once. A hop from one goroutine to the next costs more than most turns: several wakes
// of threads, which add up to most of what a lone write costs. A turn must not wait for a reader, the disk writer or a socket.
//
// Files: peer.go the loop; perform.go effects; disk.go the disk writer; snapshots.go taking, sending, receiving; mesh.go, stream.go,
// hello.go the network; snapshot_plan.go when a snapshot begins, storage.go, hardstate.go, manifest.go the data directory (no goroutine without
// ReadAhead: internal/sim runs all of these too).
package peer
