package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// command is one word of the shell. run gets the arguments without the options.
type command struct {
	name    string
	usage   string // arguments, as help shows them
	options string // letters; v and b take a number, the others nothing
	least   int    // arguments
	run     func(ctx context.Context, sh *shell, a *arguments) (result, error)
}

// arguments are what followed the command's name.
type arguments struct {
	set     map[byte]bool
	version int32 // -v, AnyVersion if not given
	batch   int   // -b
	rest    []string
}

func (a *arguments) path() string { return a.rest[0] }

// arg returns an optional argument, "" if it was not given.
func (a *arguments) arg(i int) string {
	if i < len(a.rest) {
		return a.rest[i]
	}
	return ""
}

// commands returns all of them in the order of help. Quit and history are about the shell itself.
func commands() []command {
	return []command{
		{"addauth", "scheme auth", "", 1, addAuth},
		{"create", "[-s] [-e] [-c] path [data] [acl]", "sec", 1, create},
		{"delete", "[-v version] path", "v", 1, deleteNode},
		{"deleteall", "path [-b batch size]", "b", 1, deleteAll},
		{"get", "[-s] [-w] path", "sw", 1, get},
		{"getAcl", "[-s] path", "s", 1, getACL},
		{"help", "", "", 0, help},
		{"history", "", "", 0, history},
		{"ls", "[-s] [-w] [-R] path", "swR", 1, ls},
		{"quit", "", "", 0, quit},
		{"set", "[-s] [-v version] path data", "sv", 2, set},
		{"setAcl", "[-s] [-v version] [-R] path acl", "svR", 2, setACL},
		{"stat", "[-w] path", "w", 1, stat},
		{"sync", "path", "", 1, syncNode},
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
	if findCommand(name) == nil {
		return spoken("Command not found: Command not found " + name)
	}
	return nil
}

func (c *command) usageLine() string { return c.name + " " + c.usage }

// parse takes options wherever they stand, as zkCli.sh does; after "--" everything is an argument.
func (c *command) parse(args []string) (*arguments, error) {
	a := &arguments{set: make(map[byte]bool), version: client.AnyVersion, batch: defaultBatch}
	fs := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, letter := range []byte(c.options) {
		long := "option-" + string(letter)
		switch letter {
		case 'v':
			fs.Int32VarP(&a.version, long, "v", a.version, "")
		case 'b':
			fs.IntVarP(&a.batch, long, "b", a.batch, "")
		default:
			fs.BoolP(long, string(letter), false, "")
		}
	}
	if err := fs.Parse(args); err != nil {
		return nil, &usageError{command: c, reason: optionFault(err)}
	}
	fs.Visit(func(f *pflag.Flag) { a.set[f.Shorthand[0]] = true })
	a.rest = fs.Args()
	if len(a.rest) < c.least {
		return nil, &usageError{command: c}
	}
	return a, nil
}

// optionFault is what zkCli.sh says of an option that it does not understand.
func optionFault(err error) string {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return "Unrecognized option: -" + unknown.GetSpecifiedName()
	case errors.As(err, &invalid):
		return fmt.Sprintf("Not a number: %s", invalid.GetValue())
	case errors.As(err, &missing):
		return "Missing argument for option: " + missing.GetSpecifiedName()
	}
	return err.Error()
}

// usageError is a command that was not understood.
type usageError struct {
	command *command
	reason  string // "" if the usage says it all
}

func (e *usageError) Error() string {
	if e.reason == "" {
		return e.command.usageLine()
	}
	return e.reason + "\n" + e.command.usageLine()
}

// oldForm notes that a command was given an argument in a place that an option has taken over.
func oldForm(old, instead string) string {
	return fmt.Sprintf("'%s' has been deprecated. Please use '%s' instead.\n", old, instead)
}

func get(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if a.arg(1) != "" {
		res.note = oldForm("get path [watch]", "get [-s] [-w] path")
		a.set['w'] = true
	}
	data, st, err := sh.read(ctx, a.path(), a.set['w'])
	if err != nil {
		return res, err
	}
	res.field("data", data)
	if a.set['s'] || sh.json {
		res.stat(&st)
	}
	res.text = dataText(data)
	if a.set['s'] {
		res.text += statText(&st)
	}
	return res, nil
}

// read is Get or GetW, whose watch the shell then follows.
func (sh *shell) read(ctx context.Context, path string, watch bool) ([]byte, client.Stat, error) {
	if !watch {
		return sh.c.Get(ctx, path)
	}
	data, st, w, err := sh.c.GetW(ctx, path)
	sh.follow(w)
	return data, st, err
}

func (sh *shell) children(ctx context.Context, path string, watch bool) ([]string, client.Stat, error) {
	var names []string
	var st client.Stat
	var err error
	if watch {
		var w *client.Watch
		names, st, w, err = sh.c.ChildrenW(ctx, path)
		sh.follow(w)
	} else {
		names, st, err = sh.c.Children(ctx, path)
	}
	slices.Sort(names)
	return names, st, err
}

