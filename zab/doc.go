// Package zab holds what the servers of an ensemble say to each other and what their cores are told and ask for. It lets leader
// and follower talk without importing each other, and quorum import both.
//
//	words     server.go majority.go vote.go hardstate.go config.go status.go
//	packets   packet.go codec.go        what goes over the wire between peers
//	cores     event.go effects.go       what goes between a pure core and its shell
//	memory    history.go local.go       what one server knows of itself, handed from role to role
//
// The protocol is Zab 1.0 (Junqueira, Reed, Serafini, "Zab: High-performance broadcast for primary-backup systems", DSN 2011) with the
// differences that docs/protocol.md lists. Rules R-n, O-n and invariants I-n in comments are numbered there.
//
// A frame between peers:
//
//	length u32 | crc32c u32 | type u8 | flags u8 | version u16 | epoch u32 | body
//
// length counts everything behind itself and is checked before anything is allocated; the checksum covers everything behind
// itself. The body is msgpack, except that records travel as the very bytes that the leader's log holds:
//
//	PROPOSE, INFORM:  commit u64 | record | record | …
//
// Everything here is a value or is owned by one core; nothing is safe for concurrent use by itself.
package zab
