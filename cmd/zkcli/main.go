package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/pkg/client"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cfg, err := parseArgs(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, helpText())
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "zkcli: %v\n\n%s", err, helpText())
		return exitUsage
	}
	if len(cfg.command) > 0 {
		if err := checkCommand(cfg.command[0]); err != nil { // before it takes a connection to find out
			fmt.Fprint(stderr, helpText())
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
	}
	sh, err := open(ctx, cfg, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, err)
		if errors.Is(err, client.ErrBadArguments) {
			return exitUsage
		}
		return exitFailed
	}
	defer sh.close()
	if len(cfg.command) > 0 {
		return sh.execute(cfg.command)
	}
	return sh.interact(stdin)
}

// config is what the command line says.
type config struct {
	server  string
	timeout time.Duration // of the session, of the first connect, and for how long to wait for a lost server
	json    bool
	command []string // none: interactive
	client  []client.Option
}

func parseArgs(args []string) (config, error) {
	cfg := config{server: "127.0.0.1:2181", timeout: 30 * time.Second}
	fs := newOptions(&cfg)
	if err := fs.Parse(oldSpelling(args)); err != nil {
		return cfg, err
	}
	cfg.command = fs.Args()
	if cfg.timeout <= 0 {
		return cfg, fmt.Errorf("timeout %v is not positive", cfg.timeout)
	}
	return cfg, nil
}

func newOptions(cfg *config) *pflag.FlagSet {
	fs := pflag.NewFlagSet("zkcli", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SetInterspersed(false) // what follows the command is the command's
	fs.SortFlags = false
	fs.StringVar(&cfg.server, "server", cfg.server, "servers and, after them, the chroot: `host:port,…[/chroot]`")
	fs.Var((*millis)(&cfg.timeout), "timeout", "session timeout, and how long to wait for a server; a plain number is milliseconds")
	fs.Var((*format)(&cfg.json), "output", "text or json")
	fs.BoolP("readonly", "r", false, "accepted for old scripts; zkcli uses no server that only reads")
	fs.Bool("waitforconnection", false, "accepted for old scripts; zkcli always waits for the connection")
	return fs
}

// oldSpelling turns the options of zkCli.sh, which begin with one dash, into ours.
func oldSpelling(args []string) []string {
	out := append([]string(nil), args...)
	for i := 0; i < len(out); i++ {
		switch out[i] {
		case "-server", "-timeout", "-waitforconnection":
			out[i] = "-" + out[i]
		}
		switch out[i] {
		case "--server", "--timeout", "--output":
			i++ // its value
		case "--waitforconnection", "--readonly", "-r":
		default:
			if len(out[i]) == 0 || out[i][0] != '-' {
				return out
			}
		}
	}
	return out
}

// millis is a duration that may be a plain number of milliseconds.
type millis time.Duration

func (m *millis) String() string { return time.Duration(*m).String() }
func (m *millis) Type() string   { return "duration" }
func (m *millis) Set(s string) error {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		*m = millis(time.Duration(n) * time.Millisecond)
		return nil
	}
	d, err := time.ParseDuration(s)
	*m = millis(d)
	return err
}

// format is the value of --output: true for json.
type format bool

func (f *format) Type() string { return "format" }
func (f *format) String() string {
	if *f {
		return "json"
	}
	return "text"
}
func (f *format) Set(s string) error {
	if s != "text" && s != "json" {
		return errors.New("neither text nor json")
	}
	*f = s == "json"
	return nil
}
