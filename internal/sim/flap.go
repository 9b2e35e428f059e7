package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// flaps is trouble of a minority, over and over again.
var flaps = []fault{
	{"kill", 2 * time.Second, 300 * time.Millisecond, says("kill minority"), ends("start minority")},
	{"power", 3 * time.Second, 500 * time.Millisecond, says("power minority"), ends("start minority")},
	{"freeze", 2 * time.Second, 700 * time.Millisecond, says("freeze minority"), ends("thaw minority")},
	{"isolate", 2 * time.Second, 700 * time.Millisecond, says("block minority all", "block all minority"), ends("open minority all", "open all minority")},
	{"deaf", 2 * time.Second, 700 * time.Millisecond, says("block all minority"), ends("open all minority")},
	{"dumb", 2 * time.Second, 700 * time.Millisecond, says("block minority all"), ends("open minority all")},
	{"mute", 3 * time.Second, time.Second, says("mute minority all", "mute all minority"), ends("open minority all", "open all minority")},
	{"starve", 3 * time.Second, time.Second, says("starve minority all"), ends("open minority all")},
	{"reset", 500 * time.Millisecond, 0, says("reset minority all"), nil},
	{"stop", 3 * time.Second, 500 * time.Millisecond, says("stop minority"), ends("start minority")},
	{"wipe", 6 * time.Second, 300 * time.Millisecond, says("wipe minority"), ends("start minority")},
	{"disk slow", 2 * time.Second, time.Second, func(r *rand.Rand, _, _ int) []string {
		return text("disk minority slow %v", between(r, time.Millisecond, 800*time.Millisecond).Round(time.Millisecond))
	}, ends("disk minority slow 0s")},
	{"slow", 2 * time.Second, time.Second, func(r *rand.Rand, _, _ int) []string {
		d := between(r, time.Millisecond, 2*time.Second).Round(time.Millisecond)
		return []string{fmt.Sprintf("slow minority all %v", d), fmt.Sprintf("slow all minority %v", d)}
	}, ends("slow minority all 0s", "slow all minority 0s")},
}

func says(lines ...string) func(*rand.Rand, int, int) []string {
	return func(*rand.Rand, int, int) []string { return lines }
}

func ends(lines ...string) func(int, int) []string {
	return func(int, int) []string { return lines }
}

// flapping makes a scenario of one in which a minority is in trouble all the time and nobody else ever is (I-48).
func flapping(sc *Scenario, r *rand.Rand) {
	sc.Limits.CounterSoft, sc.Limits.CounterHard = 0, 0 // the end of the counters is a reason of the leader's own
	sc.Steps = append([]Step{{At: -1, Verb: "calm", Args: []string{"on"}}}, drawFaults(sc, r, flaps)...)
}

// minority draws, once in a run, voters that do not lead and that a majority can do without.
func (w *World) minority() []*node {
	if w.few == nil {
		var able []*node
		for _, n := range w.nodes {
			if !w.observer(n.id) && n != w.leader() {
				able = append(able, n)
			}
		}
		r := source(w.sc.Seed, "minority", 0)
		for range (w.voters() - 1) / 2 {
			i := r.IntN(len(able))
			w.few = append(w.few, able[i])
			able = append(able[:i], able[i+1:]...)
		}
	}
	return w.few
}
