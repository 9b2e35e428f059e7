package sim

import (
	"fmt"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/mutant"
)

// SeedResult is what became of one seed.
type SeedResult struct {
	Result
	Seed  uint64
	Nodes int
}

// Total sums many runs up.
type Total struct {
	Seeds      int
	Steps      uint64
	Simulated  time.Duration
	CPU        time.Duration // that the process used
	Ops        int
	Commits    int
	Leaders    int
	Starts     int
	Slowest    time.Duration // to come together after healing
	SlowSeed   uint64
	Violations int
	Counts     Counts
}

func (t Total) String() string {
	rate := 0.0
	if t.CPU > 0 {
		rate = t.Simulated.Seconds() / t.CPU.Minutes()
	}
	return fmt.Sprintf("seeds=%d steps=%d simulated=%v rate=%.0f sim s/CPU min operations=%d commits=%d leaders=%d starts=%d slowest-healing=%v(seed %d) %v violations=%d",
		t.Seeds, t.Steps, t.Simulated.Round(time.Second), rate, t.Ops, t.Commits, t.Leaders, t.Starts, t.Slowest.Round(time.Millisecond), t.SlowSeed, t.Counts, t.Violations)
}

func (r Result) String() string {
	return fmt.Sprintf("hash=%016x steps=%d simulated=%v operations=%d commits=%d leaders=%d starts=%d healing=%v", r.Hash, r.Steps, r.Time, r.Ops,
		r.Commits, r.Leaders, r.Starts, r.Settled)
}

// RunSeeds plays the swarm scenarios of n seeds, several at a time, each in one goroutine. each is called for every result, one at a
// time, in no particular order; when it returns false no further seed is begun.
func RunSeeds(from uint64, n, jobs int, o Options, each func(r SeedResult, done int) (goOn bool)) Total {
	var mu sync.Mutex
	var total Total
	var wg sync.WaitGroup
	next, stop := from, false
	before := cpuTime()
	for range jobs {
		wg.Go(func() {
			for {
				mu.Lock()
				if stop || next == from+uint64(n) {
					mu.Unlock()
					return
				}
				seed := next
				next++
				mu.Unlock()
				w := New(Swarm(seed, o))
				w.Porcupine = o.Porcupine
				res := SeedResult{w.Run(), seed, w.sc.Nodes}
				mu.Lock()
				total.add(res)
				if !stop && !each(res, total.Seeds) {
					stop = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	total.CPU = cpuTime() - before
	return total
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (t *Total) add(r SeedResult) {
	t.Seeds++
	t.Steps += r.Steps
	t.Simulated += r.Time
	t.Ops += r.Ops
	t.Commits += r.Commits
	t.Leaders += r.Leaders
	t.Starts += r.Starts
	if r.Settled > t.Slowest {
		t.Slowest, t.SlowSeed = r.Settled, r.Seed
	}
	if t.Counts == nil {
		t.Counts = Counts{}
	}
	for k, v := range r.Counts {
		t.Counts[k] += v
	}
	if r.Failure != nil {
		t.Violations++
	}
}

// Replay is zkdsim's arguments that run a seed again with these options.
func Replay(seed uint64, o Options) string {
	args := fmt.Sprintf("replay --seed 0x%x", seed)
	if o.Nodes > 0 {
		args += fmt.Sprintf(" --nodes %d", o.Nodes)
	}
	if o.Porcupine {
		args += " --porcupine"
	}
	return args
}

// FailLine is the one line that comes first when a run fails. again is zkdsim's arguments that repeat the run.
func FailLine(seed uint64, nodes int, again string, r Result) string {
	tags := ""
	if name := mutant.Broken(); name != "" {
		tags, again = "-tags mutants ", again+" --mutant "+name
	}
	f := r.Failure
	return fmt.Sprintf("SIM FAIL seed=0x%x commit=%s nodes=%d steps=%d invariant=%s node=%d zxid=%v replay=\"go run %s./cmd/zkdsim %s --steps %d -v\" %s",
		seed, commit(), nodes, f.Step, f.Invariant, f.Node, f.Zxid, tags, again, f.Step, f.Text)
}

func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "unknown"
}
