// Package follower is the core of a server that follows a leader, as a voter or as an observer. It is pure: events in, effects out,
// time an argument.
//
//	Dial ─▶ FOLLOWERINFO ─LEADERINFO─▶ Ea=e on disk ─▶ ACKEPOCH
//	     ─DIFF | TRUNC | SNAP─▶ records ─NEWLEADER─▶ history on disk ─▶ Ec=e on disk ─▶ ACK(NEWLEADER) ─UPTODATE─▶ applied so far ─▶ serve
//
//	follower.go   Step, stages, silence     discovery.go  accept an epoch
//	sync.go       take over a history       broadcast.go  log, ack, commit
//	forward.go    own clients' writes, SYNC and REVALIDATE, on their way to the leader
//	leave.go      how the role ends
//
// Each ─▶ behind "on disk" is a completion reported by the shell, never the request for it: a crash between any two of them leaves a
// state that the next start can stand on.
//
// Invariants:
//
//	what is acked is durable, and nothing is acked before NEWLEADER's ack is out (O6, O7, K04)
//	the log is a prefix of the leader's from the sync header on; before it, no commit of the leader means anything here
//	nothing at or below Applied or the known Commit is ever cut (R-31, I-19)
//	nothing is emitted after Leave is set
//
// An observer promises nothing: it keeps Ea as it is, follows any established leader whose epoch is not below its Ec, and what it
// acks only moves its window (§14).
//
// Source: Junqueira, Reed, Serafini, "Zab" (DSN 2011), and Zab 1.0; the differences are in docs/protocol.md.
package follower
