//go:build mutants

package zab

// broken is the one rule that this process breaks; empty: none. SetMutant sets it before anything else runs.
var broken string

// Mutant reports whether the named rule is to be broken.
func Mutant(rule string) bool { return rule == broken }

// SetMutant chooses the rule to break; only test builds have it.
func SetMutant(rule string) { broken = rule }
