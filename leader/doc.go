// Package leader is the core of a server that was elected: it agrees on an epoch with a quorum, brings learners into line, and then
// numbers, proposes and commits what clients ask for. It is pure: events in, effects out, time an argument.
//
//	DISCOVERY ─quorum of FOLLOWERINFO─▶ Ea=e on disk ─▶ LEADERINFO ─quorum of ACKEPOCH─▶ SYNCHRONIZATION
//	   SYNCHRONIZATION: Ec=e on disk, plans, streams, NEWLEADER ─quorum of ACK(NEWLEADER)─▶ BROADCAST ─▶ DRAINING
//
//	request ─admission─▶ Prepare … Prepared ─▶ zxid, prev, chain ─▶ own log and every cursor ─▶ ACKs ─▶ commit ─▶ Apply
//
//	leader.go    Step and phases               links.go      connections of learners, frames
//	discovery.go the epoch (R-20…)   sync.go       DIFF, TRUNC or SNAP: a pure choice
//	learner.go   one learner and its plan      cursor.go     its place in the stream, its window
//	broadcast.go propose, count, commit        admit.go      what is let in, what is refused
//	pulse.go     pings, silence, step-down     rounds.go     SYNC and REVALIDATE (§13.1, R-48)
//	handover.go  drain, name a successor, re-epoch (§16)
//
// A learner has one cursor. It starts at the common point of both histories and never jumps, so the stream that a learner sees has
// no hole and no repeat whatever the plan was; NEWLEADER is put where the cursor crosses the end of the initial history.
//
// Invariants:
//
//	match <= sent <= End         of every learner, and match grows only by acks
//	Commit only grows, only in the own epoch once established, only to what a quorum with Ec = e has on disk
//	LEADERINFO only after Ea = e is durable (O1), NEWLEADER only after Ec = e is (O3)
//	nothing is emitted after Leave is set
//
// Source: Junqueira, Reed, Serafini, "Zab" (DSN 2011), and Zab 1.0; the differences are in docs/protocol.md.
package leader
