package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Shrink looks for a smaller scenario that breaks the same invariant: a shorter one, with fewer lines in its schedule, fewer clients
// and plainer limits. say is told of each success.
func Shrink(sc *Scenario, say func(string)) (*Scenario, Result) {
	s := shrinker{say: say, best: sc}
	s.res = New(copyOf(sc)).Run()
	if s.res.Failure == nil {
		return sc, s.res
	}
	s.id = s.res.Failure.Invariant
	for round := 0; round < 4; round++ {
		before := s.wins
		s.shorten()
		s.dropLines()
		s.fewerClients()
		s.plainer()
		if s.wins == before {
			break
		}
	}
	s.best.Expect = s.id
	return s.best, s.res
}

type shrinker struct {
	say  func(string)
	id   string
	best *Scenario
	res  Result
	wins int
}

func copyOf(sc *Scenario) *Scenario {
	c := *sc
	c.Steps = append([]Step(nil), sc.Steps...)
	return &c
}

// try keeps a change if the same invariant still breaks.
func (s *shrinker) try(what string, change func(*Scenario)) bool {
	c := copyOf(s.best)
	change(c)
	kept := copyOf(c) // New fills in defaults
	res := New(c).Run()
	if res.Failure == nil || res.Failure.Invariant != s.id {
		return false
	}
	s.best, s.res = kept, res
	s.wins++
	s.say(fmt.Sprintf("%s: %d lines, %d clients, %v", what, len(kept.Steps), kept.Clients, res.Time))
	return true
}

// shorten cuts the tail behind the failure.
func (s *shrinker) shorten() {
	at := s.res.Failure.At
	s.try("cut the tail", func(c *Scenario) {
		for len(c.Steps) > 0 && c.Steps[len(c.Steps)-1].At > at {
			c.Steps = c.Steps[:len(c.Steps)-1]
		}
		if c.Length > at+time.Second && s.id != "I-47" {
			c.Length = (at + time.Second).Round(time.Millisecond)
		}
	})
}

// dropLines is delta debugging on the schedule.
func (s *shrinker) dropLines() {
	for size := max(1, len(s.best.Steps)/2); size >= 1; size /= 2 {
		for i := 0; i < len(s.best.Steps); {
			from, to := i, min(i+size, len(s.best.Steps))
			if !s.try("drop lines", func(c *Scenario) { c.Steps = append(c.Steps[:from:from], c.Steps[to:]...) }) {
				i += size
			}
		}
	}
}

func (s *shrinker) fewerClients() {
	for s.best.Clients > 0 && s.try("drop a client", func(c *Scenario) { c.Clients-- }) {
	}
}

// plainer puts one limit after the other back to what is usual.
func (s *shrinker) plainer() {
	var zero Scenario
	usual := zero.settings()
	for i, set := range s.best.settings() {
		if set.name == "nodes" || set.name == "length" || set.name == "clients" || set.get() == usual[i].get() {
			continue
		}
		s.try("plain "+set.name, func(c *Scenario) { _ = c.settings()[i].set(usual[i].get()) })
	}
	if s.best.Observers > 0 {
		s.try("no observers", func(c *Scenario) { c.Observers = 0 })
	}
}

// SaveSchedule writes a scenario as a file named after what breaks.
func SaveSchedule(dir string, sc *Scenario, r Result) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%x.txt", strings.ToLower(r.Failure.Invariant), sc.Seed))
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", strings.SplitN(r.Failure.Error(), "\n", 2)[0])
	if err := sc.Write(&b); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(b.String()), 0o644)
}
