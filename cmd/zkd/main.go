// Command zkd is the server: one member of an ensemble, or all of one on loopback for development.
//
//	zkd --config zoo.cfg      one server, configured as for Apache ZooKeeper
//	zkd                       one standalone server on 127.0.0.1:2181, data in ./zkd-data
//	zkd dev                   three servers on loopback in one process
//	zkd config check FILE     what would be used, ignored, wrong
//	zkd log dump FILE…        the transactions in log segments
//	zkd snapshot dump FILE    what a snapshot holds
//	zkd version
//
// Exit codes: 0 done; 1 the command failed; 2 wrong usage; 3 bad configuration; 4 disk error; 5 corruption; 6 committed
// truncation; 7 wrong cluster or folder, or one in use; 8 a broken invariant, or states differ.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/peer"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command runs one form of zkd. args are what follows its name.
type command struct {
	name string // words, as typed
	args string // for the usage text, a blank before each
	help string
	run  func(ctx context.Context, args []string, out, errOut io.Writer) error
}

func commands() []command {
	return []command{
		{"dev", " [--nodes 3] [--client-port 2181] [--data-dir DIR] [--tick 2s] [--set KEY=VALUE …]", "an ensemble on loopback, in one process", runDev},
		{"config check", " FILE", "tell what a zoo.cfg comes to: what would be used, what does nothing, what is wrong", runConfigCheck},
		{"log dump", " [--batches] FILE…", "print the transactions in log segments", runLogDump},
		{"snapshot dump", " FILE", "verify a snapshot and say what it holds", runSnapshotDump},
		{"version", "", "print the version", runVersion},
	}
}

// usageEnd is the rest of what zkd --help prints.
const usageEnd = `Signals: SIGTERM, SIGINT stop the server; SIGUSR1 makes a leader hand leadership over and stay.
Exit codes: 0 done; 1 the command failed; 2 wrong usage; 3 bad configuration; 4 disk error; 5 corruption;
6 committed truncation; 7 wrong cluster or folder, or one in use; 8 a broken invariant, or states differ: start it again.
docs/operating.md has every key, log line and exit code.
`

// usageError is a wrong use of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	err := dispatch(ctx, args, out, errOut)
	var usage *usageError
	var fatal *peer.FatalError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(errOut, "zkd: %v\n(zkd --help tells more)\n", err)
		return exitUsage
	case errors.As(err, &fatal):
		fmt.Fprintf(errOut, "zkd: %v\n", err)
		return fatal.Code
	default:
		fmt.Fprintf(errOut, "zkd: %v\n", err)
		return exitFailed
	}
}

func dispatch(ctx context.Context, args []string, out, errOut io.Writer) error {
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == c.name {
			runtime.UnlockOSThread() // keepMemory alone needs the main thread
			return c.run(ctx, args[len(words):], out, errOut)
		}
	}
	return runServer(ctx, args, out, errOut)
}

// flags makes a flag set for the named command that reports instead of exiting; its usage goes to out.
func flags(name string, out io.Writer) *pflag.FlagSet {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		for _, c := range commands() {
			if c.name == name {
				fmt.Fprintf(out, "Usage: zkd %s%s\n           %s\n%s", c.name, c.args, c.help, fs.FlagUsages())
			}
		}
	}
	return fs
}

// oneFile is for commands without flags that take a file.
func oneFile(name string, args []string, out io.Writer) (string, error) {
	fs := flags(name, out)
	if err := parse(fs, args); err != nil {
		return "", err
	}
	if fs.NArg() != 1 {
		return "", &usageError{fmt.Errorf("%s takes one file", name)}
	}
	return fs.Arg(0), nil
}

// unknown says what could have been meant by words that are no command.
func unknown(words []string) error {
	for _, c := range commands() {
		first, second, _ := strings.Cut(c.name, " ")
		if words[0] == first && second != "" {
			return fmt.Errorf("unknown command %q; did you mean zkd %s%s?", strings.Join(words, " "), c.name, c.args)
		}
	}
	if _, err := os.Stat(words[0]); err == nil {
		return fmt.Errorf("unknown command %q; did you mean zkd --config %s?", strings.Join(words, " "), words[0])
	}
	return fmt.Errorf("unknown command %q", strings.Join(words, " "))
}

