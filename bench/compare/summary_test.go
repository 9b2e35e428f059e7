package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testRecord() *record {
	rec := &record{Machine: "here", Runs: []launch{{Fsync: 100, Date: "today", Rows: []string{"set-1x1"}}, {Fsync: 500, Date: "today"}}}
	add := func(row, system, metric, unit string, values ...float64) {
		for i, v := range values {
			rec.Samples = append(rec.Samples, sample{Row: row, System: system, Metric: metric, Unit: unit, Round: i, Value: v})
		}
	}
	add("set-1x1", "zkd", p50, "µs", 300, 500, 340)
	add("set-1x1", "zk38", p50, "µs", 700, 600, 800)
	add("set-1x1", "zkd", cpu, "µs", 400)
	add("set-1x1", "zk38", cpu, "µs", 500)
	add("get-1x1", "zkd", p50, "µs", 12)
	add("get-1x1", "echo", p50, "µs", 10)
	add("failover", "zkd", firstWrite, "ms", 10, 200)
	rec.Samples = append(rec.Samples, sample{Row: "grow-payload", System: "zkd", Metric: "get, rate", Unit: "/s", X: 16, Value: 5})
	return rec
}

func TestTheTableHoldsFiguresAgainstWhatTheyMustReach(t *testing.T) {
	s := summarise(testRecord())
	var out bytes.Buffer
	require.NoError(t, s.table(&out))
	table := out.String()
	line := func(figure, part string) string {
		t.Helper()
		for l := range strings.Lines(table) {
			if strings.Contains(l, figure) && strings.Contains(l, part) {
				return l
			}
		}
		t.Fatalf("no line with %q and %q in\n%s", figure, part, table)
		return ""
	}
	require.Contains(t, line(p50, "340 µs (300 µs to 500 µs)"), "≤ two fsyncs + 150 µs = 350 µs: met; ≤ 0.67 × zk38: met")
	require.Contains(t, line(cpu, "400 µs"), "≤ 0.33 × zk38: NOT MET")
	require.Contains(t, line("get, 1 × 1", p50), "≤ 1.3 × echo: met")
	require.Contains(t, line(firstWrite, "105 ms"), "≤ 50 ms: NOT MET; worst ≤ 150 ms: NOT MET")
	require.Contains(t, line("get, rate at 16", "5 /s"), "–")
}

// A figure that was not measured is neither met nor missed.
func TestNoVerdictWithoutFigures(t *testing.T) {
	s := summarise(&record{Samples: []sample{{Row: "set-1x1", System: "zkd", Metric: cpu, Unit: "µs", Value: 1}}})
	k := key{row: "set-1x1", metric: cpu}
	_, _, known := s.verdict(k, check{cpu, ratioAtMost, 1})
	require.False(t, known)
	_, _, known = s.verdict(k, check{cpu, floorAtMost, 1})
	require.False(t, known)
	_, met, known := s.verdict(k, check{cpu, atMost, 1})
	require.True(t, known && met)
}

func TestPlotsAreMadeOfWhatWasMeasured(t *testing.T) {
	plots := summarise(testRecord()).plots()
	require.Contains(t, plots, "cpu")
	require.Contains(t, plots, "grow-payload-get--rate")
	require.NotContains(t, plots, "p99")
}

func TestEveryCheckIsOfAMetricWithAName(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range allRows() {
		require.False(t, seen[r.name], "%s twice", r.name)
		seen[r.name] = true
		require.NotEmpty(t, r.work)
		require.Positive(t, r.nodes)
		require.False(t, r.shared && r.nodes != 3, "%s: shared servers are three", r.name)
		for _, c := range r.checks {
			require.NotEmpty(t, c.metric)
		}
	}
}

func TestTheLongestGapIsBetweenNeighbours(t *testing.T) {
	at := func(ms ...int) (out []time.Time) {
		for _, m := range ms {
			out = append(out, time.UnixMilli(int64(m)))
		}
		return out
	}
	require.Zero(t, longestGap(at(5)))
	require.Equal(t, 7*time.Millisecond, longestGap(at(1, 2, 9, 10)))
}

func TestUnitsFit(t *testing.T) {
	f := func(v float64, unit, want string) { t.Helper(); require.Equal(t, want, withUnit(v, unit)) }
	f(999, "µs", "999 µs")
	f(1500, "µs", "1.50 ms")
	f(2.5e6, "µs", "2.50 s")
	f(438e6, "B", "438 MB")
	f(79500, "/s", "79.5k /s")
	f(3, "", "3")
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"-rounds", "0"}, {"-java", ""}, {"-nope"}} {
		_, err := parseOptions(args, &bytes.Buffer{})
		require.Error(t, err, args)
	}
	o, err := parseOptions([]string{"-rows", "set-1x1,grow", "-short"}, &bytes.Buffer{})
	require.NoError(t, err)
	rows, err := o.choose()
	require.NoError(t, err)
	require.Greater(t, len(rows), 3)
	_, err = (&options{rows: []string{"nothing"}}).choose()
	require.Error(t, err)
}

func TestRecordsAreReadAsOne(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, rec *record) string {
		name = filepath.Join(dir, name)
		require.NoError(t, rec.save(name))
		return name
	}
	a := write("a", &record{Machine: "here", Runs: []launch{{Date: "today", Fsync: 100, Rows: []string{"get-1x1", "set-1x1"}}}, Samples: []sample{{Row: "get-1x1", Value: 1}}})
	b := write("b", &record{Machine: "here", Runs: []launch{{Date: "later", Fsync: 120, Rows: []string{"get-1x1"}}}, Samples: []sample{{Row: "get-1x1", Value: 3}}})
	rec, err := readRecords(a + "," + b)
	require.NoError(t, err)
	require.Equal(t, []sample{{Row: "get-1x1", Value: 1}, {Row: "get-1x1", Value: 3}}, rec.Samples)
	require.Len(t, rec.Runs, 2)
	require.EqualValues(t, 100, rec.fsync("get-1x1"))
	require.EqualValues(t, 120, (&record{Runs: rec.Runs[1:]}).fsync("set-1x1"))
	_, err = readRecords(a + "," + write("c", &record{Machine: "there"}))
	require.ErrorContains(t, err, "another machine")
	_, err = readRecords(a + "," + filepath.Join(dir, "none"))
	require.Error(t, err)
}
