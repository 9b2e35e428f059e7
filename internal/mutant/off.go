//go:build !mutants

package mutant

// On reports whether the named rule is to be broken.
func On(string) bool { return false }

// Set chooses the rule to break. It reports whether this build can; only one with the tag mutants can.
func Set(string) bool { return false }

// Broken is "": no rule is.
func Broken() string { return "" }
