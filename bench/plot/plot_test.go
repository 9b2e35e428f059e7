package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elements counts the elements of a well-formed document.
func elements(t *testing.T, svg string) map[string]int {
	n := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		require.NoError(t, err)
		if s, ok := tok.(xml.StartElement); ok {
			n[s.Name.Local]++
		}
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	c := Chart{Title: `a < b & "c"`, XLabel: "x", YLabel: "µs", LogY: true}
	n := elements(t, c.Bars([]string{"one", "two\nlines"}, []Series{
		{"zkd", []Point{{0, 1}, {0, 1000}}}, {"other", []Point{{0, math.NaN()}, {0, 10}}}}))
	require.Equal(t, 1+2+3, n["rect"], "background, legend, bars without the gap")
	c.LogX = true
	n = elements(t, c.Lines([]Series{{"zkd", []Point{{1, 1}, {10, 2}, {100, 0}}}}))
	require.Equal(t, 2, n["circle"], "0 has no place on a logarithmic axis")
	require.Equal(t, 1, n["polyline"])
	require.NotPanics(t, func() { elements(t, c.Lines(nil)) })
	require.NotPanics(t, func() { elements(t, c.Bars(nil, nil)) })
}

func TestAxesEndAtRoundNumbers(t *testing.T) {
	a := newAxis([]float64{3, 47}, 0, 100, false)
	require.Equal(t, []float64{0, 10, 20, 30, 40, 50}, a.ticks())
	require.Equal(t, 100.0, a.at(50))
	a = newAxis([]float64{0.3, 47}, 0, 100, true)
	require.InDeltaSlice(t, []float64{0.1, 1, 10, 100}, a.ticks(), 1e-9)
	require.InDelta(t, 100.0/3, a.at(1), 1e-9)
	a = newAxis([]float64{10}, 0, 100, true)
	require.Less(t, a.low, a.high)
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	f := func(v float64, want string) { t.Helper(); require.Equal(t, want, Number(v)) }
	f(0, "0")
	f(0.1234, "0.123")
	f(4.567, "4.57")
	f(45.67, "45.7")
	f(456.7, "457")
	f(1234, "1234")
	f(45678, "45.7k")
	f(4567890, "4.57M")
	f(3e9, "3G")
}