func parse(fs *pflag.FlagSet, args []string) error {
	err := fs.Parse(args)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		return &usageError{err}
	}
	return err
}

func runServer(ctx context.Context, args []string, out, errOut io.Writer) (err error) {
	fs := flags("", out)
	config := fs.String("config", "", "zoo.cfg; without it: one standalone server, 127.0.0.1:2181, data in ./zkd-data")
	format := fs.String("log-format", "text", "text or json")
	level := fs.String("log-level", "info", "debug, info, warn or error")
	profile := fs.String("cpu-profile", "", "write to this new file where the CPU goes, for go tool pprof; it is whole when the server has stopped")
	fs.Usage = func() {
		fmt.Fprintf(out, "Usage: zkd [--config zoo.cfg] [--log-format text|json] [--log-level LEVEL] [--cpu-profile FILE]\n")
		for _, c := range commands() {
			fmt.Fprintf(out, "       zkd %s%s\n           %s\n", c.name, c.args, c.help)
		}
		fmt.Fprintf(out, "%s%s", fs.FlagUsages(), usageEnd)
	}
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return &usageError{unknown(fs.Args())}
	}
	log, err := newLogger(errOut, *format, *level)
	if err != nil {
		return &usageError{err}
	}
	defer log.Sync() //nolint:errcheck // stderr cannot be synced everywhere
	cfg, err := serverFile(*config)
	if err != nil {
		return &peer.FatalError{Code: exitConfig, Err: fmt.Errorf("configuration: %w", err)}
	}
	for _, w := range cfg.Warnings {
		log.Warn("configuration", zap.String("warning", w))
	}
	defer keepMemory(cfg, log)()
	stopProfile, err := profileTo(*profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	n, err := newNode(cfg, log, 1)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { tidyMemory(ctx, readMemory, releaseMemory) })
	wg.Go(func() {
		endStart(ctx)
		paceCollections(ctx, readMemory, setPace)
	})
	defer wg.Wait()
	defer stop()
	return n.run(ctx)
}

// serverFile loads the file, or makes up the standalone server that needs none.
func serverFile(path string) (*zooConfig, error) {
	if path != "" {
		return loadZooConfig(path)
	}
	c := defaultZooConfig()
	c.ClientPortAddress, c.DataDir, c.LogDir = "127.0.0.1", "zkd-data", "zkd-data"
	return c, c.findSelf()
}

// newLogger writes one line per entry to w.
func newLogger(w io.Writer, format, level string) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %s: want debug, info, warn or error", level)
	}
	ec := zap.NewProductionEncoderConfig()
	ec.EncodeTime = zapcore.ISO8601TimeEncoder
	ec.EncodeDuration = zapcore.StringDurationEncoder
	var enc zapcore.Encoder
	switch format {
	case "json":
		enc = zapcore.NewJSONEncoder(ec)
	case "text":
		ec.EncodeLevel = zapcore.CapitalLevelEncoder
		enc = zapcore.NewConsoleEncoder(ec)
	default:
		return nil, fmt.Errorf("--log-format %s: want text or json", format)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), lvl)), nil
}

func runVersion(_ context.Context, args []string, out, _ io.Writer) error {
	fs := flags("version", out)
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return &usageError{errors.New("version takes no arguments")}
	}
	fmt.Fprintln(out, "zkd", version())
	return nil
}

// version is the module's version, or the commit it was built from.
func version() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := bi.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range bi.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += "-" + s.Value[:12]
			}
		}
	}
	return v
}

// serverVersion is what srvr and mntr say. Tools parse the number and compare it with ZooKeeper's, whose behaviour is 3.9.5's, and
// expect no other characters than these behind it.
func serverVersion() string {
	return "3.9.5-zkd-" + strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.':
			return c
		}
		return '-'
	}, version())
}

// buildTime is that of the commit; where it is not stamped, as under go run, that of the program's file. If neither can be had it is the
// beginning of 1970.
func buildTime() time.Time {
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, s := range bi.Settings {
			if s.Key == "vcs.time" {
				if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
					return t
				}
			}
		}
	}
	if path, err := os.Executable(); err == nil {
		if st, err := os.Stat(path); err == nil {
			return st.ModTime()
		}
	}
	return time.Unix(0, 0)
}
