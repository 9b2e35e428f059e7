package session

import (
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
)

func TestIDsAreUniqueAndNamedByServer(t *testing.T) {
	g := NewGenerator(3, 0x1234567890)
	first := g.Next()
	require.Equal(t, txn.SessionID(0x0312345678900000), first)
	require.Equal(t, first+1, g.Next())

	again := NewGenerator(3, 0x1234567890) // restarted, the clock stands where it was
	again.RaiseAbove(first + 1)
	again.RaiseAbove(first)
	again.RaiseAbove(0x04FFFFFFFFFFFFFF) // another server's
	require.Equal(t, first+2, again.Next())
}

func TestReservedIDsAreSkipped(t *testing.T) {
	require.Equal(t, txn.SessionID(1), NewGenerator(0, 0).Next())
	require.Equal(t, txn.OwnerContainer+1, NewGenerator(0x80, 0).Next())
	g := NewGenerator(1, 0)
	g.RaiseAbove(0x01FFFFFFFFFFFFFF) // the counter wraps within the server's ids
	require.Equal(t, txn.SessionID(0x0100000000000000), g.Next())
}

func TestPassword(t *testing.T) {
	secret := []byte("secret")
	p := Password(secret, 77)
	require.True(t, CheckPassword(secret, 77, p[:]))
	require.False(t, CheckPassword(secret, 78, p[:]))
	require.False(t, CheckPassword([]byte("Secret"), 77, p[:]))
	require.False(t, CheckPassword(secret, 77, p[:15]))
	require.False(t, CheckPassword(secret, 77, nil))
	none := Password(nil, 77)
	require.False(t, CheckPassword(nil, 77, none[:]))
}

func TestCloneIsNotChangedByLaterWrites(t *testing.T) {
	table := NewTable()
	for id := range txn.SessionID(1000) {
		table.Add(id, 4000)
	}
	table.SetSecret([]byte("s"))
	c := table.Clone()
	table.Add(5, 1)
	table.Add(5000, 1)
	require.True(t, table.Remove(7))
	require.False(t, table.Remove(7))
	require.Equal(t, 1000, table.Len())
	require.Equal(t, 1000, c.Len())
	timeout, ok := c.Timeout(7)
	require.True(t, ok)
	require.EqualValues(t, 4000, timeout)
	timeout, _ = c.Timeout(5)
	require.EqualValues(t, 4000, timeout)
	require.Len(t, c.IDs(), 1000)
	require.True(t, slices.IsSorted(table.IDs()))
	require.NotContains(t, table.IDs(), txn.SessionID(7))
	c.Add(9, 1) // nor the other way round
	timeout, _ = table.Timeout(9)
	require.EqualValues(t, 4000, timeout)
}

const tick = 2 * time.Second

func TestDeadlineIsRoundedUpToTheNextTick(t *testing.T) {
	for _, c := range []struct{ touched, last time.Duration }{ // last: when it is still there, to the nanosecond
		{0, 6*time.Second - 1},
		{1, 6*time.Second - 1},
		{2*time.Second - 1, 6*time.Second - 1},
		{2 * time.Second, 8*time.Second - 1},
	} {
		tr := NewTracker(tick)
		tr.Add(1, 4*time.Second, c.touched)
		require.Empty(t, tr.Expired(c.last), "touched at %v", c.touched)
		require.Equal(t, []txn.SessionID{1}, tr.Expired(c.last+1), "touched at %v", c.touched)
	}
}

