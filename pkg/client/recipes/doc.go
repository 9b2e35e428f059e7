// Package recipes is what the recipes below it share: a waiting line.
//
//	recipes/lock       lock, read-write lock, semaphore
//	recipes/election   leader election with observers
//	recipes/barrier    barrier, double barrier
//	recipes/queue      queue with priorities
//	recipes/counter    counter
//	recipes/presence   ephemeral node that survives its session, group membership
//	recipes/cache      local copies of a node, of children, of a subtree
//	recipes/settings   a set of values read and written as one
//
// A waiting line is a node whose children are ephemeral and numbered:
//
//	/line/6f3a…__lock__0000000007      first, holds whatever there is to hold
//	/line/b01c…__lock__0000000008      waits for 7 to go
//	/line/9d55…__lock__0000000009      waits for 8 to go
//
// Everyone watches only the one that it waits for, so that a departure wakes one client. The names are those that kazoo,
// Curator and go-zookeeper give, so that clients of different languages stand in one line.
//
// Fencing tokens. A session can expire without its client knowing for a while: the process was stopped, or the network
// is cut. The client then still believes that it holds the lock, and another one does hold it. No client can exclude
// that; the resource can, if every request to it carries a token that grows with every holder and it refuses one that
// is lower than the highest it has seen. The token is the number of the transaction that created the holder's node: it
// grows with every place taken in the whole ensemble, so it can be compared between lines too.
//
// Invariants: a place is taken at most once per Join, even if the connection breaks while the answer is on its way, because
// the name holds an id that is looked for afterwards; a place that Join or Wait could not keep is given back, or goes with
// the session.
package recipes
