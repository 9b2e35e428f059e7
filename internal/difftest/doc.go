// Package difftest drives two ZooKeeper servers with the same requests, in lockstep, and compares what they answer. One of
// them is zkd; the other is Apache ZooKeeper 3.9.5, or zkd in another role.
//
//	seed ─▶ generator ─▶ steps ─▶ runner ─┬─▶ A ─▶ frames ─▶ fields ─┐
//	                                      └─▶ B ─▶ frames ─▶ fields ─┴─▶ compare ─▶ first difference ─▶ shrink
//
// A step is a connect, an attach, a cut, a burst of pipelined requests on one connection, raw bytes, or a four-letter word.
// The runner takes the next step only when both servers have answered the last one, so both see one order of requests, and
// every frame of a connection has one right place: an event of a change comes before the reply to the next request of the
// connection that gets it.
//
// Every frame becomes a list of named fields, and each field is compared by its kind: most must be equal; zxids and session
// ids must correspond one to one, zxids also in order; times must be there on both sides or on neither; of passwords only
// the length counts. Children, ephemerals, identities and the events of one closing session are sets.
//
// Invariants:
//
//   - The steps depend on nothing but the seed: what depends on a server (session ids, passwords, zxids) is named in a step
//     and filled in by the runner. So a list of steps can be cut down and run again.
//   - A difference that is meant is in differences.go with its reason; a request that may not be sent at all is there, too.
//   - Every wait is bounded: a server that does not answer is a difference.
package difftest
