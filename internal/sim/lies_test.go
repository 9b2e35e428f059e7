package sim

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func playFile(t *testing.T, name string) Result {
	t.Helper()
	in, err := os.Open("testdata/schedules/" + name + ".txt")
	require.NoError(t, err)
	defer in.Close()
	sc, err := Parse(in)
	require.NoError(t, err)
	res := New(sc).Run()
	require.Nil(t, res.Failure)
	return res
}

// TestAWrongStateIsFencedAndReplaced: whoever is the odd one out, and nobody without a quorum's word (I-17).
func TestAWrongStateIsFencedAndReplaced(t *testing.T) {
	res := playFile(t, "i17-follower")
	require.Equal(t, []int{1, 1, 1}, []int{res.Counts["fenced"], res.Counts["diverged"], res.Counts["readmitted"] / 2})
	require.Equal(t, 1, res.Leaders, "it costs the others nothing")

	res = playFile(t, "i17-leader")
	require.Equal(t, []int{1, 1, 1}, []int{res.Counts["fenced"], res.Counts["diverged"], res.Counts["readmitted"] / 2})
	require.Equal(t, 2, res.Leaders)
	require.Equal(t, 4, res.Starts, "the others do not end")

	res = playFile(t, "i17-two")
	require.Equal(t, []int{2, 0}, []int{res.Counts["fenced"], res.Counts["diverged"]})
}

// TestAServedLieIsSeen: the checker does not sleep.
func TestAServedLieIsSeen(t *testing.T) {
	w := running(t)
	f := w.follower()
	b := w.checks.book(f)
	b.lied, b.wrong = true, true
	w.checks.checkLie(f)
	w.now += lieLimit
	w.checks.checkLie(f)
	require.Nil(t, w.fail)
	w.now += time.Millisecond
	w.checks.checkLie(f)
	require.Equal(t, "I-17", w.fail.Invariant)
}
