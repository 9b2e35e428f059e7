// Command zkcli is a shell for zkd and for Apache ZooKeeper.
//
//	zkcli [--server host:port,…[/chroot]] [--timeout 30s] [--output text|json] [COMMAND ARG…]
//
// With a command it carries it out and ends; without one it reads commands from standard input, with a prompt, line
// editing, completion and history if that is a terminal. It takes the options and commands of zkCli.sh too, and prints what
// that prints:
//
//	standard output   data, and events of watches
//	standard error    everything else: confirmations, faults and hints, progress, changes of the session's state
//	exit code         0 done, 1 a command failed, 2 wrong usage, 3 the answer is no (diff, wait, watch --timeout)
//
//	commands.go ──▶ arguments.go  parses       one table of commands and options
//	            ──▶ help.go       help, --help, the man page
//	            ──▶ completion.go Tab, and the scripts for bash, zsh and fish
//
// With --output json every command prints one JSON object on one line, and so does every event of a watch.
//
// Where zkCli.sh carries on with half of what it understood, zkcli refuses: an access control list with a mistake in one
// entry, a version that is no number.
//
// Goroutines: the shell's own carries out commands; one follows the session's state, one each watch that prints events, one
// the progress of a long command. shell.close and progress.end wait for them.
package main
