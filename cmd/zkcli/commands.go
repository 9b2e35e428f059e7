package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/pkg/client"
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
