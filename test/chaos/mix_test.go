package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mix begins a fault every few moments and ends each by chance, whatever else is broken: majorities come and go, several servers at once are
// frozen, dead, leaving, deaf or mute. Only afterwards writes must go on.
func mix(t *testing.T, l layout, bouts, steps int, settings ...string) {
	servers := l.voters + l.observers
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("ZKD_SEED"), 10, 64); err == nil {
		seed = s
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	e := newEnsemble(t, l, settings...)
	e.start()
	w := startWorkload(t, e, seed)
	var watchers []*watcher
	for i := range 3 {
		watchers = append(watchers, w.watch(w.keptKey(i)))
	}
	faults := 0
	for bout := range bouts {
		began := w.h.acked.Load()
		frozen, leaving := map[*process]bool{}, map[*exec.Cmd]bool{}
		thaw := func(p *process) {
			p.signal(syscall.SIGCONT)
			delete(frozen, p)
		}
		for range steps {
			p := e.procs[rng.IntN(servers)]
			faults++
			switch k := rng.IntN(12); {
			case k < 4: // one wire or another
				at := way{p.i, (p.i + 1 + rng.IntN(servers-1)) % servers}
				blocked, delay := rng.IntN(3) == 0, time.Duration(rng.IntN(3)*rng.IntN(30))*time.Millisecond
				e.net.wires[at].set(func(w *wire) { w.blocked, w.delay = blocked, delay })
			case k == 4:
				e.net.reset(touch(p.i))
			case k == 5:
				e.net.heal()
			case k < 8:
				p.kill()
				delete(frozen, p)
				if rng.IntN(4) > 0 {
					p.start()
				}
			case k == 8:
				if p.running() && !frozen[p] {
					p.signal(syscall.SIGTERM) // and on, while it leaves
					leaving[p.cmd] = true
				}
			case k == 9:
				if p.running() {
					p.signal(syscall.SIGSTOP)
					frozen[p] = true
				}
			case k == 10:
				for _, p := range e.procs {
					if frozen[p] {
						thaw(p)
					}
				}
			default:
				if !p.running() {
					p.start()
				}
			}
			pause(nil, time.Duration(rng.IntN(150))*time.Millisecond)
		}
		e.net.heal()
		for _, p := range e.procs {
			if frozen[p] {
				thaw(p)
			}
		}
		for _, p := range e.procs {
			if leaving[p.cmd] {
				eventually(t, fmt.Sprintf("server %d leaves", p.i+1), func() bool { return !p.running() })
			}
			if !p.running() {
				require.Contains(t, []int{0, -1}, p.exitCode(), "server %d ended by itself", p.i+1)
				p.start()
			}
		}
		during := w.h.acked.Load() - began
		healed := time.Now()
		if first, ok := w.goesOn(patience); !ok {
			t.Logf("history: %s", w.h.save(t, filepath.Base(t.Name())))
			t.Fatalf("bout %d: no writes after everything was healed; seed %d", bout, seed)
		} else {
			t.Logf("bout %d: %d writes during it, the first %v after it", bout, during, first.Round(time.Millisecond))
		}
		e.waitServing()
		t.Logf("bout %d: all serve after %v", bout, time.Since(healed).Round(time.Millisecond))
	}
	w.finish(watchers...)
	t.Logf("saw: %d operations, %d writes acknowledged; %d faults in %d bouts; seed %d", len(w.h.ops), w.h.acked.Load(), faults, bouts, seed)
}

func TestThreeVotersAndAnObserverWithEverythingAtOnce(t *testing.T) {
	t.Parallel()
	mix(t, layout{voters: 3, observers: 1}, rounds(1, 60), 60, tiny...)
}

func TestFiveServersWithEverythingAtOnce(t *testing.T) {
	t.Parallel()
	mix(t, layout{voters: 5}, rounds(1, 60), 40)
}
