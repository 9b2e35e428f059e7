package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// run is one ensemble under attack.
type run struct {
	layout
	t    *testing.T
	e    *ensemble
	w    *workload
	rng  *rand.Rand
	fmax time.Duration // longest time without a write, at the start of a fault
}

// fault begins, and returns what ends it. Writes must go on in between, unless stops is set.
type fault struct {
	name  string
	min   int // servers
	stops bool
	begin func(r *run) (end func())
}

func (r *run) follower() *process { return r.e.others(r.rng, r.e.leader())[0] }

// cut lets f change the wires that which picks; the end heals everything and, in half of all cases, resets what hung.
func (r *run) cut(which func(way) bool, f func(*wire)) func() {
	r.e.net.each(which, f)
	return func() {
		if r.rng.IntN(2) == 0 {
			r.e.net.reset(which)
		}
		r.e.net.heal()
	}
}

func (r *run) killed(ps ...*process) func() {
	for _, p := range ps {
		p.signal(syscall.SIGKILL)
	}
	for _, p := range ps {
		<-p.exited
	}
	return func() {
		for _, p := range ps {
			p.start()
		}
	}
}

func (r *run) frozen(p *process) func() {
	p.signal(syscall.SIGSTOP)
	return func() { p.signal(syscall.SIGCONT) }
}

func refuse(w *wire) { w.blocked, w.refuse = true, true }

var faults = []fault{
	{name: "kill the leader", begin: func(r *run) func() { return r.killed(r.e.leader()) }},
	{name: "kill a follower", begin: func(r *run) func() { return r.killed(r.follower()) }},
	{name: "kill the leader and a follower", min: 5, begin: func(r *run) func() { l := r.e.leader(); return r.killed(l, r.e.others(r.rng, l)[0]) }},
	{name: "kill all", stops: true, begin: func(r *run) func() { return r.killed(r.e.procs...) }},
	{name: "freeze the leader", begin: func(r *run) func() { return r.frozen(r.e.leader()) }},
	{name: "freeze a follower", begin: func(r *run) func() { return r.frozen(r.follower()) }},
	{name: "restart the leader", begin: func(r *run) func() { l := r.e.leader(); l.stop(); return l.start }},
	{name: "restart all, one by one", begin: func(r *run) func() {
		for _, p := range r.e.others(r.rng) {
			p.stop()
			p.start()
			r.e.waitServing()
		}
		return func() {}
	}},
	{name: "isolate the leader", begin: func(r *run) func() { return r.cut(touch(r.e.leader().i), block) }},
	{name: "isolate a follower", begin: func(r *run) func() { return r.cut(touch(r.follower().i), block) }},
	{name: "the leader cannot send", begin: func(r *run) func() { return r.cut(from(r.e.leader().i), block) }},
	{name: "the leader cannot hear", begin: func(r *run) func() { return r.cut(to(r.e.leader().i), block) }},
	{name: "a follower cannot send", begin: func(r *run) func() { return r.cut(from(r.follower().i), block) }},
	{name: "a follower cannot hear", begin: func(r *run) func() { return r.cut(to(r.follower().i), block) }},
	{name: "leader and one follower are apart", begin: func(r *run) func() {
		l := r.e.leader()
		return r.cut(between(l.i, r.e.others(r.rng, l)[0].i), block)
	}},
	{name: "two followers are apart", begin: func(r *run) func() {
		f := r.e.others(r.rng, r.e.leader())
		return r.cut(between(f[0].i, f[1].i), block)
	}},
	{name: "isolate the leader, with resets", begin: func(r *run) func() {
		l := touch(r.e.leader().i)
		end := r.cut(l, refuse)
		r.e.net.reset(l)
		return end
	}},
	{name: "reset all connections", begin: func(r *run) func() {
		for range 5 {
			r.e.net.reset(func(way) bool { return true })
			pause(nil, time.Duration(r.rng.IntN(100))*time.Millisecond)
		}
		return func() {}
	}},
	{name: "slow links", begin: func(r *run) func() {
		d := time.Duration(5+r.rng.IntN(60)) * time.Millisecond
		return r.cut(touch(r.rng.IntN(len(r.e.procs))), func(w *wire) { w.delay = d })
	}},
	{name: "stop the leader while a follower is cut off", begin: func(r *run) func() {
		l := r.e.leader()
		heal := r.cut(touch(r.e.others(r.rng, l)[0].i), block)
		l.stop()
		if r.voters == 3 { // nobody leads with one of three
			l.start()
		}
		return func() {
			heal()
			if !l.running() {
				l.start()
			}
		}
	}},
	{name: "wipe a follower", begin: func(r *run) func() {
		f := r.follower()
		f.kill()
		require.NoError(r.t, os.RemoveAll(filepath.Join(f.data, "zkd")))
		return f.start
	}},
}

