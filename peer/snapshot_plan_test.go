package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// planned is a plan with exact bounds: 10 transactions and 100 bytes, or 1000 bytes.
func planned(rec Recovered, after int64) *SnapshotPlan {
	s := NewSnapshotPlan(SnapshotBounds{Txns: 10, Bytes: 100, Limit: 1000}, &rec, after, 0.5)
	return &s
}

// takes applies n records of the given size each.
func takes(s *SnapshotPlan, n, size int) {
	for range n {
		s.Applied([]txn.Record{{Zxid: s.at.Zxid + 1, Chain: s.at.Chain + 7, Bytes: make([]byte, size)}})
	}
}

func TestASnapshotIsDueByBothBoundsOrByTheLimit(t *testing.T) {
	for _, c := range []struct {
		what        string
		rec         Recovered
		after       int64
		txns, bytes int // applied one by one, bytes each; due at the last of them
	}{
		{"by transactions", Recovered{}, 0, 10, 50},
		{"by bytes", Recovered{}, 0, 20, 5},
		{"by the limit", Recovered{}, 0, 4, 250},
		{"by the size of the last", Recovered{SnapshotSize: 500}, 0, 25, 20},
		{"by the size of the last, which is above the limit", Recovered{SnapshotSize: 2000}, 0, 5, 400},
		{"after a replay", Recovered{Replayed: 8}, 90, 2, 5},
	} {
		s := planned(c.rec, c.after)
		for i := range c.txns {
			require.False(t, s.Due(), "%s: after %d", c.what, i)
			takes(s, 1, c.bytes)
		}
		require.True(t, s.Due(), c.what)
		require.Equal(t, s.at, s.Begin(0, 0.5), c.what)
		s.Over()
		require.False(t, s.Due(), c.what)
	}
}

func TestThereIsOneSnapshotAtATimeHoweverManyAreDue(t *testing.T) {
	s := planned(Recovered{}, 0)
	takes(s, 10, 10)
	require.Equal(t, zab.Position{Zxid: 10, Chain: 70}, s.Begin(0, 0.5))
	takes(s, 10, 1000)
	s.Demand()
	require.True(t, s.Running())
	require.False(t, s.Due())
	s.Over()
	require.True(t, s.Due())
	s.Begin(0, 0.5)
	s.Over()
	require.False(t, s.Due(), "what was due and what was demanded is one snapshot")
}

// It is not known of one that fails whether the next one would not.
func TestADemandIsForOneSnapshotWhateverComesOfIt(t *testing.T) {
	s := planned(Recovered{}, 0)
	s.Demand()
	require.False(t, s.Due(), "of nothing")
	takes(s, 1, 1)
	require.True(t, s.Due())
	require.True(t, s.Due(), "the state may not have been ready")
	s.Begin(0, 0.5)
	s.Over()
	require.False(t, s.Due())
	s.Demand()
	s.Begin(0, 0.5)
	s.Demand() // beside it
	s.Over()
	require.True(t, s.Due())
}

func TestNoSnapshotBeginsWhileAnotherStateIsInstalled(t *testing.T) {
	s := planned(Recovered{}, 0)
	takes(s, 1, 1)
	to := zab.Position{Zxid: 40, Chain: 3}
	s.Installs(zab.InstallSnapshot{ID: 5, Begin: zab.SnapBegin{At: to}})
	s.Demand()
	for _, id := range []uint64{0, 4, 6} {
		s.Installed(id)
		require.False(t, s.Due(), "operation %d", id)
	}
	s.Installed(5)
	require.True(t, s.Due())
	require.Equal(t, to, s.Begin(0, 0.5))
}

func TestBoundsAreThirtyPercentApart(t *testing.T) {
	b := SnapshotBounds{Txns: 1000, Bytes: 1000, Limit: 100_000}
	low, high := NewSnapshotPlan(b, &Recovered{}, 0, 0), NewSnapshotPlan(b, &Recovered{}, 0, 1)
	for _, c := range []struct {
		want, got int64
	}{
		{700, int64(low.dueTxns)}, {1300, int64(high.dueTxns)}, {700, low.dueBytes}, {1300, high.dueBytes}, {70_000, low.limit}, {130_000, high.limit},
	} {
		require.InDelta(t, c.want, c.got, 1) // rounded down
	}
}
