package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	rounds   int
	rows     []string // prefixes of row names; empty: all but those that must be asked for
	systems  []string
	short    bool
	duration time.Duration
	warmup   time.Duration
	znodes   int
	kills    int
	dir      string
	zkd      string // binary; "" builds it
	java     []string
	zk395    string // class path
	jsonOut  string
	mdOut    string
	svgOut   string
	from     string
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.rounds, "rounds", 3, "how often everything is run")
	rows := fs.String("rows", "", "rows to run, by the start of their names, separated by commas, \"list\" lists them; if empty all but ten-million")
	systems := fs.String("systems", "zkd,zk38,zk395,echo", "systems to run; those that are not installed are left out")
	fs.BoolVar(&o.short, "short", false, "one short round of some rows with small trees, under a minute: a check that they run (exit code 1: something failed; figures of so short a run, met or NOT MET, say nothing)")
	fs.DurationVar(&o.duration, "duration", 5*time.Second, "of one measurement")
	fs.DurationVar(&o.warmup, "warmup", 3*time.Second, "before each; Java compiles while it runs")
	fs.IntVar(&o.znodes, "znodes", 1_000_000, "in the rows about large trees")
	fs.IntVar(&o.kills, "kills", 20, "fail-overs per row and round")
	fs.StringVar(&o.dir, "dir", "", "folder for data; a new one below the system's temporary folder if empty")
	fs.StringVar(&o.zkd, "zkd", "", "zkd's binary; built from this checkout if empty")
	java := fs.String("java", "java -Xmx3g", "how to start Java")
	fs.StringVar(&o.zk395, "zk395", os.Getenv("ZKBENCH_ZK395"), "class path of ZooKeeper 3.9.5, or $ZKBENCH_ZK395")
	fs.StringVar(&o.jsonOut, "json", "", "write every sample to this file")
	fs.StringVar(&o.mdOut, "md", "", "write the table to this file in Markdown")
	fs.StringVar(&o.svgOut, "svg", "", "write plots into this folder")
	fs.StringVar(&o.from, "from", "", "run nothing; take the samples of these files, separated by commas")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	o.rows, o.systems, o.java = split(*rows), split(*systems), strings.Fields(*java)
	if o.short {
		o.rounds, o.duration, o.warmup, o.znodes, o.kills = 1, 300*time.Millisecond, 200*time.Millisecond, 5_000, 1
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("%q: only flags are expected", fs.Args())
	case o.rounds < 1 || o.kills < 1 || o.znodes < 1 || o.duration <= 0:
		return nil, errors.New("rounds, kills, znodes and duration must be positive")
	case len(o.java) == 0:
		return nil, errors.New("-java is empty")
	}
	return o, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
