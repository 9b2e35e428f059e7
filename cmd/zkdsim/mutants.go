package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/sim"
)

// mutants runs the simulator against every rule that a test build can break. It reports whether all were noticed.
func mutants(f *flags, out, errOut io.Writer) (bool, error) {
	if f.seeds < 0 || f.jobs < 1 {
		return false, errors.New("--seeds must not be negative, --jobs must be positive")
	}
	list, err := chosen(f.only)
	if err != nil {
		return false, err
	}
	schedules, err := sim.Schedules(f.schedules)
	if err != nil {
		return false, err
	}
	var hunts []sim.Hunt
	began := time.Now()
	for _, m := range list {
		h, err := sim.HuntMutant(m, schedules, f.from, f.seeds, f.jobs)
		if err != nil {
			return false, err
		}
		hunts = append(hunts, h)
		line := out
		if f.markdown {
			line = errOut
		}
		fmt.Fprintln(line, huntLine(&h))
	}
	if f.markdown {
		writeHunts(out, hunts)
	}
	survived := 0
	for i := range hunts {
		if !hunts[i].Died() || f.seeds > 0 && !f.quick && hunts[i].First.Failure == nil {
			survived++
		}
	}
	fmt.Fprintf(errOut, "mutants=%d noticed=%d survived=%d seeds-each<=%d schedules=%d took=%v\n", len(hunts), len(hunts)-survived, survived, f.seeds,
		len(schedules), time.Since(began).Round(time.Second))
	return survived == 0, nil
}

// chosen picks the mutants that are named, separated by commas; all if none is.
func chosen(only string) ([]mutant.Mutant, error) {
	if only == "" {
		return mutant.All(), nil
	}
	var out []mutant.Mutant
	for _, name := range strings.Split(only, ",") {
		m, ok := mutant.Find(name)
		if !ok {
			return nil, fmt.Errorf("no mutant is called %q", name)
		}
		out = append(out, m)
	}
	return out, nil
}

// huntLine says in one line what became of a mutant.
func huntLine(h *sim.Hunt) string {
	line := fmt.Sprintf("%-14s", h.Mutant.Name)
	if f := h.First.Failure; f != nil {
		line += fmt.Sprintf(" seeds=%d invariant=%s replay=\"go run -tags mutants ./cmd/zkdsim replay --mutant %s --seed 0x%x --steps %d -v\"", h.Seeds,
			f.Invariant, h.Mutant.Name, h.First.Seed, f.Step)
	} else if h.Seeds > 0 || len(h.Schedules) == 0 {
		line += fmt.Sprintf(" SURVIVED seeds=%d", h.Seeds)
	}
	if len(h.Schedules) > 0 {
		line += " schedules=" + killers(h.Schedules, 5)
	}
	return line
}

// killers names the first of the schedules that a mutant fails.
func killers(ks []sim.Kill, most int) string {
	var names []string
	for i, k := range ks {
		if i == most {
			return strings.Join(names, ",") + fmt.Sprintf(",… (%d)", len(ks))
		}
		names = append(names, k.Schedule+":"+k.Invariant)
	}
	return strings.Join(names, ",")
}

// writeHunts gives the result as a table for docs/testing.md.
func writeHunts(out io.Writer, hunts []sim.Hunt) {
	fmt.Fprintln(out, "| mutant | rules | what the code does instead | known failures | seeds to fail | noticed by | schedules that fail |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for i := range hunts {
		h := &hunts[i]
		seeds, by := fmt.Sprintf("none of %d", h.Seeds), ""
		if f := h.First.Failure; f != nil {
			seeds, by = fmt.Sprint(h.Seeds), f.Invariant
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s |\n", h.Mutant.Name, strings.Join(h.Mutant.Rules, ", "), h.Mutant.Breaks,
			strings.Join(h.Mutant.Failures, ", "), seeds, by, strings.ReplaceAll(killers(h.Schedules, 4), ",", ", "))
	}
}
