package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/mutant"
)

// Schedule is a scenario from a file.
type Schedule struct {
	Name string
	Path string
}

// Schedules lists the schedules of a folder by name.
func Schedules(dir string) ([]Schedule, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	out := make([]Schedule, len(paths))
	for i, p := range paths {
		out[i] = Schedule{strings.TrimSuffix(filepath.Base(p), ".txt"), p}
	}
	return out, nil
}

// Load reads the scenarios of a schedule: one, or more if it varies.
func (s Schedule) Load() ([]*Scenario, error) {
	in, err := os.Open(s.Path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	all, err := ParseAll(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	return all, nil
}

// Wanted is how the scenario must end: "ok" or the invariant that must break.
func (sc *Scenario) Wanted() string {
	if sc.Expect == "" {
		return "ok"
	}
	return sc.Expect
}

// Ended is how a run ended, in the same words.
func (r Result) Ended() string {
	if r.Failure == nil {
		return "ok"
	}
	return r.Failure.Invariant
}

// Hunt is what it took to see that a mutant breaks something.
type Hunt struct {
	Mutant    mutant.Mutant
	Seeds     int        // tried, the failing one included
	First     SeedResult // the smallest seed that fails; Failure is nil if none did
	Schedules []Kill     // kept schedules that end otherwise than they should
}

// Kill is a schedule that a mutant fails.
type Kill struct {
	Schedule  string
	Invariant string // "ok" if it was to break one and did not
}

// Died reports whether a seed or a schedule failed.
func (h *Hunt) Died() bool { return h.First.Failure != nil || len(h.Schedules) > 0 }

// HuntMutant breaks one rule in this process and looks how long the simulator takes to notice: the schedules, then seeds until one fails. Only
// builds with the tag mutants can.
func HuntMutant(m mutant.Mutant, schedules []Schedule, from uint64, seeds, jobs int) (Hunt, error) {
	h := Hunt{Mutant: m}
	if !mutant.Set(m.Name) {
		return h, fmt.Errorf("this build breaks no rules: build with -tags mutants")
	}
	defer mutant.Set("")
	for _, s := range schedules {
		all, err := s.Load()
		if err != nil {
			return h, err
		}
		for _, sc := range all {
			if got := New(sc).Run().Ended(); got != sc.Wanted() {
				h.Schedules = append(h.Schedules, Kill{s.Name, got})
				break
			}
		}
	}
	RunSeeds(from, seeds, jobs, Options{}, func(r SeedResult, _ int) bool {
		if r.Failure != nil && (h.First.Failure == nil || r.Seed < h.First.Seed) {
			h.First = r
		}
		return h.First.Failure == nil
	})
	h.Seeds = seeds
	if h.First.Failure != nil {
		h.Seeds = int(h.First.Seed-from) + 1
	}
	return h, nil
}
