package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/zab"
)

// Options narrow what Swarm makes.
type Options struct {
	Nodes     int  // voters; 0: the seed chooses
	Porcupine bool // a second opinion on the clients' history
}

// fault is one kind of trouble: how it begins and, after a while, ends.
type fault struct {
	name  string
	mean  time.Duration // between two of the kind
	lasts time.Duration // mean; 0: there is no end
	begin func(r *rand.Rand, a, b int) []string
	end   func(a, b int) []string
}

func text(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }

var faults = []fault{
	{"kill", 6 * time.Second, 800 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("kill %d", a) },
		func(a, _ int) []string { return text("start %d", a) }},
	{"kill leader", 8 * time.Second, 800 * time.Millisecond, func(*rand.Rand, int, int) []string { return text("kill leader") },
		func(int, int) []string { return text("start all") }},
	{"power", 6 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("power %d", a) },
		func(a, _ int) []string { return text("start %d", a) }},
	{"power leader", 8 * time.Second, 1500 * time.Millisecond, func(*rand.Rand, int, int) []string { return text("power leader") },
		func(int, int) []string { return text("start all") }},
	{"power all", 12 * time.Second, time.Second, func(*rand.Rand, int, int) []string { return text("power all") },
		func(int, int) []string { return text("start all") }},
	{"cut", 4 * time.Second, time.Second, func(r *rand.Rand, a, _ int) []string { return text("disk %d cut %d", a, 1+r.IntN(30)) },
		func(a, _ int) []string { return text("start %d", a) }},
	{"freeze", 6 * time.Second, 900 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("freeze %d", a) },
		func(a, _ int) []string { return text("thaw %d", a) }},
	{"freeze leader", 8 * time.Second, 1200 * time.Millisecond, func(*rand.Rand, int, int) []string { return text("freeze leader") },
		func(int, int) []string { return text("thaw all") }},
	{"isolate", 6 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("block %d all", a), fmt.Sprintf("block all %d", a)}
	}, func(a, _ int) []string { return []string{fmt.Sprintf("open %d all", a), fmt.Sprintf("open all %d", a)} }},
	{"isolate leader", 8 * time.Second, 1500 * time.Millisecond, func(*rand.Rand, int, int) []string {
		return []string{"block leader all", "block all leader"}
	}, func(int, int) []string { return text("open all all") }},
	{"link", 5 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, b int) []string {
		return []string{fmt.Sprintf("block %d %d", a, b), fmt.Sprintf("block %d %d", b, a)}
	}, func(a, b int) []string {
		return []string{fmt.Sprintf("open %d %d", a, b), fmt.Sprintf("open %d %d", b, a)}
	}},
	{"one way", 5 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, b int) []string { return text("block %d %d", a, b) },
		func(a, b int) []string { return text("open %d %d", a, b) }},
	{"mute", 4 * time.Second, 2 * time.Second, func(_ *rand.Rand, a, b int) []string {
		return []string{fmt.Sprintf("mute %d %d", a, b), fmt.Sprintf("mute %d %d", b, a)}
	}, func(a, b int) []string {
		return []string{fmt.Sprintf("open %d %d", a, b), fmt.Sprintf("open %d %d", b, a)}
	}},
	{"starve", 6 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, b int) []string { return text("starve %d %d", a, b) },
		func(a, b int) []string { return text("open %d %d", a, b) }},
	{"refuse", 8 * time.Second, 2 * time.Second, func(_ *rand.Rand, a, b int) []string { return text("refuse %d %d", a, b) },
		func(a, b int) []string { return text("admit %d %d", a, b) }},
	{"shut out", 10 * time.Second, 5 * time.Second, func(_ *rand.Rand, a, _ int) []string { return text("refuse all %d", a) },
		func(a, _ int) []string { return text("admit all %d", a) }},
	{"reset", 2 * time.Second, 0, func(_ *rand.Rand, a, b int) []string { return text("reset %d %d", a, b) }, nil},
	{"slow", 5 * time.Second, 2 * time.Second, func(r *rand.Rand, a, b int) []string {
		return text("slow %d %d %v", a, b, between(r, time.Millisecond, 400*time.Millisecond).Round(time.Microsecond))
	}, func(a, b int) []string { return text("slow %d %d 0s", a, b) }},
	{"disk slow", 5 * time.Second, 2 * time.Second, func(r *rand.Rand, a, _ int) []string {
		return text("disk %d slow %v", a, between(r, time.Millisecond, 200*time.Millisecond).Round(time.Microsecond))
	}, func(a, _ int) []string { return text("disk %d slow 0s", a) }},
	{"disk hang", 8 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("disk %d hang", a) },
		func(a, _ int) []string { return text("disk %d ok", a) }},
	{"fail sync", 6 * time.Second, 0, func(_ *rand.Rand, a, _ int) []string { return text("disk %d failsync", a) }, nil},
	{"fail sync, then power", 9 * time.Second, time.Second, func(_ *rand.Rand, a, _ int) []string { return text("disk %d failsync", a) },
		func(a, _ int) []string { return []string{fmt.Sprintf("power %d", a), fmt.Sprintf("start %d", a)} }},
	{"disk full", 9 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("disk %d full", a) },
		func(a, _ int) []string { return text("disk %d free", a) }},
	{"rot", 8 * time.Second, 300 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("rot %d", a) },
		func(a, _ int) []string { return []string{fmt.Sprintf("kill %d", a), fmt.Sprintf("start %d", a)} }},
	{"backup", 3 * time.Second, 0, func(_ *rand.Rand, a, _ int) []string { return text("backup %d", a) }, nil},
	{"backup, then restore", 4 * time.Second, 3 * time.Second, func(_ *rand.Rand, a, _ int) []string { return text("backup %d", a) },
		func(a, _ int) []string { return text("restore %d", a) }},
	{"another cluster's folder", 9 * time.Second, 2 * time.Second, func(_ *rand.Rand, a, _ int) []string { return text("swap %d", a) },
		func(a, _ int) []string { return text("return %d", a) }},
	{"garble", 2 * time.Second, 0, func(_ *rand.Rand, a, b int) []string { return text("garble %d %d", a, b) }, nil},
	{"little room", 5 * time.Second, 2500 * time.Millisecond, func(r *rand.Rand, a, _ int) []string {
		return text("disk %d room %d", a, r.IntN(400<<10))
	}, func(a, _ int) []string { return text("disk %d free", a) }},
	{"crawl", 9 * time.Second, 6 * time.Second, func(r *rand.Rand, a, _ int) []string {
		return text("disk %d slow %v", a, between(r, 200*time.Millisecond, 1500*time.Millisecond).Round(time.Millisecond))
	}, func(a, _ int) []string { return text("disk %d slow 0s", a) }},
	{"one way", 8 * time.Second, 5 * time.Second, func(_ *rand.Rand, a, b int) []string { return text("block %d %d", a, b) },
		func(a, b int) []string { return text("open %d %d", a, b) }},
	{"deaf", 10 * time.Second, 4 * time.Second, func(_ *rand.Rand, a, _ int) []string { return text("block all %d", a) },
		func(a, _ int) []string { return text("open all %d", a) }},
	{"dumb", 10 * time.Second, 4 * time.Second, func(_ *rand.Rand, a, _ int) []string { return text("block %d all", a) },
		func(a, _ int) []string { return text("open %d all", a) }},
	{"pause", 7 * time.Second, 1500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("pause %d", a) },
		func(a, _ int) []string { return text("thaw %d", a) }},
	{"suspend", 9 * time.Second, 5 * time.Second, func(_ *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("freeze %d", a), fmt.Sprintf("block %d all", a), fmt.Sprintf("block all %d", a)}
	}, func(a, _ int) []string {
		return []string{fmt.Sprintf("open %d all", a), fmt.Sprintf("open all %d", a), fmt.Sprintf("thaw %d", a)}
	}},
	{"wall leap", 9 * time.Second, 0, func(r *rand.Rand, a, _ int) []string {
		return text("wall %d %v", a, (between(r, 0, 2000*time.Hour) - 1000*time.Hour).Round(time.Second))
	}, nil},
	{"wipe", 10 * time.Second, 500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("wipe %d", a) },
		func(a, _ int) []string { return text("start %d", a) }},
	{"stop", 7 * time.Second, 600 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("stop %d", a) },
		func(a, _ int) []string { return text("start %d", a) }},
	{"stop leader", 9 * time.Second, time.Second, func(*rand.Rand, int, int) []string { return text("stop leader") },
		func(int, int) []string { return text("start all") }},
	{"handover", 5 * time.Second, 0, func(*rand.Rand, int, int) []string { return text("handover leader") }, nil},
	{"handover to", 5 * time.Second, 0, func(_ *rand.Rand, a, _ int) []string { return text("handover leader %d", a) }, nil},
	{"stray", 300 * time.Millisecond, 0, func(_ *rand.Rand, a, _ int) []string { return text("stray %d", a) }, nil},
	{"snapshot", 2 * time.Second, 0, func(_ *rand.Rand, a, _ int) []string { return text("snapshot %d", a) }, nil},
	{"lie", 12 * time.Second, 0, func(_ *rand.Rand, a, _ int) []string { return text("lie %d", a) }, nil},
	{"wall", 5 * time.Second, 0, func(r *rand.Rand, a, _ int) []string {
		return text("wall %d %v", a, (between(r, 0, 20*time.Second) - 10*time.Second).Round(time.Millisecond))
	}, nil},
	{"rot, then scrub", 6 * time.Second, 500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string { return text("rot %d", a) },
		func(a, _ int) []string { return text("scrub %d", a) }},
}

