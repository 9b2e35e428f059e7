// Package tour takes the Go client github.com/go-zookeeper/zk through what its
// users need from a server: the basic calls, watches, ephemerals, sequences,
// multi, ACLs, sync through each member of an ensemble; then sessions that
// survive a cut connection, the client's Lock, and a leader election.
//
// Each check is a function that returns an error, run by checker.step, which
// gives it stepTimeout and turns what it returns into one line:
//
//	Run ─▶ member 0 ─▶ connect, create, ... ┐
//	    ─▶ member 1 ─▶ ...                  ├─▶ log(ok, "m1/watch-data", "")
//	    ─▶ across members ─▶ lock, ...      ┘
//
// Invariants: Run ends whatever the server does, because every step has a
// bound; it leaves no znode behind on a server that passed; a step that runs
// out of time is a failure, and its connection is closed so that its goroutine
// ends too.
package tour