func TestTouchesAndEnds(t *testing.T) {
	tr := NewTracker(tick)
	for id := txn.SessionID(5); id > 0; id-- {
		tr.Add(id, 4*time.Second, 0)
	}
	require.True(t, tr.Touch(2, 4*time.Second, 3*time.Second))
	require.True(t, tr.Touch(2, 4*time.Second, time.Second), "late news")
	require.False(t, tr.Touch(99, 4*time.Second, 0))
	tr.Remove(4)
	tr.SetEnding(5)
	require.False(t, tr.Touch(5, 4*time.Second, 3*time.Second))
	require.Equal(t, []txn.SessionID{1, 3}, tr.Expired(6*time.Second))
	require.Empty(t, tr.Expired(7*time.Second), "not twice within a tick")
	require.True(t, tr.Touch(1, 4*time.Second, 7*time.Second), "nobody proposed its end")
	require.Equal(t, []txn.SessionID{2, 3}, tr.Expired(8*time.Second), "named again if nobody acts")
	known, ending := tr.State(5)
	require.True(t, known && ending)
	tr.Remove(5)
	known, ending = tr.State(5)
	require.False(t, known || ending)
	require.Equal(t, 3, tr.Len())
}

func TestOwners(t *testing.T) {
	tr := NewTracker(tick)
	tr.SetOwner(1, 2)
	require.Zero(t, tr.Owner(1), "not known")
	tr.Add(1, time.Second, 0)
	tr.SetOwner(1, 2)
	tr.Add(1, time.Second, 0)
	require.EqualValues(t, 2, tr.Owner(1))
}

func TestResetAndExtend(t *testing.T) {
	table := NewTable()
	table.Add(1, 4000)
	table.Add(2, 8000)
	tr := NewTracker(tick)
	tr.Add(3, time.Second, 0)
	tr.Reset(table, 100*time.Second)
	require.Empty(t, tr.Expired(104*time.Second))
	tr.Extend(10 * time.Second)
	require.Empty(t, tr.Expired(116*time.Second-1))
	require.Equal(t, []txn.SessionID{1}, tr.Expired(116*time.Second))
	require.True(t, tr.Touch(2, 8*time.Second, 116*time.Second))
	require.NotContains(t, tr.Expired(124*time.Second), txn.SessionID(2))
	require.Contains(t, tr.Expired(126*time.Second), txn.SessionID(2))
}

// The twin keeps one deadline per session and looks at all of them.
func TestTrackerAgainstTwin(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	tr := NewTracker(tick)
	twin := map[txn.SessionID]time.Duration{}
	deadline := func(now, timeout time.Duration) time.Duration { return ((now+timeout)/tick + 1) * tick }
	now, named := time.Duration(0), 0
	for range 20000 {
		id := txn.SessionID(rng.Intn(50))
		timeout := time.Duration(rng.Intn(10000)) * time.Millisecond
		now += time.Duration(rng.Intn(300)) * time.Millisecond
		if rng.Intn(500) == 0 {
			now += time.Hour
		}
		switch rng.Intn(4) {
		case 0:
			tr.Remove(id)
			delete(twin, id)
		case 1, 2:
			tr.Add(id, timeout, now)
			twin[id] = max(twin[id], deadline(now, timeout))
		case 3:
			var want []txn.SessionID
			for id, at := range twin {
				if at <= now {
					want = append(want, id)
				}
			}
			got := tr.Expired(now)
			named += len(got)
			require.ElementsMatch(t, want, got)
			for _, id := range got {
				twin[id] = (now/tick + 1) * tick
			}
		}
	}
	require.Greater(t, named, 1000)
}

func BenchmarkClone100k(b *testing.B) {
	table := NewTable()
	for id := range txn.SessionID(100_000) {
		table.Add(id, 4000)
	}
	for b.Loop() {
		table.Clone()
		table.Add(1, 4000) // copies one shard
	}
}

func BenchmarkTouch100k(b *testing.B) {
	tr := NewTracker(tick)
	for id := range txn.SessionID(100_000) {
		tr.Add(id, 4*time.Second, 0)
	}
	var now time.Duration
	for i := 0; b.Loop(); i++ {
		now += 20 * time.Microsecond
		tr.Touch(txn.SessionID(i%100_000), 4*time.Second, now)
	}
}
