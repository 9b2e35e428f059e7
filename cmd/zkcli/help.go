package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

func (c *command) usageLine() string { return c.name + " " + c.usage }

// explain is everything about one command.
func (c *command) explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s.\n", strings.TrimSpace(c.usageLine()), c.summary)
	for i, o := range c.options {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %-24s %s\n", o.spelling(), o.help)
	}
	return b.String()
}

// spelling is "-d, --depth N".
func (o *option) spelling() string {
	var forms []string
	if o.letter != "" {
		forms = append(forms, "-"+o.letter)
	}
	if o.long != "" {
		forms = append(forms, "--"+o.long)
	}
	return strings.TrimSpace(strings.Join(forms, ", ") + " " + o.arg)
}

const synopsis = "zkcli [--server host:port,…[/chroot]] [--timeout 30s] [--output text|json] [COMMAND ARG…]"

func helpText() string {
	var b strings.Builder
	b.WriteString(synopsis + "\n")
	for _, c := range commands() {
		b.WriteString("\t" + c.usageLine() + "\n")
	}
	return b.String()
}

// longHelp is what zkcli --help prints: the same table with options and sentences.
func longHelp() string {
	var b strings.Builder
	b.WriteString(synopsis + "\n\nA shell for zkd and for Apache ZooKeeper.\n\nOptions:\n")
	visitOptions(func(spelling, help string) { fmt.Fprintf(&b, "  %-34s %s\n", spelling, help) })
	for _, part := range []struct {
		title string
		list  []command
	}{{"Commands of zkCli.sh", classicCommands()}, {"More commands", ownCommands()}} {
		fmt.Fprintf(&b, "\n%s:\n", part.title)
		for _, c := range part.list {
			fmt.Fprintf(&b, "  %-21s %s\n", c.name, c.summary)
		}
	}
	b.WriteString("\nzkcli help COMMAND tells more. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the answer is no (diff, wait, watch --timeout).\n")
	return b.String()
}

func visitOptions(f func(spelling, help string)) {
	newOptions(new(config)).VisitAll(func(o *pflag.Flag) {
		arg, usage := pflag.UnquoteUsage(o)
		spelling := "--" + o.Name
		if o.Shorthand != "" {
			spelling = "-" + o.Shorthand + ", " + spelling
		}
		f(strings.TrimSpace(spelling+" "+arg), usage)
	})
}

func help(_ context.Context, _ *shell, a *arguments) (result, error) {
	var res result
	if name := a.arg(0); name != "" {
		c := findCommand(name)
		if c == nil {
			return res, wrongUsage("help", checkCommand(name).Error())
		}
		res.field("usage", strings.TrimSpace(c.usageLine()))
		res.field("summary", c.summary)
		res.text = c.explain()
		return res, nil
	}
	var usages []string
	for _, c := range commands() {
		usages = append(usages, strings.TrimSpace(c.usageLine()))
	}
	res.field("usage", usages)
	res.text = helpText()
	return res, nil
}

func manPage(context.Context, *shell, *arguments) (result, error) {
	var res result
	res.text = man()
	res.field("roff", res.text)
	return res, nil
}

// man is the manual page in roff.
func man() string {
	var b strings.Builder
	esc := strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace
	b.WriteString(".TH ZKCLI 1\n.SH NAME\nzkcli \\- shell for zkd and for Apache ZooKeeper\n.SH SYNOPSIS\n" + esc(synopsis) + "\n")
	b.WriteString(".SH DESCRIPTION\nWith a command zkcli carries it out and ends; without one it reads commands from standard input, with a prompt,\n" +
		"completion and history if that is a terminal. Data goes to standard output, everything else to standard error.\n")
	b.WriteString(".SH OPTIONS\n")
	visitOptions(func(spelling, help string) { fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", esc(spelling), esc(help)) })
	b.WriteString(".SH COMMANDS\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, ".SS %s\n%s.\n", esc(strings.TrimSpace(c.usageLine())), esc(c.summary))
		for _, o := range c.options {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", esc(o.spelling()), esc(o.help))
		}
	}
	b.WriteString(".SH KEYS\nTab completes commands, options and paths. Ctrl\\-R puts the latest line of the history that holds what is typed;\n" +
		"again: the one before. Ctrl\\-C ends the command that runs or drops the line, Ctrl\\-D the shell.\n")
	b.WriteString(".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nIf not empty, no colours.\n.TP\n.B PAGER\nShows what is longer than the screen, less \\-FRX unless set.\n" +
		".TP\n.B EDITOR, VISUAL\nFor edit.\n.TP\n.B ZKCLI_HISTORY\nFile of the history, ~/.zkcli_history unless set; empty for none.\n")
	b.WriteString(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 3 the answer is no (diff, wait, watch with \\-\\-timeout).\n")
	return b.String()
}
