package leader

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// made is a history in the notation of replication §8.2: "1:1 1:2 2:1". The chain at a position is a hash of the text so far, so two
// texts agree on it exactly where they agree on everything before.
func made(t testing.TB, text string) (recs []zab.Position, table zab.EpochTable) {
	t.Helper()
	table.Whole = true
	var prev zab.Position
	for _, f := range strings.Fields(text) {
		f, other, _ := strings.Cut(f, "/") // "1:2/x": another record with this zxid
		z, err := txn.ParseZxid(f)
		require.NoError(t, err)
		sum := uint32(len(other))
		for _, c := range other {
			sum = sum*31 + uint32(c)
		}
		prev = zab.Position{Zxid: z, Chain: txn.Chain(prev.Chain, z, sum)}
		recs = append(recs, prev)
		table.Extend(prev.Zxid, prev.Chain)
	}
	return recs, table
}

// input makes a PlanInput out of both histories; everything else is at its most generous and the caller narrows it.
func input(t testing.TB, own, theirs string) *PlanInput {
	in := &PlanInput{DiffMinBytes: 1000, DiffMaxRatio: 0.5}
	l, lt := made(t, own)
	f, ft := made(t, theirs)
	in.Leader.Table, in.Learner.Table = lt, ft
	if len(l) > 0 {
		in.Leader.End = l[len(l)-1].Zxid
	}
	if len(f) > 0 {
		in.Learner.Last = f[len(f)-1].Zxid
	}
	in.Leader.ChainAt = func(z txn.Zxid) (uint64, bool) {
		for _, p := range l {
			if p.Zxid == z {
				return p.Chain, true
			}
		}
		return 0, z == 0
	}
	in.Leader.Bytes = func(z txn.Zxid) (n int64) {
		for _, p := range l {
			if p.Zxid > z {
				n += 100
			}
		}
		return n
	}
	return in
}

func TestPlanAnswersTheCasesOfTheSpec(t *testing.T) {
	z := func(s string) txn.Zxid {
		x, err := txn.ParseZxid(s)
		require.NoError(t, err)
		return x
	}
	long := "1:1"
	for i := 2; i <= 30; i++ {
		long += fmt.Sprintf(" 1:%d", i)
	}
	for _, c := range []struct {
		name, own, theirs string
		change            func(in *PlanInput)
		want              string
	}{
		{"S1 in step", "1:1 1:2", "1:1 1:2", nil, "DIFF 1:2"},
		{"S2 behind, in memory", "1:1 1:2 1:3", "1:1", nil, "DIFF 1:1"},
		{"S3 behind memory, log on disk", long, "1:1", func(in *PlanInput) { in.Leader.TailStart, in.DiffMinBytes = z("1:29"), 1<<20 }, "DIFF 1:1"},
		{"S3 behind memory, a snapshot is cheaper", long, "1:1", func(in *PlanInput) {
			in.Leader.TailStart, in.Leader.Snapshot, in.Leader.SnapSize = z("1:29"), z("1:28"), 100
		}, "SNAP 1:1"},
		{"S4 behind the log", long, "1:1", func(in *PlanInput) {
			in.Leader.Base, in.Leader.Snapshot, in.Leader.TailStart = z("1:20"), z("1:20"), z("1:20")
		}, "SNAP 1:1"},
		{"S5 ahead in the same epoch", "1:1 1:2 1:3", "1:1 1:2 1:3 1:4 1:5", nil, "TRUNC 1:3"},
		{"S6 old epoch with more than here", "1:1 1:2 2:1 3:1", "1:1 1:2 1:3", nil, "TRUNC 1:2"},
		{"S7 across an epoch that is unknown here", "1:1 1:2 3:1", "1:1 1:2 2:1", nil, "TRUNC 1:2"},
		{"S8 cannot be cut that far", "1:1 1:2 1:3 2:1", "1:1 1:2 1:3 1:4 1:5", func(in *PlanInput) {
			in.Learner.MinRestorable, in.Leader.Snapshot = z("1:5"), z("2:1")
		}, "SNAP 1:3"},
		{"S9 can be cut that far", "1:1 1:2 1:3 2:1", "1:1 1:2 1:3 1:4 1:5", func(in *PlanInput) {
			in.Learner.MinRestorable, in.Leader.Snapshot = z("1:2"), z("2:1")
		}, "TRUNC 1:3"},
		{"S10 nothing but a snapshot, chain equal", "4:1", "4:1", func(in *PlanInput) {
			in.Leader.Base, in.Leader.Snapshot, in.Leader.TailStart = z("4:1"), z("4:1"), z("4:1")
		}, "DIFF 4:1"},
		{"S10 nothing but a snapshot, learner below", "3:1 4:1", "3:1", func(in *PlanInput) {
			in.Leader.Base, in.Leader.Snapshot, in.Leader.TailStart = z("4:1"), z("4:1"), z("4:1")
		}, "SNAP 3:1"},
		{"S11 new epoch without records", "4:1 4:2", "4:1 4:2", nil, "DIFF 4:2"},
		{"S12 back from an epoch without records", "4:1 4:2", "4:1", nil, "DIFF 4:1"},
		{"S13 both empty", "", "", nil, "DIFF 0:0"},
		{"S14 learner empty", "1:1 1:2", "", func(in *PlanInput) { in.Leader.Snapshot = z("1:1") }, "SNAP 0:0"},
		{"S14 learner empty, no snapshot yet", "1:1 1:2", "", nil, "DIFF 0:0"},
		{"S15 same zxid, other record", "1:1 1:2", "1:1 1:2/x", nil, "FORK 1:2"},
		{"S15 other record, end known from the table only", "1:1 1:2/x 2:1", "1:1 1:2", nil, "FORK 1:2"},
		{"S16 the log could not be read", "1:1 1:2 1:3", "1:1", func(in *PlanInput) { in.MustSnap, in.Leader.Snapshot = true, z("1:2") }, "SNAP 1:1"},
		{"S16 the log could not be read, no snapshot", "1:1 1:2 1:3", "1:1", func(in *PlanInput) { in.MustSnap = true }, "STUCK 1:1"},
		{"S17 no common epoch", "2:1", "1:1", nil, "TRUNC 0:0"},
		{"S17 leader empty", "", "1:1", nil, "TRUNC 0:0"},
		{"no common epoch, tables cut off", "5:1", "1:1", func(in *PlanInput) {
			in.Leader.Table.Whole, in.Leader.Base, in.Leader.Snapshot = false, z("5:1"), z("5:1")
		}, "SNAP unknown"},
		{"R-67 a snapshot at the common point is none", long, "1:1 1:2 1:3", func(in *PlanInput) {
			in.Leader.TailStart, in.Leader.Snapshot, in.Leader.SnapSize = z("1:29"), z("1:3"), 100
		}, "DIFF 1:3"},
		{"R-67 a snapshot below the common point is none", "1:1 1:2 2:1", "1:1 1:2 1:3", func(in *PlanInput) {
			in.Learner.MinRestorable, in.Leader.Snapshot = z("1:3"), z("1:1")
		}, "TRUNC 1:2"},
	} {
		in := input(t, c.own, c.theirs)
		if c.change != nil {
			c.change(in)
		}
		p := MakePlan(in)
		got := p.Mode.String() + " unknown"
		if p.Known {
			got = p.Mode.String() + " " + p.Common.Zxid.String()
		}
		require.Equal(t, c.want, got, c.name)
	}
}