// Swarm makes the scenario of a seed: a random part of the kinds of trouble, each at a rate of its own, and limits shrunk or not.
// Running everything at once would hide what a single kind brings about.
func Swarm(seed uint64, o Options) *Scenario {
	r := source(seed, "swarm", 0)
	sc := &Scenario{Seed: seed, Nodes: 3, Clients: 1 + r.IntN(4), Depth: 1 + r.IntN(4), Budgeted: !chance(r, 4)}
	if chance(r, 5) {
		sc.Nodes = 5
	}
	if o.Nodes > 0 {
		sc.Nodes = o.Nodes
	}
	if chance(r, 6) {
		sc.Observers = 1
	}
	sc.Rate = between(r, 20*time.Millisecond, 400*time.Millisecond).Round(time.Millisecond)
	sc.Length = between(r, 8*time.Second, 40*time.Second).Round(time.Second)
	sc.Net = between(r, 50*time.Microsecond, 3*time.Millisecond).Round(time.Microsecond)
	sc.DiskDelay = between(r, 100*time.Microsecond, 8*time.Millisecond).Round(time.Microsecond)
	if chance(r, 2) {
		sc.Drift = []float64{1e-5, 1e-3, 0.02}[r.IntN(3)]
	}
	if chance(r, 2) {
		sc.Watches = 1 + r.IntN(5)
	}
	sc.Limits = drawLimits(r)
	if g := source(seed, "gather", 0); chance(g, 3) { // of its own, so that the rest of a seed is as it was
		sc.Limits.Gather = []time.Duration{-1, 5 * time.Millisecond, 40 * time.Millisecond}[g.IntN(3)]
	}
	if d := source(seed, "demand", 0); chance(d, 2) { // likewise
		sc.Limits.Demand = 2 + d.IntN(4)
	}
	if chance(r, 12) {
		flapping(sc, r)
	} else {
		sc.Steps = drawFaults(sc, r, faults)
		aim(sc)
	}
	return sc
}

