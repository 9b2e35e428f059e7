// Command zkdsim runs whole ensembles in a deterministic simulator and looks for broken invariants.
//
//	zkdsim run [--seeds N]            many seeds
//	zkdsim replay --seed S            one seed again, event by event the same
//	zkdsim shrink --seed S            the smallest schedule that still fails in the same way
//	zkdsim play FILE                  a schedule
//	zkdsim mutants [--only NAME,…]    breaks one rule after the other and sees that the simulator notices
//	zkdsim rules [--write]            what shows that each rule is kept, as the table in docs/testing.md
//
// zkdsim COMMAND --help lists the flags.
//
// With the build tag mutants, --mutant NAME breaks one rule in run, replay, play and shrink; mutants needs it. go run -tags mutants ./cmd/zkdsim …
//
// Exit codes: 0 no violation; 1 a violation; 2 wrong usage.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/rules"
	"github.com/zkd-project/zkd/internal/sim"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a world is small and makes much garbage: collecting it less often saves a sixth of the time
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// command is one form of zkdsim, with the flags that mean something to it.
type command struct {
	name, args, help string
	flags            []string
	run              func(f *flags, out, errOut io.Writer) (ok bool, err error)
}

func commands() []command {
	return []command{
		{"run", "[--seeds N]", "run many seeds and tell the violations, each with the line that repeats it",
			[]string{"seeds", "from", "jobs", "nodes", "first", "porcupine", "mutant"}, runSeeds},
		{"replay", "--seed S", "run one seed again, event by event the same", []string{"seed", "steps", "nodes", "porcupine", "verbose", "mutant"}, replay},
		{"shrink", "--seed S", "write the smallest schedule that fails in the same way as the seed", []string{"seed", "nodes", "porcupine", "out", "mutant"}, shrink},
		{"play", "FILE", "play a schedule; internal/sim/doc.go describes its words", []string{"steps", "porcupine", "verbose", "mutant"}, play},
		{"mutants", "[--only NAME,…]", "break one rule after the other and see that the simulator notices; needs -tags mutants",
			[]string{"seeds", "from", "jobs", "only", "schedules", "quick", "md"}, mutants},
		{"rules", "[--write]", "print what shows that each rule of docs/protocol.md is kept; runs in the root of the repository", []string{"write"}, printRules},
	}
}

// usageText is what zkdsim --help prints.
func usageText() string {
	var b strings.Builder
	b.WriteString("Usage: zkdsim COMMAND [FLAGS]\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-24s %s\n", c.name+" "+c.args, c.help)
	}
	b.WriteString("zkdsim COMMAND --help lists the flags. Exit codes: 0 no violation; 1 a violation; 2 wrong usage.\n")
	return b.String()
}

// pick makes the flag set of c.
func (f *flags) pick(c *command) *pflag.FlagSet {
	fs := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	for _, name := range c.flags {
		fs.AddFlag(f.Lookup(name))
	}
	fs.SetOutput(f.Output())
	fs.Usage = func() {
		fmt.Fprintf(f.Output(), "Usage: zkdsim %s %s\n  %s\n%s", c.name, c.args, c.help, fs.FlagUsages())
	}
	return fs
}

type flags struct {
	*pflag.FlagSet
	args               []string // what follows the flags
	seeds, jobs, nodes int
	from, steps        uint64
	seed, out          string
	verbose, first     bool
	write              bool
	porcupine          bool

	mutant, only, schedules string
	quick, markdown         bool
}

func newFlags() *flags {
	f := &flags{FlagSet: pflag.NewFlagSet("zkdsim", pflag.ContinueOnError)}
	f.IntVar(&f.seeds, "seeds", 100, "how many seeds to run")
	f.Uint64Var(&f.from, "from", 1, "the first seed")
	f.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "how many seeds run at a time")
	f.IntVar(&f.nodes, "nodes", 0, "voters of the ensemble; 0: each seed chooses")
	f.StringVar(&f.seed, "seed", "", "the seed, decimal or 0x…")
	f.Uint64Var(&f.steps, "steps", 0, "stop after so many events; 0: at the end")
	f.StringVar(&f.out, "out", "internal/sim/testdata/schedules", "folder for the schedule that shrink writes")
	f.BoolVar(&f.first, "first", false, "stop at the first violation")
	f.BoolVar(&f.porcupine, "porcupine", false, "have porcupine judge what the clients saw, too")
	f.BoolVar(&f.write, "write", false, "put the table into docs/testing.md, below the working directory")
	f.StringVar(&f.mutant, "mutant", "", "the rule to break, by its name in internal/mutant; needs the build tag mutants")
	f.StringVar(&f.only, "only", "", "these mutants alone, separated by commas")
	f.StringVar(&f.schedules, "schedules", "internal/sim/testdata/schedules", "folder of schedules that are tried first; a folder without any: none")
	f.BoolVar(&f.quick, "quick", false, "a schedule that fails is enough, no seed needs to")
	f.BoolVar(&f.markdown, "md", false, "print a table for docs/testing.md")
	f.BoolVarP(&f.verbose, "verbose", "v", false, "print every event")
	return f
}

