package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// record is the file that -json writes and -from reads.
type record struct {
	Machine string   `json:"machine"`
	Runs    []launch `json:"runs"`
	Samples []sample `json:"samples"`
}

// launch is one start of the program.
type launch struct {
	Date    string   `json:"date"`
	Command []string `json:"command"`
	Fsync   float64  `json:"fsyncMicros"` // one append and fdatasync of 1 KiB, median; of the rounds' figures the median again
	Rows    []string `json:"rows"`        // measured by it, by name
}

// fsync is what an append and fdatasync took in the run that has measured the row: the smallest, if there are several, or none says so.
func (rec *record) fsync(row string) float64 {
	var all, own []float64
	for _, r := range rec.Runs {
		all = append(all, r.Fsync)
		if slices.Contains(r.Rows, row) {
			own = append(own, r.Fsync)
		}
	}
	if len(own) == 0 {
		own = all
	}
	return slices.Min(own)
}

// compare is the command without subcommand; it returns the exit code.
func compare(ctx context.Context, args []string) int {
	o, err := parseOptions(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		return 2
	}
	if slices.Equal(o.rows, []string{"list"}) {
		for _, r := range allRows() {
			fmt.Printf("%-16s %s\n", r.name, r.work)
		}
		return 0
	}
	rec, failed := &record{}, error(nil)
	if o.from != "" {
		rec, err = readRecords(o.from)
	} else {
		rec, failed, err = measure(ctx, o, args)
	}
	if err == nil {
		err = errors.Join(failed, show(o, rec))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		return 1
	}
	return 0
}

// save writes the record to a file, if it has a name.
func (rec *record) save(name string) error {
	if name == "" {
		return nil
	}
	b, err := json.MarshalIndent(rec, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}

// readRecords reads files, separated by commas, as one record. They must come from one machine.
func readRecords(names string) (*record, error) {
	var sum *record
	for _, name := range split(names) {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rec := &record{}
		if err := json.Unmarshal(b, rec); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case sum == nil:
			sum = rec
		case sum.Machine != rec.Machine:
			return nil, fmt.Errorf("%s is of another machine: %s, not %s", name, rec.Machine, sum.Machine)
		default:
			sum.Runs = append(sum.Runs, rec.Runs...)
			sum.Samples = append(sum.Samples, rec.Samples...)
		}
	}
	if sum == nil {
		return nil, errors.New("-from names no file")
	}
	return sum, nil
}

// measure runs everything. failed joins the rows that could not be measured; err means that nothing was.
func measure(ctx context.Context, o *options, args []string) (rec *record, failed, err error) {
	b := &bench{o: o, dir: o.dir}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "zkd-compare-"); err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(b.dir)
	} else if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return nil, nil, err
	}
	if err := b.findSystems(ctx); err != nil {
		return nil, nil, err
	}
	rows, err := o.choose()
	if err != nil {
		return nil, nil, err
	}
	this := launch{Date: time.Now().UTC().Format(time.DateTime), Command: args}
	rec = &record{Machine: machine(), Runs: []launch{this}}
	run := &rec.Runs[0]
	b.rec = rec
	var errs []error
	var syncs []float64
	for round := range o.rounds {
		took, err := syncTime(b.dir)
		if err != nil {
			return nil, nil, err
		}
		syncs = append(syncs, took)
		run.Fsync = (&figure{syncs}).median()
		errs = append(errs, b.round(ctx, rows, round)...)
		errs = append(errs, rec.save(o.jsonOut)) // so that hours are not lost with the last one
	}
	return rec, errors.Join(errs...), nil
}

// put adds a figure to the record and shows it.
func (b *bench) put(s sample) {
	b.rec.Samples = append(b.rec.Samples, s)
	if run := &b.rec.Runs[0]; !slices.Contains(run.Rows, s.Row) {
		run.Rows = append(run.Rows, s.Row)
	}
	fmt.Fprintf(os.Stderr, "%s  %-16s %-6s %s %s%s\n", time.Now().Format(time.TimeOnly), s.Row, s.System, s.Metric, withUnit(s.Value, s.Unit), atX(s.X))
}

func atX(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf(" at %g", x)
}