func ls(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if a.arg(1) != "" {
		res.note = oldForm("ls path [watch]", "ls [-w] path")
		a.set['w'] = true
	}
	if a.set['R'] {
		paths, refused, err := sh.subtree(ctx, a.path(), a.set['w'])
		if err != nil {
			return res, err
		}
		res.field("paths", paths)
		res.text = strings.Join(paths, "\n") + "\n"
		return res, errors.Join(refused...)
	}
	names, st, err := sh.children(ctx, a.path(), a.set['w'])
	if err != nil {
		return res, err
	}
	res.field("children", append([]string{}, names...))
	res.text = "[" + strings.Join(names, ", ") + "]\n"
	if a.set['s'] {
		res.text += statText(&st)
	}
	if a.set['s'] || sh.json {
		res.stat(&st)
	}
	return res, nil
}

func stat(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if a.arg(1) != "" {
		res.note = oldForm("stat path [watch]", "stat [-w] path")
		a.set['w'] = true
	}
	var st client.Stat
	var found bool
	var err error
	if a.set['w'] {
		var w *client.Watch
		st, found, w, err = sh.c.ExistsW(ctx, a.path())
		sh.follow(w)
	} else {
		st, found, err = sh.c.Exists(ctx, a.path())
	}
	if err != nil {
		return res, err
	}
	if !found {
		return res, &client.OpError{Op: proto.OpExists, Path: a.path(), Err: client.ErrNoNode}
	}
	res.stat(&st)
	res.text = statText(&st)
	return res, nil
}

func set(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if v := a.arg(2); v != "" { // set path data version, the old form
		n, err := parseVersion(v)
		if err != nil {
			return res, &usageError{findCommand("set"), err.Error()}
		}
		a.version = n
	}
	st, err := sh.c.Set(ctx, a.path(), []byte(a.rest[1]), a.version)
	if err != nil {
		return res, err
	}
	res.stat(&st)
	if a.set['s'] {
		res.text = statText(&st)
	}
	return res, nil
}

func create(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	mode := client.Persistent
	switch {
	case a.set['c'] && (a.set['s'] || a.set['e']):
		return res, &usageError{findCommand("create"),
			"-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential."}
	case a.set['c']:
		mode = client.Container
	case a.set['e'] && a.set['s']:
		mode = client.EphemeralSequential
	case a.set['e']:
		mode = client.Ephemeral
	case a.set['s']:
		mode = client.PersistentSequential
	}
	var data []byte // nil, which get shows as null, if there is no such argument
	if len(a.rest) > 1 {
		data = []byte(a.rest[1])
	}
	acl := client.WorldACL(client.PermAll)
	if len(a.rest) > 2 {
		var err error
		if acl, err = parseACL(a.rest[2]); err != nil {
			return res, err
		}
	}
	path, err := sh.c.Create(ctx, a.path(), data, mode, acl)
	if err != nil {
		return res, err
	}
	res.field("path", path)
	res.note = "Created " + path + "\n"
	return res, nil
}

func syncNode(ctx context.Context, sh *shell, a *arguments) (result, error) {
	if err := sh.c.Sync(ctx, a.path()); err != nil {
		return result{}, err
	}
	return result{text: "Sync is OK\n"}, nil
}

func addAuth(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var auth []byte
	if len(a.rest) > 1 {
		auth = []byte(a.rest[1])
	}
	return result{}, sh.c.AddAuth(ctx, a.rest[0], auth)
}

func help(context.Context, *shell, *arguments) (result, error) {
	var res result
	var usages []string
	for _, c := range commands() {
		usages = append(usages, c.usageLine())
	}
	res.field("usage", usages)
	res.text = helpText()
	return res, nil
}

func helpText() string {
	var b strings.Builder
	b.WriteString("zkcli [--server host:port,…[/chroot]] [--timeout 30s] [--output text|json] [COMMAND ARG…]\n")
	for _, c := range commands() {
		b.WriteString("\t" + c.usageLine() + "\n")
	}
	return b.String()
}

// history shows the last commands with the numbers that the prompt gave them.
func history(_ context.Context, sh *shell, _ *arguments) (result, error) {
	const shown = 11
	var res result
	var b strings.Builder
	first := max(len(sh.past)-shown, 0)
	for i, line := range sh.past[first:] {
		fmt.Fprintf(&b, "%d - %s\n", first+i, line)
	}
	res.field("history", append([]string{}, sh.past[first:]...))
	res.text = b.String()
	return res, nil
}

func quit(_ context.Context, sh *shell, _ *arguments) (result, error) {
	sh.quitting = true
	return result{}, nil
}