func run(args []string, out, errOut io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errOut, usageText())
		return 2
	}
	if slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		fmt.Fprint(out, usageText())
		return 0
	}
	ok, err := dispatch(args, out, errOut)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errOut, "zkdsim:", err)
		return 2
	case !ok:
		return 1
	}
	return 0
}

// dispatch runs the command that args[0] names.
func dispatch(args []string, out, errOut io.Writer) (bool, error) {
	all := commands()
	at := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] })
	if at < 0 {
		return false, fmt.Errorf("unknown command %q (zkdsim --help tells more)", args[0])
	}
	f := newFlags()
	f.SetOutput(out)
	set := f.pick(&all[at])
	if err := set.Parse(args[1:]); err != nil {
		return false, err
	}
	f.args = set.Args()
	if len(f.args) > 0 && all[at].name != "play" {
		return false, fmt.Errorf("unexpected %q", f.args[0])
	}
	if f.mutant != "" {
		if err := f.breakRule(); err != nil {
			return false, err
		}
	}
	return all[at].run(f, out, errOut)
}

// breakRule sets the mutant that --mutant names.
func (f *flags) breakRule() error {
	if _, ok := mutant.Find(f.mutant); !ok {
		return fmt.Errorf("no mutant is called %q", f.mutant)
	}
	if !mutant.Set(f.mutant) {
		return errors.New("--mutant needs a build with -tags mutants")
	}
	return nil
}

func (f *flags) options() sim.Options { return sim.Options{Nodes: f.nodes, Porcupine: f.porcupine} }

func (f *flags) theSeed() (uint64, error) {
	if f.seed == "" {
		return 0, errors.New("--seed is missing: the number that run has printed, as --seed 0x17")
	}
	seed, err := strconv.ParseUint(f.seed, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("--seed %s: want a number of 64 bits, decimal or 0x…", f.seed)
	}
	return seed, nil
}

func runSeeds(f *flags, out, errOut io.Writer) (bool, error) {
	if f.seeds < 1 || f.jobs < 1 {
		return false, errors.New("--seeds and --jobs must be positive")
	}
	total := sim.RunSeeds(f.from, f.seeds, f.jobs, f.options(), func(r sim.SeedResult, done int) bool {
		if r.Failure != nil {
			fmt.Fprintln(out, sim.FailLine(r.Seed, r.Nodes, sim.Replay(r.Seed, f.options()), r.Result))
		}
		if done%500 == 0 {
			fmt.Fprintf(errOut, "%d of %d seeds\n", done, f.seeds)
		}
		return r.Failure == nil || !f.first
	})
	fmt.Fprintln(out, total)
	return total.Violations == 0, nil
}

func replay(f *flags, out, _ io.Writer) (bool, error) {
	seed, err := f.theSeed()
	if err != nil {
		return false, err
	}
	return one(f, out, sim.Swarm(seed, f.options()), sim.Replay(seed, f.options()))
}

func play(f *flags, out, _ io.Writer) (bool, error) {
	if len(f.args) != 1 {
		return false, errors.New("play takes one file")
	}
	in, err := os.Open(f.args[0])
	if err != nil {
		return false, err
	}
	defer in.Close()
	all, err := sim.ParseAll(in)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.args[0], err)
	}
	for _, sc := range all {
		if ok, err := one(f, out, sc, "play "+f.args[0]); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// one runs a scenario; again is the arguments that repeat it.
func one(f *flags, out io.Writer, sc *sim.Scenario, again string) (bool, error) {
	w := sim.New(sc)
	w.MaxSteps, w.Porcupine = f.steps, f.porcupine
	if f.verbose {
		w.Verbose = out
	}
	res := w.Run()
	if res.Failure != nil {
		fmt.Fprintln(out, sim.FailLine(sc.Seed, sc.Nodes, again, res))
		if !f.verbose {
			w.WriteLast(out)
		}
	}
	fmt.Fprintln(out, res)
	return res.Failure == nil || res.Failure.Invariant == sc.Expect, nil
}

// printRules reads the repository that is the working directory.
func printRules(f *flags, out, _ io.Writer) (bool, error) {
	rows, err := rules.Table(".", mutant.All())
	if err != nil {
		return false, err
	}
	if f.write {
		return true, rules.Write(".", rows)
	}
	_, err = io.WriteString(out, rules.Markdown(rows))
	return true, err
}

func shrink(f *flags, out, errOut io.Writer) (bool, error) {
	seed, err := f.theSeed()
	if err != nil {
		return false, err
	}
	small, res := sim.Shrink(sim.Swarm(seed, f.options()), func(line string) { fmt.Fprintln(errOut, line) })
	if res.Failure == nil {
		fmt.Fprintln(out, "seed does not fail")
		return true, nil
	}
	path, err := sim.SaveSchedule(f.out, small, res)
	if err != nil {
		return false, err
	}
	fmt.Fprintln(out, path)
	return false, small.Write(out)
}