func drawLimits(r *rand.Rand) Limits {
	var l Limits
	if chance(r, 2) {
		l.Segment = []int64{12 << 10, 16 << 10, 32 << 10}[r.IntN(3)]
	}
	if chance(r, 2) {
		l.SnapTxns = 3 + r.IntN(40)
	}
	if chance(r, 3) {
		l.RetainLog = 1
		l.RetainSnaps = 1
	}
	if chance(r, 3) {
		l.Tail = 1 + r.IntN(8<<10)
	}
	if chance(r, 4) {
		l.Inflight = 1 + r.IntN(3)
	}
	if chance(r, 4) {
		l.BatchCount = 1 + r.IntN(3)
	}
	if chance(r, 6) {
		l.MaxPending = 2 + r.IntN(6)
	}
	if chance(r, 5) {
		l.Bytes = 300 + r.IntN(4000)
	}
	if chance(r, 3) {
		l.DiffMin = 1
	}
	if chance(r, 3) {
		l.LazyLoop = between(r, time.Millisecond, 60*time.Millisecond).Round(time.Millisecond)
	}
	if chance(r, 8) {
		l.CounterSoft = uint32(10 + r.IntN(60))
		l.CounterHard = l.CounterSoft + uint32(r.IntN(20))
	}
	if chance(r, 4) {
		l.FinalizeWait = -1
	}
	if chance(r, 3) {
		l.Chunk = int64(200 + r.IntN(2000))
	}
	return l
}

// drawFaults draws which kinds of trouble there are, and when.
func drawFaults(sc *Scenario, r *rand.Rand, faults []fault) []Step {
	var steps []Step
	add := func(at time.Duration, lines []string) {
		for _, line := range lines {
			s := &Scenario{}
			if err := s.line(append([]string{"at", at.Round(time.Microsecond).String()}, strings.Fields(line)...), nil); err != nil {
				panic(err)
			}
			steps = append(steps, s.Steps...)
		}
	}
	nodes := sc.Nodes + sc.Observers
	p := []int{2, 3, 5, 9}[r.IntN(4)]
	hurry := 0.3 + 1.5*r.Float64()
	for i := range faults {
		f := &faults[i]
		if !chance(r, p) {
			continue
		}
		mean := time.Duration(float64(f.mean) * hurry)
		for at := around(r, mean); at < sc.Length; at += around(r, mean) + time.Millisecond {
			a := 1 + r.IntN(nodes)
			b := 1 + (a+r.IntN(nodes-1))%nodes
			add(at, f.begin(r, a, b))
			if f.end != nil {
				add(at+around(r, f.lasts)+time.Millisecond, f.end(a, b))
			}
		}
	}
	slices.SortStableFunc(steps, func(x, y Step) int { return int(x.At - y.At) })
	return slices.DeleteFunc(steps, func(s Step) bool { return s.At >= sc.Length })
}

// recoverFrom starts a server's storage on a disk of its own and says what it finds.
func recoverFrom(d *simdisk.Disk, self zab.ServerID, segment int64) (peer.Recovered, error) {
	id := uint64(1)
	store, rec, err := peer.OpenStorage(peer.StorageConfig{Disk: d, DataDir: "/data", Self: self, SegmentBytes: segment, RetainSnaps: 2,
		NewID: func() uint64 { id++; return id }, Wall: func() time.Time { return epoch0 }}, &ghost{machine: newMachine()})
	if err != nil {
		return rec, err
	}
	return rec, store.Close(false)
}
