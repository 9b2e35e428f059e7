// Command compare runs zkd beside Apache ZooKeeper on one machine and prints what each costs.
//
//	go run ./bench/compare                     everything, three rounds; hours on a small machine
//	go run ./bench/compare -rows set-1x1,fill -rounds 5
//	go run ./bench/compare -short              one short round of some rows: do they run? (exit code 1: no)
//	go run ./bench/compare -from r.json -svg docs/plots -md table.md    tables and plots of an earlier run
//
// In each round every system is started afresh, runs the rows, and is stopped before the next begins, so that what changes on the
// machine meanwhile meets all of them. Systems: zkd, built from this checkout; zk38, ZooKeeper as Debian installs it, if Java and its
// classes are there; zk395, if -zk395 or ZKBENCH_ZK395 names a class path; echo, the floor (package bench/echo) as the same number of
// processes, in rows where a floor makes sense.
//
//	main.go       command, and echo    rows.go     what is run, and what each row must reach
//	options.go    flags                faults.go   kills, handovers, starts
//	system.go     how each is started  grow.go     how costs grow
//	cluster.go    its processes        summary.go  medians, spreads, ratios; table.go: how they are shown
package main
