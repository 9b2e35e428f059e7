package sim

import (
	"fmt"
	"strings"
)

// count notes that something happened that a run should meet now and then.
func (w *World) count(what string) { w.counts[what]++ }

// Counts tells how often the roads were taken that tests are after.
type Counts map[string]int

func (c Counts) String() string {
	parts := make([]string, 0, len(c))
	for _, k := range sorted(c) {
		parts = append(parts, fmt.Sprintf("%s=%d", k, c[k]))
	}
	return strings.Join(parts, " ")
}
