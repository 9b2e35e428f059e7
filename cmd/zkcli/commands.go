package main

import (
	"context"
)

// command is one word of the shell. Usage, help, the man page, completion and the parser are all made from it.
type command struct {
	name    string
	usage   string // arguments, as zkCli.sh shows them
	summary string // one sentence without a full stop
	options []option
	least   int  // arguments that must be there
	paths   int  // how many of the first arguments are paths of nodes, for completion
	offline bool // needs no session
	raw     bool // takes its words as they are, options too
	run     func(ctx context.Context, sh *shell, a *arguments) (result, error)
}

// option is one option of a command: a letter, a long name, or both.
type option struct {
	letter string
	long   string
	arg    string // what it takes, "" for nothing; kind tells how it is checked
	kind   kind
	help   string
}

// kind is how an option's argument is checked.
type kind uint8

const (
	text kind = iota
	version
	number
	duration
	file // completed by the system's shell
)

// The options that several commands share.
var (
	optStat    = option{letter: "s", help: "show the node's stat too"}
	optWatch   = option{letter: "w", help: "watch the node, once"}
	optVersion = option{letter: "v", arg: "version", kind: version, help: "only if the node has this version"}
	optFile    = option{long: "file", arg: "FILE", kind: file, help: "take the data from a file, byte for byte; - is standard input"}
	optDepth   = option{letter: "d", long: "depth", arg: "N", kind: number, help: "go no deeper than N levels"}
	optBase64  = option{letter: "b", help: "the data is base64"}
	optAuth    = option{long: "auth", arg: "USER:PASSWORD", help: "digest identity on the other servers; on ours addauth gives it"}
	optParents = option{letter: "p", long: "parents", help: "make the missing nodes above the target"}
	optTimeout = option{long: "timeout", arg: "DURATION", kind: duration, help: "give up after this time, with exit code 3"}
)

// commands returns all of them in the order of help: those of zkCli.sh first, by name, then ours.
func commands() []command {
	return append(classicCommands(), ownCommands()...)
}

