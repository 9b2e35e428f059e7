package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/pkg/client"
)

// arguments are what followed the command's name.
type arguments struct {
	values map[string]string // of the options given, by letter, or by long name if there is no letter
	rest   []string
}

func (a *arguments) path() string { return a.arg(0) }

// arg returns an argument, "" if it was not given.
func (a *arguments) arg(i int) string {
	if i < len(a.rest) {
		return a.rest[i]
	}
	return ""
}

// has reports whether an option was given.
func (a *arguments) has(name string) bool { _, ok := a.values[name]; return ok }

func (a *arguments) str(name string) string { return a.values[name] }

// number returns what an option of kind number says, otherwise if it was not given.
func (a *arguments) number(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(a.values[name], 10, 64); err == nil {
		return n
	}
	return otherwise
}

func (a *arguments) duration(name string, otherwise time.Duration) time.Duration {
	if d, err := parseDuration(a.values[name]); err == nil {
		return d
	}
	return otherwise
}

// version returns -v, AnyVersion if it was not given.
func (a *arguments) version() int32 { return int32(a.number("v", int64(client.AnyVersion))) }

func (o *option) key() string {
	if o.letter != "" {
		return o.letter
	}
	return o.long
}

// parse takes options wherever they stand, as zkCli.sh does; after "--" everything is an argument. Long options may begin
// with one dash, as zkCli.sh has them.
func (c *command) parse(args []string) (*arguments, error) {
	a := &arguments{values: make(map[string]string)}
	if c.raw {
		a.rest = slices.Clone(args)
		return a, nil
	}
	fs := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, o := range c.options {
		long := o.long
		if long == "" {
			long = "option-" + o.letter
		}
		v := &optionValue{option: o, into: a.values}
		f := fs.VarPF(v, long, o.letter, "")
		if o.arg == "" {
			f.NoOptDefVal = "true"
		}
	}
	if err := fs.Parse(c.oldSpelling(args)); err != nil {
		return nil, &usageError{command: c, reason: optionFault(err)}
	}
	a.rest = fs.Args()
	if len(a.rest) < c.least {
		return nil, &usageError{command: c}
	}
	return a, nil
}

// wantsHelp reports whether the arguments ask what the command does. A raw command answers that itself.
func (c *command) wantsHelp(args []string) bool { return !c.raw && slices.Contains(args, "--help") }

// oldSpelling doubles the dash of long options with one.
func (c *command) oldSpelling(args []string) []string {
	out := append([]string(nil), args...)
	for i, arg := range out {
		name, single := strings.CutPrefix(arg, "-")
		for _, o := range c.options {
			if single && o.long != "" && name == o.long && len(name) > 1 {
				out[i] = "-" + arg
			}
		}
	}
	return out
}

// optionValue checks and keeps what one option was given.
type optionValue struct {
	option option
	into   map[string]string
}

func (v *optionValue) Type() string   { return "" }
func (v *optionValue) String() string { return "" }
func (v *optionValue) Set(s string) error {
	var err error
	switch v.option.kind {
	case version:
		_, err = parseVersion(s)
	case number:
		_, err = strconv.ParseInt(s, 10, 64)
	case duration:
		_, err = parseDuration(s)
	}
	v.into[v.option.key()] = s
	return err
}

// parseDuration takes a plain number as seconds.
func parseDuration(s string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(n * float64(time.Second)), nil
	}
	return time.ParseDuration(s)
}

func parseVersion(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, spoken("Not a number: " + s)
	}
	return int32(n), nil
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

func wrongUsage(name, reason string) error { return &usageError{findCommand(name), reason} }

// oldForm notes that a command was given an argument in a place that an option has taken over.
func oldForm(old, instead string) string {
	return fmt.Sprintf("'%s' has been deprecated. Please use '%s' instead.\n", old, instead)
}
