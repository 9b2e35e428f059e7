// Command zkcli is a shell for zkd and for Apache ZooKeeper.
//
//	zkcli [--server host:port,…[/chroot]] [--timeout 30s] [--output text|json] [COMMAND ARG…]
//
// With a command it carries it out and ends; without one it reads commands from standard input, with a prompt, line
// editing and history if that is a terminal. It takes the options and commands of zkCli.sh too, and prints what that
// prints:
//
//	standard output   data, and events of watches
//	standard error    everything else: confirmations, faults, changes of the session's state
//	exit code         0 done, 1 a command failed, 2 wrong usage
//
// With --output json every command prints one JSON object on one line, and so does every event of a watch.
//
// Where zkCli.sh carries on with half of what it understood, zkcli refuses: an access control list with a mistake in one
// entry, a version that is no number.
package main