// round lets one fault happen.
func (r *run) round(f fault) string {
	began := time.Now()
	end := f.begin(r)
	if !f.stops {
		first, ok := r.w.goesOn(20 * time.Second)
		if !ok {
			return fmt.Sprintf("%s: no writes within 20 s", f.name)
		}
		r.fmax = max(r.fmax, first)
	}
	pause(nil, time.Duration(r.rng.IntN(rounds(1200, 4000)))*time.Millisecond)
	end()
	if _, ok := r.w.goesOn(patience); !ok {
		return fmt.Sprintf("%s: no writes after its end", f.name)
	}
	r.e.waitServing()
	r.t.Logf("%6.1f s  %s, %.1f s", float64(r.w.h.now())/1e9, f.name, time.Since(began).Seconds())
	return ""
}

func attack(t *testing.T, l layout, rounds int, settings ...string) {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("ZKD_SEED"), 10, 64); err == nil {
		seed = s
	}
	e := newEnsemble(t, l, settings...)
	e.start()
	r := &run{layout: l, t: t, e: e, w: startWorkload(t, e, seed), rng: rand.New(rand.NewPCG(seed, 0))}
	var watchers []*watcher
	for i := range 3 {
		watchers = append(watchers, r.w.watch(r.w.keptKey(i)))
	}
	var plan []fault
	for len(plan) < rounds { // each fault once before one comes again
		for _, i := range r.rng.Perm(len(faults)) {
			if l.voters >= faults[i].min {
				plan = append(plan, faults[i])
			}
		}
	}
	var bad []string
	for _, f := range plan[:rounds] {
		if wrong := r.round(f); wrong != "" {
			bad = append(bad, wrong)
			break
		}
	}
	if len(bad) == 0 {
		bad = r.w.end(watchers)
	}
	if len(bad) > 0 || os.Getenv("ZKD_HISTORY") != "" {
		r.w.cancel()
		r.w.wg.Wait()
		t.Logf("history: %s", r.w.h.save(t, t.Name()))
	}
	var lost, events int64
	for _, o := range r.w.h.ops {
		if o.Result == unknown {
			lost++
		}
	}
	for _, x := range watchers {
		events += x.events.Load()
	}
	t.Logf("saw: %d operations, %d writes acknowledged, %d of unknown outcome, %d watch events; %d faults, longest wait for a write under one %v; %d violations; seed %d",
		len(r.w.h.ops), r.w.h.acked.Load(), lost, events, rounds, r.fmax.Round(time.Millisecond), len(bad), seed)
	for _, b := range slices.Compact(bad)[:min(len(bad), 20)] {
		t.Error(b)
	}
}

func rounds(short, whole int) int {
	if long {
		return whole
	}
	return short
}

func TestThreeServersUnderAttack(t *testing.T) {
	t.Parallel()
	attack(t, layout{voters: 3}, rounds(10, 200))
}

func TestVotersAndObserversUnderAttack(t *testing.T) {
	t.Parallel()
	attack(t, layout{voters: 3, observers: 2}, rounds(6, 100), "zkd.tailBytes=4096")
}

func TestFiveServersWithTinyLimitsUnderAttack(t *testing.T) {
	t.Parallel()
	attack(t, layout{voters: 5}, rounds(10, 200), tiny...)
}

func TestAFollowersFullDiskIsItsOwnTrouble(t *testing.T) {
	t.Parallel()
	small := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=28m", "tmpfs", small).CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be had: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", small).Run() })
	e := newEnsemble(t, layout{voters: 3, dirs: map[int]string{0: small}}, "zkd.segmentBytes=8388608")
	e.start()
	w := startWorkload(t, e, rand.Uint64())
	full := e.procs[0]
	eventually(t, "the disk is full", func() bool { return strings.Contains(full.logText(), "disk is full") })
	eventually(t, "the server leaves", func() bool { return full.mode() == "" })
	for range 3 {
		_, ok := w.goesOn(20 * time.Second)
		require.True(t, ok, "writes go on")
		pause(nil, 500*time.Millisecond)
	}
	require.True(t, full.running(), "it waits for space")
	require.Less(t, strings.Count(full.logText(), "no space on disk"), 5, "it comes and goes in circles")
	require.NoError(t, exec.Command("mount", "-o", "remount,size=200m", small).Run())
	e.waitServing()
	w.finish()
	t.Logf("saw: %d operations, %d writes acknowledged", len(w.h.ops), w.h.acked.Load())
}
