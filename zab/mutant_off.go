//go:build !mutants

package zab

// Mutant reports whether a test build breaks the named rule on purpose, to see that the simulator notices. In every other build it is
// false for the compiler too, and what stands behind it is not there.
func Mutant(string) bool { return false }