func classicCommands() []command {
	return []command{
		{name: "addWatch", usage: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE",
			summary: "Report every change of a node, or of a whole subtree, until removewatches", least: 1, paths: 1, run: addWatch,
			options: []option{{letter: "m", arg: "mode", help: "PERSISTENT or PERSISTENT_RECURSIVE"}}},
		{name: "addauth", usage: "scheme auth", summary: "Give the session another identity, such as: addauth digest user:password",
			least: 1, run: addAuth},
		{name: "close", summary: "End the session", run: closeSession, offline: true},
		{name: "config", usage: "[-c] [-w] [-s]", summary: "Show the ensemble's configuration", run: showConfig,
			options: []option{{letter: "c", help: "show only version and client connect string"}, optWatch, optStat}},
		{name: "connect", usage: "host:port", summary: "Open a session with other servers", run: connect, offline: true},
		{name: "create", usage: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", summary: "Make a node", least: 1, paths: 1, run: create,
			options: []option{{letter: "s", help: "append a number that is unique below the parent"},
				{letter: "e", help: "ephemeral: deleted when the session ends"},
				{letter: "c", help: "container: deleted some time after its last child"},
				{letter: "t", arg: "ttl", kind: number, help: "deleted when left alone for ttl milliseconds"},
				{letter: "p", long: "parents", help: "make missing parents, and no fuss if the node is there and no data is given"}, optBase64, optFile}},
		{name: "delete", usage: "[-v version] path", summary: "Delete a node without children", least: 1, paths: 1, run: deleteNode,
			options: []option{optVersion}},
		{name: "deleteall", usage: "path [-b batch size]", summary: "Delete a node and everything below it", least: 1, paths: 1, run: deleteAll,
			options: []option{{letter: "b", arg: "size", kind: number, help: "nodes in one transaction, 1000 unless given"}}},
		{name: "delquota", usage: "[-n|-b|-N|-B] path", summary: "Take a quota away, or one of its limits", least: 1, paths: 1, run: delQuota,
			options: quotaOptions("")},
		{name: "get", usage: "[-s] [-w] [-b] [-x] path", summary: "Show a node's data", least: 1, paths: 1, run: get,
			options: []option{optStat, optWatch, {letter: "b", help: "show the data as base64"}, {letter: "x", help: "show the data as a hex dump"},
				{long: "raw", help: "the bytes and nothing else, not even a newline"},
				{long: "out", arg: "FILE", kind: file, help: "write the bytes to a file; - is standard output"}}},
		{name: "getAcl", usage: "[-s] path", summary: "Show a node's access control list", least: 1, paths: 1, run: getACL, options: []option{optStat}},
		{name: "getAllChildrenNumber", usage: "path", summary: "Count the nodes below a node", least: 1, paths: 1, run: getAllChildrenNumber},
		{name: "getEphemerals", usage: "path", summary: "List this session's ephemeral nodes whose paths begin with path", paths: 1, run: getEphemerals},
		{name: "history", summary: "Show the last commands", run: history, offline: true},
		{name: "listquota", usage: "path", summary: "Show a node's quota and usage", least: 1, paths: 1, run: listQuota},
		{name: "ls", usage: "[-s] [-w] [-R] path", summary: "List the children of a node", least: 1, paths: 1, run: ls,
			options: []option{optStat, optWatch, {letter: "R", help: "list the whole subtree, one path a line"}}},
		{name: "printwatches", usage: "on|off", summary: "Show or hide the events of watches", run: printWatches, offline: true},
		{name: "quit", summary: "End the session and the shell; exit does the same", run: quit, offline: true},
		{name: "reconfig", usage: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | " +
			"[-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]", summary: "Change the ensemble's members", run: reconfig,
			options: []option{optStat, {letter: "v", arg: "version", kind: text, help: "hexadecimal version of the configuration it is based on"},
				{long: "file", arg: "path", kind: file, help: "file with the new members"}, {long: "members", arg: "list", help: "the new members"},
				{long: "add", arg: "list", help: "members that join"}, {long: "remove", arg: "list", help: "members that leave"}}},
		{name: "redo", usage: "cmdno", summary: "Carry out a command of the history again", least: 1, run: redo, offline: true},
		{name: "removewatches", usage: "path [-c|-d|-a] [-l]", summary: "Remove watches of this session", least: 1, paths: 1, run: removeWatches,
			options: []option{{letter: "c", help: "watches of children"}, {letter: "d", help: "watches of data"}, {letter: "a", help: "all, which is the default"},
				{letter: "l", help: "only here, whatever the server says"}}},
		{name: "set", usage: "path data [-s] [-v version] [-b]", summary: "Replace a node's data", least: 1, paths: 1, run: set,
			options: []option{optStat, optVersion, optBase64, optFile}},
		{name: "setAcl", usage: "[-s] [-v version] [-R] path acl", summary: "Replace a node's access control list, such as: setAcl /a world:anyone:r",
			least: 2, paths: 1, run: setACL, options: []option{optStat, optVersion, {letter: "R", help: "also everywhere below"}}},
		{name: "setquota", usage: "-n|-b|-N|-B val path", summary: "Limit a subtree", least: 1, paths: 1, run: setQuota, options: quotaOptions("val")},
		{name: "stat", usage: "[-w] path", summary: "Show a node's stat", least: 1, paths: 1, run: stat, options: []option{optWatch}},
		{name: "sync", usage: "path", summary: "Wait until the server knows everything that was committed", least: 1, paths: 1, run: syncNode},
		{name: "version", summary: "Show zkcli's version", run: showVersion, offline: true},
		{name: "whoami", summary: "Show the identities of the session", run: whoAmI},
	}
}

func quotaOptions(arg string) []option {
	k := text
	if arg != "" {
		k = number
	}
	return []option{
		{letter: "n", arg: arg, kind: k, help: "nodes, logged when exceeded"}, {letter: "b", arg: arg, kind: k, help: "bytes of data, logged when exceeded"},
		{letter: "N", arg: arg, kind: k, help: "nodes, refused when exceeded"}, {letter: "B", arg: arg, kind: k, help: "bytes of data, refused when exceeded"},
	}
}

