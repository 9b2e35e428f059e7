package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/zkd-project/zkd/bench/plot"
)

// larger says which unit holds a thousand of another.
var larger = map[string]string{"µs": "ms", "ms": "s", "B": "kB", "kB": "MB", "MB": "GB"}

// withUnit writes a value in three digits, in a unit that fits.
func withUnit(v float64, unit string) string {
	for larger[unit] != "" && v >= 1000 {
		v, unit = v/1000, larger[unit]
	}
	if unit == "" {
		return plot.Number(v)
	}
	return plot.Number(v) + " " + unit
}

// cell is a figure as the tables show it: the median and, if there are several values, the smallest and the largest.
func (s *summary) cell(k key, system string) string {
	f := s.figures[k][system]
	switch {
	case f == nil:
		return "–"
	case len(f.values) == 1:
		return withUnit(f.values[0], s.units[k])
	}
	unit := s.units[k]
	return fmt.Sprintf("%s (%s to %s)", withUnit(f.median(), unit), withUnit(f.low(), unit), withUnit(f.high(), unit))
}

func number(r float64) string {
	if math.IsNaN(r) {
		return "–"
	}
	return plot.Number(r)
}

// lines are the cells of the table, a header first.
func (s *summary) lines() [][]string {
	others := slices.DeleteFunc(slices.Clone(s.systems), func(n string) bool { return n == "zkd" })
	head := []string{"work", "figure", "zkd"}
	for _, o := range others {
		head = append(head, o, "zkd : "+o)
	}
	out := [][]string{append(head, "must reach")}
	for _, k := range s.keys {
		figure := k.metric
		if k.x != 0 {
			figure = fmt.Sprintf("%s at %s", k.metric, plot.Number(k.x))
		}
		line := []string{s.row(k.row).work, figure, s.cell(k, "zkd")}
		for _, o := range others {
			line = append(line, s.cell(k, o), number(s.ratio(k, o)))
		}
		out = append(out, append(line, s.verdicts(k)))
	}
	return out
}

func (s *summary) verdicts(k key) string {
	var all []string
	for _, c := range s.row(k.row).checks {
		if c.metric != k.metric {
			continue
		}
		if want, met, known := s.verdict(k, c); known && met {
			all = append(all, want+": met")
		} else if known {
			all = append(all, want+": NOT MET")
		}
	}
	return strings.Join(all, "; ")
}

// table prints everything for people.
func (s *summary) table(w io.Writer) error {
	for _, r := range s.rec.Runs {
		fmt.Fprintf(w, "%s, %s UTC; an append and fdatasync of 1 KiB takes %.0f µs\n", s.rec.Machine, r.Date, r.Fsync)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	work := ""
	for _, line := range s.lines() {
		if line[0] == work {
			line[0] = ""
		} else {
			work = line[0]
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	return t.Flush()
}

// markdown writes the table for docs/performance.md.
func (s *summary) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "# zkd beside Apache ZooKeeper\n\n%s. zk38 is Debian's ZooKeeper 3.8, zk395 is 3.9.5, echo is the floor: it keeps nothing. Medians, with the smallest\n"+
		"and the largest value behind them where there are several.\n\n", s.rec.Machine)
	for _, r := range s.rec.Runs {
		fmt.Fprintf(b, "- `go run ./bench/compare %s` on %s UTC; an append and fdatasync of 1 KiB took %.0f µs\n", strings.Join(r.Command, " "), r.Date, r.Fsync)
	}
	b.WriteByte('\n')
	for i, line := range s.lines() {
		fmt.Fprintf(b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(line)))
		}
	}
}

// plots draws a chart for each metric of interest: bars over the rows, and a line for everything that was measured against something
// that grows. The names are those of files.
func (s *summary) plots() map[string]string {
	out := map[string]string{}
	for name, p := range map[string]struct{ title, metric, unit string }{
		"cpu":   {"Server CPU per operation, all servers together", cpu, "µs"},
		"rate":  {"Operations per second", rate, "/s"},
		"p50":   {"Median latency", p50, "µs"},
		"p99":   {"99th percentile of latency", p99, "µs"},
		"first": {"First write after the leader is gone", firstWrite, "ms"},
	} {
		if svg := s.bars(p.title, p.metric, p.unit); svg != "" {
			out[name] = svg
		}
	}
	for _, k := range s.keys {
		name := k.row + "-" + strings.Map(func(r rune) rune {
			if r == ' ' || r == ',' {
				return '-'
			}
			return r
		}, k.metric)
		if k.x != 0 && out[name] == "" {
			out[name] = s.growth(k)
		}
	}
	return out
}

func (s *summary) bars(title, metric, unit string) string {
	var groups []string
	series := make([]plot.Series, len(s.systems))
	for i, sys := range s.systems {
		series[i].Name = sys
	}
	for _, k := range s.keys {
		if k.metric != metric || k.x != 0 {
			continue
		}
		groups = append(groups, strings.Replace(k.row, "-", "\n", 1))
		for i, sys := range s.systems {
			v := math.NaN()
			if f := s.figures[k][sys]; f != nil {
				v = f.median()
			}
			series[i].Points = append(series[i].Points, plot.Point{Y: v})
		}
	}
	if len(groups) == 0 {
		return ""
	}
	return plot.Chart{Title: title, YLabel: unit, LogY: true}.Bars(groups, series)
}

func (s *summary) growth(of key) string {
	var series []plot.Series
	for _, sys := range s.systems {
		line := plot.Series{Name: sys}
		for _, k := range s.keys {
			if f := s.figures[k][sys]; k.row == of.row && k.metric == of.metric && f != nil {
				line.Points = append(line.Points, plot.Point{X: k.x, Y: f.median()})
			}
		}
		if len(line.Points) > 0 {
			series = append(series, line)
		}
	}
	c := plot.Chart{Title: s.row(of.row).work + ": " + of.metric, XLabel: strings.TrimPrefix(of.row, "grow-"), YLabel: s.units[of], LogX: true,
		LogY: true}
	return c.Lines(series)
}
