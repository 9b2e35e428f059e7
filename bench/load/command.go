package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Command runs one workload as the command line args say and writes the result to stdout. It returns the exit code: 0, 1 if the run
// failed, 2 for wrong usage. cfg is what holds unless args say something else.
func Command(ctx context.Context, name string, cfg Config, args []string, stdout, stderr io.Writer) int {
	asJSON, err := parse(&cfg, name, args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 2
	}
	root := strings.TrimPrefix(cfg.Root, cfg.Chroot)
	res, err := Run(ctx, cfg)
	if res != nil {
		write := res.WriteTable
		if asJSON {
			write = res.WriteJSON
		}
		err = errors.Join(err, write(stdout))
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		if _, nothing := errors.AsType[*dialError](err); !nothing {
			fmt.Fprintf(stderr, "What it made is left at %s; deleteall removes it.\n", root)
		}
		return 1
	}
	if cfg.Keep {
		fmt.Fprintf(stderr, "What it made is at %s.\n", root)
	}
	return 0
}

func parse(cfg *Config, name string, args []string, stderr io.Writer) (asJSON bool, err error) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: %s WORKLOAD [flags]\n\nworkloads:\n", name)
		for _, w := range Workloads {
			fmt.Fprintf(stderr, "  %-8s  %s\n", w, meanings[w])
		}
		fmt.Fprint(stderr, "\nflags:\n")
		fs.PrintDefaults()
	}
	fs.Func("server", "host:port,… of the servers; connections are dealt out in turn", func(v string) error {
		cfg.Servers = strings.Split(v, ",")
		return nil
	})
	fs.IntVar(&cfg.Conns, "conns", 16, "connections; for sessions and churn how many are opened side by side")
	fs.IntVar(&cfg.InFlight, "inflight", 64, "requests in flight on each connection")
	fs.IntVar(&cfg.Size, "size", 1024, "bytes of data in each znode")
	fs.IntVar(&cfg.Keys, "keys", 1000, "znodes that are used; for watch how many each connection watches")
	fs.Int64Var(&cfg.Count, "count", 0, "end after so many requests instead of after a time; for fill how many znodes, for watch rounds")
	fs.Float64Var(&cfg.WriteRatio, "write-ratio", 0.1, "share of sets in mixed")
	fs.IntVar(&cfg.MultiOps, "multi-ops", 10, "sets in one multi")
	fs.Float64Var(&cfg.Rate, "rate", 0, "requests per second that are due whatever the server does (open loop); 0 for a closed loop")
	fs.DurationVar(&cfg.Duration, "duration", 0, "how long to measure (default 10s)")
	fs.DurationVar(&cfg.Warmup, "warmup", 0, "how long to run before the measurement (default 0s)")
	fs.DurationVar(&cfg.Timeout, "timeout", 0, "session timeout, and how long a server may be silent (default 30s)")
	fs.StringVar(&cfg.Root, "root", "", "znode to work below, itself below the chroot if there is one (default /zkbench- and a number)")
	fs.BoolVar(&cfg.Keep, "keep", false, "leave the znodes there")
	pids := fs.String("pids", "", "the servers' process ids, for their CPU per operation and memory")
	quiet := fs.Bool("quiet", false, "no progress")
	fs.BoolVar(&asJSON, "json", false, "write the result as JSON")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		cfg.Workload, args = args[0], args[1:]
	}
	if err := fs.Parse(args); err != nil {
		return false, err
	}
	if cfg.Workload == "" && fs.NArg() == 1 {
		cfg.Workload = fs.Arg(0)
	} else if fs.NArg() > 0 {
		return false, fmt.Errorf("%q: one workload, then flags", fs.Args())
	}
	if !*quiet {
		cfg.Progress = stderr
	}
	if cfg.Pids, err = parsePids(*pids); err != nil {
		return false, err
	}
	cfg.SetDefaults()
	err = cfg.Validate()
	cfg.Root = cfg.Chroot + cfg.Root
	return asJSON, err
}

func parsePids(list string) (pids []int, err error) {
	for _, f := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(f)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("pid %q", f)
		}
		pids = append(pids, n)
	}
	return pids, nil
}