// TestPlanAgreesWithItsSlowTwin: histories that a protocol run can leave behind; the twin compares them record by record.
func TestPlanAgreesWithItsSlowTwin(t *testing.T) {
	modes := map[Mode]int{}
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		nodes := run(rnd)
		l, f := nodes[0], nodes[1]
		in := input(t, strings.Join(l, " "), strings.Join(f, " "))
		at := func(h []string, i int) txn.Zxid {
			if i == 0 {
				return 0
			}
			z, _ := txn.ParseZxid(h[i-1])
			return z
		}
		in.Leader.Base = at(l, rnd.IntN(len(l)+1))
		in.Leader.Snapshot = max(in.Leader.Base, at(l, rnd.IntN(len(l)+1)))
		in.Leader.TailStart = max(in.Leader.Base, at(l, rnd.IntN(len(l)+1)))
		in.Leader.SnapSize = int64(rnd.IntN(2000))
		in.DiffMinBytes = int64(rnd.IntN(1000))

		common := 0
		for common < len(l) && common < len(f) && l[common] == f[common] {
			common++
		}
		in.Learner.MinRestorable = at(f, rnd.IntN(common+1)) // what is applied was committed, so both have it
		p := MakePlan(in)
		modes[p.Mode]++
		require.True(t, p.Known, "seed %d", seed)
		require.Equal(t, at(l, common), p.Common.Zxid, "seed %d: %v and %v", seed, l, f)
		chain, _ := in.Leader.ChainAt(p.Common.Zxid)
		require.Equal(t, chain, p.Common.Chain, "seed %d", seed)

		switch p.Mode {
		case ModeSnap:
			require.Greater(t, in.Leader.Snapshot, p.Common.Zxid, "seed %d", seed)
		case ModeDiff, ModeTrunc:
			require.GreaterOrEqual(t, p.Common.Zxid, in.Leader.Base, "seed %d: it cannot be streamed", seed)
			require.Equal(t, p.Mode == ModeDiff, common == len(f), "seed %d", seed)
			behind := int64(100 * (len(l) - common))
			cheap := behind <= max(in.DiffMinBytes, in.Leader.SnapSize/2)
			require.True(t, cheap || p.Common.Zxid >= in.Leader.TailStart || in.Leader.Snapshot <= p.Common.Zxid, "seed %d: a snapshot is cheaper", seed)
		default:
			require.Fail(t, "no way", "seed %d: %v", seed, p)
		}
	}
	for _, m := range []Mode{ModeDiff, ModeTrunc, ModeSnap} {
		require.Greater(t, modes[m], 1000, "%v", m)
	}
}

// run plays epochs: somebody leads, some are brought into line with it, and each stores a part of what it proposes.
func run(rnd *rand.Rand) [3][]string {
	var nodes [3][]string
	for e := range 1 + rnd.IntN(6) {
		lead := rnd.IntN(3)
		start := nodes[lead]
		n := rnd.IntN(4)
		for i := range nodes {
			if i != lead && rnd.IntN(2) == 0 {
				continue
			}
			k := n
			if i != lead {
				k = rnd.IntN(n + 1)
			}
			h := append([]string{}, start...)
			for c := range k {
				h = append(h, fmt.Sprintf("%d:%d", e+1, c+1))
			}
			nodes[i] = h
		}
	}
	return nodes
}