func ownCommands() []command {
	return []command{
		{name: "bench", usage: "workload [flags]", summary: "Measure throughput and latency of the servers; bench --help lists workloads and flags",
			run: benchCommand, offline: true, raw: true},
		{name: "completion", usage: "bash|zsh|fish", summary: "Print a completion script for a system shell", least: 1, run: completionScript, offline: true},
		{name: "cp", usage: "[-a] [-f] [-p] source target", summary: "Copy a subtree; host:port,…/path names a node on other servers", least: 2, paths: 2, run: cp,
			options: []option{{letter: "a", help: "copy the access control lists too"}, {letter: "f", help: "write into a target that is there, replacing data"}, optParents, optAuth}},
		{name: "diff", usage: "[-a] one other", summary: "Compare two subtrees, or a subtree and an export (file:PATH if PATH begins with /); exit code 3 if they differ", least: 2, paths: 2, run: diff,
			options: []option{{letter: "a", help: "compare the access control lists too"}, optAuth}},
		{name: "du", usage: "[-d depth] path", summary: "Count nodes and bytes below a node", least: 1, paths: 1, run: du, options: []option{optDepth}},
		{name: "edit", usage: "path", summary: "Change a node's data in $EDITOR; refused if somebody changed it meanwhile", least: 1, paths: 1, run: edit},
		{name: "export", usage: "path [file]", summary: "Write a subtree as JSON lines, for import and diff", least: 1, paths: 1, run: export},
		{name: "find", usage: "path [glob]", summary: "List the nodes below path whose names, or paths if the glob has a slash, match", least: 1, paths: 1, run: find,
			options: []option{optDepth, {letter: "e", help: "only ephemeral nodes"}, {long: "larger", arg: "BYTES", kind: number, help: "only nodes with more data"},
				{long: "older", arg: "DURATION", kind: duration, help: "only nodes whose data is older"}}},
		{name: "help", usage: "[command]", summary: "Explain all commands or one", run: help, offline: true},
		{name: "import", usage: "[-a] [-f] [-p] path [file]", summary: "Make the subtree that export wrote", least: 1, paths: 1, run: importTree,
			options: []option{{letter: "a", help: "restore the access control lists too"}, {letter: "f", help: "write into nodes that are there, replacing data"}, optParents}},
		{name: "man", summary: "Print the manual page", run: manPage, offline: true},
		{name: "mv", usage: "[-a] [-p] source target", summary: "Move a subtree, in one transaction if it is small", least: 2, paths: 2, run: mv,
			options: []option{{letter: "a", help: "keep the access control lists"}, optParents}},
		{name: "status", summary: "Show role, epoch, zxid, lag, latency and connections of every server", run: status, offline: true},
		{name: "top", usage: "[-n rounds]", summary: "Show the load of every server, the hottest paths and the busiest sessions, refreshed in place", run: top,
			options: []option{{letter: "n", arg: "rounds", kind: number, help: "stop after so many"}, {long: "interval", arg: "DURATION", kind: duration, help: "between two, 1s unless given"}}},
		{name: "tree", usage: "[-d depth] path", summary: "Draw a subtree with counts and sizes", least: 1, paths: 1, run: tree, options: []option{optDepth}},
		{name: "wait", usage: "path condition", summary: "Wait until a node exists, is gone, has a value or a number of children", least: 1, paths: 1, run: wait,
			options: []option{{long: "exists", help: "until the node is there, which is the default"}, {long: "gone", help: "until it is not"},
				{long: "value", arg: "TEXT", help: "until it has this data"}, {long: "children", arg: "N", kind: number, help: "until it has at least N children"}, optTimeout}},
		{name: "watch", usage: "[-m mode] path", summary: "Print one line for every change until Ctrl-C", least: 1, paths: 1, run: watchCommand,
			options: []option{{letter: "m", arg: "mode", help: "PERSISTENT or PERSISTENT_RECURSIVE, which is the default"},
				{letter: "n", arg: "events", kind: number, help: "end after so many"}, optTimeout}},
	}
}

func findCommand(name string) *command {
	if name == "exit" {
		name = "quit"
	}
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

func checkCommand(name string) error {
	if findCommand(name) != nil {
		return nil
	}
	text := "Command not found: Command not found " + name
	if instead := gone[name]; instead != "" {
		text += "\nIt left zkCli.sh with version 3.6; " + instead + " is what it did."
	}
	return spoken(text)
}

// gone are commands that zkCli.sh once had.
var gone = map[string]string{"rmr": "deleteall", "ls2": "ls -s"}
