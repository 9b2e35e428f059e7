package plot

import (
	"fmt"
	"math"
	"strings"
)

const (
	width, height            = 760.0, 400.0
	left, right, top, bottom = 78.0, 18.0, 64.0, 62.0
)

// colours of the series, in order; further series begin again.
var colours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"}

// Point is one value of a series.
type Point struct{ X, Y float64 }

// Series is a name and its values. In Bars Y of the i-th point belongs to the i-th group and X is not used; NaN leaves a gap.
type Series struct {
	Name   string
	Points []Point
}

// Chart is what surrounds the values.
type Chart struct {
	Title          string
	XLabel, YLabel string
	LogX, LogY     bool // values <= 0 are then left out
}

// axis maps values to a stretch of the picture.
type axis struct {
	low, high float64 // values
	from, to  float64 // picture
	log       bool
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

func (a axis) shows(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log || v > 0) }

// newAxis covers values: with whole powers of ten if it is logarithmic, else from 0 to a round number.
func newAxis(values []float64, from, to float64, log bool) axis {
	a := axis{low: math.Inf(1), high: math.Inf(-1), from: from, to: to, log: log}
	for _, v := range values {
		if a.shows(v) {
			a.low, a.high = min(a.low, v), max(a.high, v)
		}
	}
	if math.IsInf(a.low, 1) {
		a.low, a.high = 1, 10
	}
	if log {
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(a.low))), math.Pow(10, math.Ceil(math.Log10(a.high)))
		if a.low == a.high {
			a.high *= 10
		}
		return a
	}
	a.low = 0
	step := roundStep(a.high)
	a.high = max(math.Ceil(a.high/step)*step, step)
	return a
}

// roundStep is 1, 2 or 5 times a power of ten such that a handful of steps reach v.
func roundStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v/4)))
	for _, f := range []float64{1, 2, 5} {
		if v/(f*p) <= 6 {
			return f * p
		}
	}
	return 10 * p
}

func (a axis) ticks() []float64 {
	var t []float64
	if a.log {
		for v := a.low; v <= a.high*1.0001; v *= 10 {
			t = append(t, v)
		}
		return t
	}
	step := roundStep(a.high)
	for i := 0; float64(i)*step <= a.high*1.0001; i++ {
		t = append(t, float64(i)*step)
	}
	return t
}

// Bars draws one bar per group and series.
func (c Chart) Bars(groups []string, series []Series) string {
	y := newAxis(values(series, func(p Point) float64 { return p.Y }), height-bottom, top, c.LogY)
	var b strings.Builder
	c.begin(&b, y, series)
	slot := (width - left - right) / float64(max(len(groups), 1))
	bar := slot * 0.8 / float64(max(len(series), 1))
	for g, name := range groups {
		x0 := left + slot*(float64(g)+0.1)
		for s := range series {
			if g >= len(series[s].Points) || !y.shows(series[s].Points[g].Y) {
				continue
			}
			v := series[s].Points[g].Y
			at := y.at(max(v, y.low))
			x := x0 + bar*float64(s)
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, %s: %s</title></rect>`+"\n",
				x, at, bar*0.94, height-bottom-at, colour(s), escape(series[s].Name), escape(name), Number(v))
			text(&b, x+bar*0.47, at-3, "middle", 9, Number(v))
		}
		for i, line := range strings.Split(name, "\n") {
			text(&b, x0+slot*0.4, height-bottom+15+float64(i)*12, "middle", 10.5, line)
		}
	}
	return end(&b)
}

// Lines draws a line with marks per series.
func (c Chart) Lines(series []Series) string {
	y := newAxis(values(series, func(p Point) float64 { return p.Y }), height-bottom, top, c.LogY)
	x := newAxis(values(series, func(p Point) float64 { return p.X }), left, width-right, c.LogX)
	var b strings.Builder
	c.begin(&b, y, series)
	for _, v := range x.ticks() {
		text(&b, x.at(v), height-bottom+15, "middle", 10.5, Number(v))
	}
	for s := range series {
		var points []string
		for _, p := range series[s].Points {
			if x.shows(p.X) && y.shows(p.Y) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Y)))
			}
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour(s))
		for _, p := range points {
			cx, cy, _ := strings.Cut(p, ",")
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`+"\n", cx, cy, colour(s))
		}
	}
	return end(&b)
}

func values(series []Series, of func(Point) float64) []float64 {
	var v []float64
	for _, s := range series {
		for _, p := range s.Points {
			v = append(v, of(p))
		}
	}
	return v
}

func colour(i int) string { return colours[i%len(colours)] }

// begin writes the frame, the vertical axis and the legend.
func (c Chart) begin(b *strings.Builder, y axis, series []Series) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" fill="#333">`+"\n", width, height)
	fmt.Fprintf(b, `<rect width="%g" height="%g" fill="#fff"/>`+"\n", width, height)
	text(b, left, 22, "start", 15, c.Title)
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(b, `<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", left, width-right, at, at)
		text(b, left-6, at+3.5, "end", 10.5, Number(v))
	}
	fmt.Fprintf(b, `<text transform="translate(16 %g) rotate(-90)" text-anchor="middle" font-size="11">%s</text>`+"\n", (top+height-bottom)/2,
		escape(c.YLabel))
	text(b, (left+width-right)/2, height-12, "middle", 11, c.XLabel)
	x := left
	for i, s := range series {
		fmt.Fprintf(b, `<rect x="%.1f" y="36" width="11" height="11" fill="%s"/>`+"\n", x, colour(i))
		text(b, x+16, 46, "start", 11, s.Name)
		x += 34 + 6.4*float64(len(s.Name))
	}
}

func text(b *strings.Builder, x, y float64, anchor string, size float64, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%g">%s</text>`+"\n", x, y, anchor, size, escape(s))
}

func end(b *strings.Builder) string {
	b.WriteString("</svg>\n")
	return b.String()
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(s string) string { return escaper.Replace(s) }

// Number writes v in three digits: 0.123, 4.56, 78.9, 1230 as 1.23k, millions as M.
func Number(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1e9:
		return digits(v/1e9) + "G"
	case a >= 1e6:
		return digits(v/1e6) + "M"
	case a >= 1e4:
		return digits(v/1e3) + "k"
	}
	return digits(v)
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a) || a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
