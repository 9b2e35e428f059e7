package sim

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASeedIsPlayedTheSameWayEveryTime(t *testing.T) {
	for seed := uint64(1); seed <= 6; seed++ {
		first := New(Swarm(seed, Options{})).Run()
		again := New(Swarm(seed, Options{})).Run()
		require.Nil(t, first.Failure, "seed %d", seed)
		require.Equal(t, first.Hash, again.Hash, "seed %d", seed)
		require.Equal(t, first, again)
		require.NotEqual(t, first.Hash, New(Swarm(seed+1000, Options{})).Run().Hash)
	}
}

func TestAFixedNumberOfSeeds(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 20
	}
	o := Options{Porcupine: true}
	total := RunSeeds(1, seeds, 2, o, func(r SeedResult, _ int) bool {
		if r.Failure != nil {
			t.Error(FailLine(r.Seed, r.Nodes, Replay(r.Seed, o), r.Result))
		}
		return true
	})
	t.Log(total)
	require.Positive(t, total.Commits)
	require.Less(t, 20*total.Counts["undecided"], total.Counts["linearizable"], "porcupine gave up")
	for _, road := range []string{"sync-diff", "sync-trunc", "sync-snap", "wiped", "recovering", "readmitted", "handing-over", "rolled-over", "fenced", "exit-4", "snapshot-beside"} {
		require.Positive(t, total.Counts[road], "no seed went this way: %s", road)
	}
}

func TestSchedules(t *testing.T) {
	files, err := filepath.Glob("testdata/schedules/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			in, err := os.Open(path)
			require.NoError(t, err)
			defer in.Close()
			all, err := ParseAll(in)
			require.NoError(t, err)
			for i, sc := range all {
				playOne(t, sc, i)
			}
		})
	}
}

func playOne(t *testing.T, sc *Scenario, i int) {
	w := New(sc)
	res := w.Run()
	got := "ok"
	if res.Failure != nil {
		got = res.Failure.Invariant
	}
	want := sc.Expect
	if want == "" {
		want = "ok"
	}
	if got != want {
		w.WriteLast(os.Stderr)
		require.Equal(t, want, got, "scenario %d: %v", i, res.Failure)
	}
}

func TestAScenarioSurvivesItsText(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		sc := Swarm(seed, Options{})
		var b bytes.Buffer
		require.NoError(t, sc.Write(&b))
		got, err := Parse(&b)
		require.NoError(t, err)
		require.Equal(t, sc, got)
	}
}

func TestAScenarioThatIsNoneIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"nodes 3\njump 1":       "line 2: unknown word \"jump\"",
		"at soon kill 1":        "line 1",
		"kill":                  "kill wants SERVER…",
		"seed twelve":           "line 1",
		"length 5s\nslow 1 2":   "slow wants FROM TO DELAY",
		"nodes many\n\n# empty": "line 1",
		"repeat i 1\nend":       "line 1: repeat wants NAME FROM TO",
		"repeat i 1 2\nkill 1":  "a repeat has no end",
	} {
		_, err := Parse(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestARepeatIsUnrolledAlsoInsideAnother(t *testing.T) {
	sc, err := Parse(strings.NewReader("repeat i 1 2\nkill $i; repeat j 3 4\nreset $i $j\nend\nstart $i\nend\nheal"))
	require.NoError(t, err)
	var got []string
	for _, s := range sc.Steps {
		got = append(got, s.String())
	}
	require.Equal(t, []string{"kill 1", "reset 1 3", "reset 1 4", "start 1", "kill 2", "reset 2 3", "reset 2 4", "start 2", "heal"}, got)
}

func TestShrinkingKeepsTheInvariantAndDropsTheRest(t *testing.T) {
	sc := &Scenario{Seed: 5, Nodes: 3, Clients: 3, Length: 8 * time.Second}
	for i, line := range []string{"snapshot 1", "wall 2 3s", "reset 1 2", "is leading 9", "snapshot 3", "kill 2"} {
		s := &Scenario{}
		require.NoError(t, s.line(strings.Fields("at "+(time.Duration(i+1)*time.Second).String()+" "+line), nil))
		sc.Steps = append(sc.Steps, s.Steps...)
	}
	small, res := Shrink(sc, func(string) {})
	require.NotNil(t, res.Failure)
	require.Equal(t, "SCHEDULE", res.Failure.Invariant)
	require.Len(t, small.Steps, 1)
	require.Zero(t, small.Clients)
}

func TestALogicalClockThatDoesNotMoveIsNoticed(t *testing.T) {
	w := New(&Scenario{Seed: 1, Length: time.Second})
	var spin func()
	spin = func() { w.after(0, spin) }
	w.after(time.Millisecond, spin)
	res := w.Run()
	require.NotNil(t, res.Failure)
	require.Equal(t, "I-47", res.Failure.Invariant)
}
