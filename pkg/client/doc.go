// Package client is a client of Apache ZooKeeper's protocol, for zkd and for the original from 3.5 on.
//
// One Client is one session. Any number of goroutines may call it; what they ask at the same moment leaves in one write:
//
//	caller ──▶ queue ──▶ writer ──▶ socket ──▶ reader ──▶ caller      matched by the order of the requests
//	  │                    │                     │
//	  ctx                  pings                 watch events: one per Watch, all for a Stream
//
//	Connecting ──▶ Connected ◀──▶ Disconnected       Done is open, calls wait for a server or for their context
//	                   │               │
//	                   └───────┬───────┘
//	             Expired, AuthFailed, Closed           Done is closed, Err says why, calls fail
//
// Goroutines of a Client: the session loop, which connects, then writes, then connects again; for each connection a
// reader, and on a read-only server one that looks for a better one. All end with Close, or when the session ends. Client.mu guards everything they share with the callers and is
// never held across I/O.
//
// Invariants:
//
//   - A request is on the wire at most once. What was sent and not answered when the connection broke fails with
//     ErrConnectionLoss, and OpError.MaybeApplied says whether it may have changed anything; what was not sent yet waits
//     for the next connection.
//   - A Watch gets one event: of its node, or the end of the session. The client re-arms watches on every new connection
//     and the server then sends what happened meanwhile.
//   - A Stream gets every event of its nodes, in order, until it is stopped; where it may have missed some, because the
//     connection was another one or its reader too slow, an EventMissed stands in their place. Nothing else drops events.
//   - After a reconnect the server first gets the credentials, then the watches, then requests.
//   - The session ends only when a server refuses it, when credentials are refused on a new connection, or by Close.
//
// Duties and record formats follow the original's protocol as its clients and servers exchange it.
package client
