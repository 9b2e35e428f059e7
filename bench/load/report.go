package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// WriteJSON writes the result as one object on one line.
func (res *Result) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(res)
}

// WriteTable writes the result for people.
func (res *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	what := fmt.Sprintf("%s, %d connections × %d in flight", res.Workload, res.Conns, res.InFlight)
	switch {
	case res.Target > 0:
		what = fmt.Sprintf("%s, %d connections, %.0f ops/s are due", res.Workload, res.Conns, res.Target)
	case res.Workload == Watch:
		what = fmt.Sprintf("%s, %d connections × %d znodes", res.Workload, res.Conns, res.Keys)
	case res.Workload == Sessions || res.Workload == Churn:
		what = fmt.Sprintf("%s, %d side by side", res.Workload, res.Conns)
	}
	row("workload", "%s, %d bytes", what, res.Size)
	row("ops", "%d in %.2f s", res.Ops, res.Seconds)
	row("rate", "%.0f ops/s", res.Rate)
	l := &res.Latency
	row("latency", "mean %s  p50 %s  p99 %s  p99.9 %s  max %s", span(l.Mean), span(l.P50), span(l.P99), span(l.P999), span(l.Max))
	if res.Silence > 0 {
		row("longest silence", "%s on all connections", span(res.Silence))
	}
	if l := res.LastEvent; l != nil {
		row("last event of a round", "p50 %s  max %s", span(l.P50), span(l.Max))
	}
	if res.RSSAfter > 0 {
		row("servers", "%.2f µs CPU per op, %.1f MB resident (%.1f before)", res.ServerCPU, mega(res.RSSAfter), mega(res.RSSBefore))
	}
	if res.Unanswered > 0 {
		row("unanswered", "%d", res.Unanswered)
	}
	row("client", "%.2f µs CPU per op", res.ClientCPU)
	for _, name := range slices.Sorted(maps.Keys(res.Errors)) {
		row("error "+name, "%d", res.Errors[name])
	}
	return t.Flush()
}

func mega(n int64) float64 { return float64(n) / 1e6 }

// span prints microseconds in a unit that fits.
func span(us float64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.1f µs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2f ms", us/1000)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}
