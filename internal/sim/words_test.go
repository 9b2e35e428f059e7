package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A schedule that does not get where it wants to, or asks for what there is not, must not pass for one that went well.
func TestASchedulesMistakesAreFailures(t *testing.T) {
	const begin = "seed 1\nawait leader C; await serving all; write /x 0 through C as w; await w\n"
	for text, want := range map[string]string{
		"catch trunc C A":                 "never came by: trunc of [3] to [1]",
		"catch append A after 1000":       "never came by: append",
		"catch propose":                   "catch wants",
		"is leading A":                    "it is not so: [leading A]",
		"is not leading C":                "it is not so: [not leading C]",
		"is serving A B D":                `no server "4"`,
		"is stored v C":                   `nothing is called "v"`,
		"is stored w":                     "no such condition",
		"is sleeping A":                   "no such condition",
		"is current one A":                "one is not a number",
		"await down A within 100ms":       "not within 100ms: [down A]",
		"is gone /x":                      "it is not so: [gone /x]",
		"is there /y":                     "it is not so: [there /y]",
		"is synced snap A":                "it is not so: [synced snap A]",
		"mark; is joined 1 A":             "it is not so: [joined 1 A]",
		"is counted exit-4":               "it is not so: [counted exit-4]",
		"is recovering A":                 "it is not so: [recovering A]",
		"spoil A remove log.":             "cannot be spoilt now",
		"kill A; spoil A remove nothing.": "has no file nothing.",
		"kill A; spoil A twist log.":      "invalid argument",
		"block C A; write /w 1 through C as p; await p; is stored p A": "it is not so: [stored p A]",
	} {
		sc, err := Parse(strings.NewReader(begin + text))
		require.NoError(t, err, text)
		res := New(sc).Run()
		require.NotNil(t, res.Failure, text)
		require.Equal(t, "SCHEDULE", res.Failure.Invariant, text)
		require.Contains(t, res.Failure.Text, want, text)
	}
}

func TestVaryMakesAScenarioForEachNumber(t *testing.T) {
	all, err := ParseAll(strings.NewReader("# $ of them\nvary 2 4\nseed 1$\nwait $0ms\n"))
	require.NoError(t, err)
	require.Len(t, all, 3)
	for i, want := range []string{"wait 20ms", "wait 30ms", "wait 40ms"} {
		require.Equal(t, uint64(12+i), all[i].Seed)
		require.Equal(t, want, all[i].Steps[0].String())
	}
	all, err = ParseAll(strings.NewReader("seed 5\nwait 1ms\n"))
	require.NoError(t, err)
	require.Len(t, all, 1)
	for _, text := range []string{"vary 4 2", "vary one 2", "vary 1 two"} {
		_, err = ParseAll(strings.NewReader("seed 1\n" + text + "\n"))
		require.ErrorContains(t, err, "line 2: vary wants two numbers", text)
	}
}

// What a power cut must spare and what the words say about it are the same thing.
func TestStoredMeansThatAPowerCutSparesIt(t *testing.T) {
	sc, err := Parse(strings.NewReader(`seed 3
await leader C; await serving all
catch append A; write /x 1 through C as w; await w; await caught; is stored w B C; is not stored w A
blackout A; disk A ok; start A; await up A; is not stored w A
await serving A; is stored w A; blackout A; start A; await up A; is stored w A
`))
	require.NoError(t, err)
	require.Nil(t, New(sc).Run().Failure)
}
