// Package session keeps what servers know of clients' sessions: pure, in memory, time an argument.
//
//	Table      replicated: which sessions there are, their timeouts, the ensemble's secret; changed by transactions only
//	Tracker    the leader's own: when each session runs out, which server owns it, whether it is ending
//	Generator  ids that no other server and no earlier life of this one hands out
//	Password   proof that a client was given its id: a keyed hash that every member can compute and none stores
//
//	 63      56 55                                16 15             0
//	+----------+------------------------------------+----------------+
//	| ServerID | 40 bits of a clock in milliseconds | starts at zero |   + 1 for each session
//	+----------+------------------------------------+----------------+
//
// Invariants: a session is in the Table from the apply of its createSession to that of its closeSession, on every server
// alike; the expiry of a session lies on a multiple of the tick, strictly later than its last touch plus its timeout and at
// most one tick later; only Tracker.Expired names a session as expired, and it changes nothing in the Table.
package session