// choose returns the rows that were asked for.
func (o *options) choose() (rows []*row, err error) {
	for _, r := range allRows() {
		wanted := len(o.rows) == 0 && !r.asked && (!o.short || r.short)
		for _, prefix := range o.rows {
			wanted = wanted || strings.HasPrefix(r.name, prefix)
		}
		if wanted {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row begins with any of %q; -rows list lists them", o.rows)
	}
	return rows, nil
}

// round runs every row on every system once: first those that share servers, then each of the others on all systems in turn.
func (b *bench) round(ctx context.Context, rows []*row, round int) (errs []error) {
	shared := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !r.shared })
	own := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return r.shared })
	wants := func(sys *system, r *row) bool {
		return (!sys.floor || r.floor) && !(sys.java && b.o.short && !r.shared) // an ensemble of Java takes its time to start
	}
	if len(shared) > 0 {
		for _, sys := range b.systems {
			errs = append(errs, b.sharedRows(ctx, sys, slices.DeleteFunc(slices.Clone(shared), func(r *row) bool { return !wants(sys, r) }), round)...)
		}
	}
	for _, r := range own {
		for _, sys := range b.systems {
			if wants(sys, r) {
				errs = append(errs, b.one(ctx, &runner{bench: b, row: r, sys: sys, round: round}))
			}
		}
	}
	return errs
}

// sharedRows starts one ensemble and runs the rows on it.
func (b *bench) sharedRows(ctx context.Context, sys *system, rows []*row, round int) (errs []error) {
	var c *cluster
	err := b.attempt(ctx, sys, "three servers", func() (err error) {
		c, err = b.start(ctx, sys, 3)
		return err
	})
	if err != nil || c == nil {
		return []error{err}
	}
	for _, r := range rows {
		errs = append(errs, b.one(ctx, &runner{bench: b, row: r, sys: sys, cluster: c, round: round}))
	}
	return append(errs, c.close())
}

func (b *bench) one(ctx context.Context, r *runner) error {
	return b.attempt(ctx, r.sys, r.row.name, func() error { return r.row.run(ctx, r) })
}

// attempt does one thing on one system and returns what fails the run. That is about zkd and the floor, which have one try: Apache
// ZooKeeper has two, and what fails twice is left out of the table. Under pipelines 3.8 closes a connection now and then, or leaves a
// request without an answer for 30 s: the kernel has given it all bytes and all its threads wait for work.
func (b *bench) attempt(ctx context.Context, sys *system, what string, do func() error) error {
	for again := sys.java; ; again = false {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		had := len(b.rec.Samples)
		err := do()
		if err == nil {
			return nil
		}
		if sys.java {
			b.rec.Samples = b.rec.Samples[:had] // half of a row is none
		}
		err = fmt.Errorf("%s on %s: %w", what, sys.name, err)
		switch {
		case again:
			fmt.Fprintln(os.Stderr, "once more:", err)
		case sys.java && ctx.Err() == nil:
			fmt.Fprintln(os.Stderr, "left out:", err)
			return nil
		default:
			fmt.Fprintln(os.Stderr, err)
			return err
		}
	}
}

// syncTime is the median time in microseconds of an append and fdatasync of 1 KiB to a file in dir.
func syncTime(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var took []time.Duration
	for range 200 {
		start := time.Now()
		if _, err := f.Write(make([]byte, payloadBytes)); err != nil {
			return 0, err
		}
		if err := dataSync(f); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return float64(took[len(took)/2]) / float64(time.Microsecond), nil
}

// show prints the table and writes what was asked for.
func show(o *options, rec *record) error {
	sum := summarise(rec)
	if err := sum.table(os.Stdout); err != nil {
		return err
	}
	var errs []error
	errs = append(errs, rec.save(o.jsonOut))
	if o.mdOut != "" {
		var md strings.Builder
		sum.markdown(&md)
		errs = append(errs, os.WriteFile(o.mdOut, []byte(md.String()), 0o644))
	}
	if o.svgOut != "" {
		errs = append(errs, os.MkdirAll(o.svgOut, 0o755))
		for name, svg := range sum.plots() {
			errs = append(errs, os.WriteFile(filepath.Join(o.svgOut, name+".svg"), []byte(svg), 0o644))
		}
	}
	return errors.Join(errs...)
}
