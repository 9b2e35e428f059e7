package chaos

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestVersionsSideBySide changes servers from one version to another and back, one at a time, each on the folder that the other has left, while
// everything that can go wrong goes wrong. ZKD_OTHER names the binary of the other version; without it both are today's.
func TestVersionsSideBySide(t *testing.T) {
	t.Parallel()
	other := os.Getenv("ZKD_OTHER")
	if other == "" {
		other = zkdBinary
	}
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("ZKD_SEED"), 10, 64); err == nil {
		seed = s
	}
	l := layout{voters: 3, observers: 1}
	e := newEnsemble(t, l, tiny...)
	for _, p := range e.procs {
		p.binary = other
	}
	e.start()
	r := &run{layout: l, t: t, e: e, w: startWorkload(t, e, seed), rng: rand.New(rand.NewPCG(seed, 0))}
	for i := range rounds(8, 80) {
		p := e.procs[i%len(e.procs)]
		if i >= 2*len(e.procs) {
			p = e.procs[r.rng.IntN(len(e.procs))]
		}
		was := p.mode()
		if i%2 == 0 {
			p.stop()
		} else {
			p.kill()
		}
		if p.binary == other {
			p.binary = zkdBinary
		} else {
			p.binary = other
		}
		p.start()
		e.waitServing()
		if _, ok := r.w.goesOn(patience); !ok {
			t.Fatalf("no writes after server %d, a %s, became %s; seed %d", p.i+1, was, filepath.Base(p.binary), seed)
		}
		if r.rng.IntN(2) == 0 {
			e.leader().signal(syscall.SIGUSR1)
			e.waitServing()
		}
		f := faults[r.rng.IntN(len(faults))]
		for f.min > l.voters {
			f = faults[r.rng.IntN(len(faults))]
		}
		if bad := r.round(f); bad != "" {
			t.Fatalf("%s; seed %d", bad, seed)
		}
		pause(nil, time.Duration(r.rng.IntN(200))*time.Millisecond)
	}
	r.w.finish()
	t.Logf("saw: %d operations, %d writes acknowledged; seed %d", len(r.w.h.ops), r.w.h.acked.Load(), seed)
}
