package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// aimed is trouble that waits for a moment of the protocol or of the disk, instead of coming at any time.
var aimed = []fault{
	{"cut off at a packet", 2 * time.Second, 700 * time.Millisecond, func(r *rand.Rand, a, b int) []string {
		return text("catch %s %d %d", packets[r.IntN(len(packets))], a, b)
	}, func(a, b int) []string {
		return []string{"catch nothing", fmt.Sprintf("open %d %d", a, b)}
	}},
	{"power off at a packet", 4 * time.Second, 700 * time.Millisecond, func(r *rand.Rand, a, b int) []string {
		return text("catch %s %d %d", packets[r.IntN(len(packets))], a, b)
	}, func(a, b int) []string {
		return []string{"catch nothing", fmt.Sprintf("power %d", a), fmt.Sprintf("open %d %d", a, b), fmt.Sprintf("start %d", a)}
	}},
	{"power off at an operation", 3 * time.Second, time.Second, func(r *rand.Rand, a, _ int) []string {
		return text("catch %s %d", operations[r.IntN(len(operations))], a)
	}, func(a, _ int) []string {
		return []string{"catch nothing", fmt.Sprintf("power %d", a), fmt.Sprintf("disk %d ok", a), fmt.Sprintf("start %d", a)}
	}},
	{"power off in an install", 3 * time.Second, time.Second, says1("catch installsnapshot %d"), cutNext},
	{"power off in a cut", 3 * time.Second, time.Second, says1("catch truncate %d"), cutNext},
	{"power off in a start", 4 * time.Second, time.Second, func(r *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("kill %d", a), fmt.Sprintf("disk %d cut %d", a, 1+r.IntN(12)), fmt.Sprintf("start %d", a)}
	}, func(a, _ int) []string { return text("start %d", a) }},
	{"rot, power off in a start", 6 * time.Second, time.Second, func(r *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("rot %d", a), fmt.Sprintf("kill %d", a), fmt.Sprintf("disk %d cut %d", a, 1+r.IntN(30)), fmt.Sprintf("start %d", a)}
	}, func(a, _ int) []string { return text("start %d", a) }},
	{"forget", 9 * time.Second, 0, func(_ *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("forget %d", a), fmt.Sprintf("start %d", a)}
	}, nil},
	{"lose", 9 * time.Second, 0, func(_ *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("lose %d", a), fmt.Sprintf("start %d", a)}
	}, nil},
	{"split", 7 * time.Second, 3 * time.Second, func(_ *rand.Rand, a, b int) []string {
		return []string{fmt.Sprintf("partition %d %d | all", a, b), fmt.Sprintf("open %d %d", a, b), fmt.Sprintf("open %d %d", b, a)}
	}, func(_, _ int) []string { return text("open all all") }},
	{"split from the leader", 7 * time.Second, 3 * time.Second, func(_ *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("partition leader %d | all", a), fmt.Sprintf("open leader %d", a), fmt.Sprintf("open %d leader", a)}
	}, func(_, _ int) []string { return text("open all all") }},
	{"wipe twice", 9 * time.Second, 2500 * time.Millisecond, func(_ *rand.Rand, a, _ int) []string {
		return []string{fmt.Sprintf("wipe %d", a), fmt.Sprintf("start %d", a)}
	}, func(a, _ int) []string { return []string{fmt.Sprintf("wipe %d", a), fmt.Sprintf("start %d", a)} }},
}

var (
	packets = []string{"followerinfo", "leaderinfo", "ackepoch", "diff", "trunc", "newleader", "ack", "uptodate", "propose", "commit", "ping", "pong",
		"snapbegin", "snapchunk", "snapend", "requests", "handover"}
	operations = []string{"append", "savehardstate", "savehardstate", "truncate", "installsnapshot", "initialize"}
)

func says1(line string) func(*rand.Rand, int, int) []string {
	return func(_ *rand.Rand, a, _ int) []string { return text(line, a) }
}

// cutNext lets a disk go on that was caught, and cuts the power some steps further on.
func cutNext(a, b int) []string {
	return []string{"catch nothing", fmt.Sprintf("disk %d ok", a), fmt.Sprintf("disk %d cut %d", a, 2*b+a)}
}

// aim adds aimed trouble to some seeds, and a hurry to others, from a source of its own: what else a seed does stays as it was.
func aim(sc *Scenario) {
	r := source(sc.Seed, "aim", 0)
	if chance(r, 8) { // many requests under way
		sc.Rate, sc.Depth, sc.Length = between(r, 2*time.Millisecond, 12*time.Millisecond), 2+r.IntN(6), min(sc.Length, 8*time.Second)
		sc.Rate = sc.Rate.Round(time.Microsecond)
	}
	if chance(r, 6) {
		sc.Observers = 1 + r.IntN(2)
	}
	if chance(r, 4) {
		sc.Limits.RetainSnaps = 3
	}
	if !chance(r, 2) {
		return
	}
	steps := drawFaults(sc, r, aimed)
	if chance(r, 8) {
		steps = append(steps, unborn(r)...)
	}
	steps = append(steps, sc.Steps...)
	slices.SortStableFunc(steps, func(x, y Step) int { return int(x.At - y.At) })
	sc.Steps = append(steps, Step{At: sc.Length - time.Millisecond, Verb: "catch", Args: []string{"nothing"}})
}

// unborn: the founder's first record reaches nobody, and the others go on without it (S17).
func unborn(r *rand.Rand) []Step {
	var steps []Step
	off := between(r, 500*time.Millisecond, 2*time.Second)
	back := off + between(r, time.Second, 5*time.Second)
	for _, s := range []struct {
		at   time.Duration
		line string
	}{{0, "catch propose 3 1"}, {0, "catch propose 3 2"}, {off, "catch nothing"}, {off, "power 3"}, {off, "open all all"}, {back, "start 3"}} {
		f := strings.Fields(s.line)
		steps = append(steps, Step{At: s.at.Round(time.Microsecond), Verb: f[0], Args: f[1:]})
	}
	return steps
}
