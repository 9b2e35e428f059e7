package main

import (
	"fmt"
	"math"
	"slices"
)

// key names one figure over all rounds.
type key struct {
	row, metric string
	x           float64
}

// figure is the samples of one key on one system.
type figure struct{ values []float64 }

func (f *figure) median() float64 {
	v := slices.Sorted(slices.Values(f.values))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

func (f *figure) low() float64  { return slices.Min(f.values) }
func (f *figure) high() float64 { return slices.Max(f.values) }

// summary is a record in the order of the table.
type summary struct {
	rec     *record
	rows    []*row
	keys    []key // in the order in which they were first measured, row by row
	units   map[key]string
	systems []string
	figures map[key]map[string]*figure
}

func summarise(rec *record) *summary {
	s := &summary{rec: rec, rows: allRows(), units: map[key]string{}, figures: map[key]map[string]*figure{}}
	for _, x := range rec.Samples {
		k := key{x.Row, x.Metric, x.X}
		if s.figures[k] == nil {
			s.figures[k] = map[string]*figure{}
			s.keys = append(s.keys, k)
			s.units[k] = x.Unit
		}
		if s.figures[k][x.System] == nil {
			s.figures[k][x.System] = &figure{}
		}
		s.figures[k][x.System].values = append(s.figures[k][x.System].values, x.Value)
		if !slices.Contains(s.systems, x.System) {
			s.systems = append(s.systems, x.System)
		}
	}
	order := map[string]int{}
	for i, r := range s.rows {
		order[r.name] = i
	}
	slices.SortStableFunc(s.keys, func(a, b key) int { return order[a.row] - order[b.row] })
	return s
}

func (s *summary) row(name string) *row {
	i := slices.IndexFunc(s.rows, func(r *row) bool { return r.name == name })
	if i < 0 {
		return &row{name: name, work: name} // of another version of this program
	}
	return s.rows[i]
}

// ratio is zkd's median over another system's; NaN if one of the two was not measured.
func (s *summary) ratio(k key, other string) float64 {
	zkd, o := s.figures[k]["zkd"], s.figures[k][other]
	if zkd == nil || o == nil || o.median() == 0 {
		return math.NaN()
	}
	return zkd.median() / o.median()
}

// verdict is what one check says: what must be reached and whether it is. known is false without the figures for it.
func (s *summary) verdict(k key, c check) (want string, met, known bool) {
	zkd := s.figures[k]["zkd"]
	if zkd == nil {
		return "", false, false
	}
	unit := s.units[k]
	switch c.kind {
	case atMost:
		return "≤ " + withUnit(c.bound, unit), zkd.median() <= c.bound, true
	case atLeast:
		return "≥ " + withUnit(c.bound, unit), zkd.median() >= c.bound, true
	case worstAtMost:
		return "worst ≤ " + withUnit(c.bound, unit), zkd.high() <= c.bound, true
	case ratioAtMost:
		r := s.ratio(k, "zk38")
		return fmt.Sprintf("≤ %.2f × zk38", c.bound), r <= c.bound, !math.IsNaN(r)
	case ratioAtLeast:
		r := s.ratio(k, "zk38")
		return fmt.Sprintf("≥ %g × zk38", c.bound), r >= c.bound, !math.IsNaN(r)
	case floorAtMost:
		r := s.ratio(k, "echo")
		return fmt.Sprintf("≤ %g × echo", c.bound), r <= c.bound, !math.IsNaN(r)
	default: // twoSyncs
		bound := 2*s.rec.fsync(k.row) + c.bound
		return fmt.Sprintf("≤ two fsyncs + %g µs = %.0f µs", c.bound, bound), zkd.median() <= bound, true
	}
}
