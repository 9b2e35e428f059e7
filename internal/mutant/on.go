//go:build mutants

package mutant

// broken is the rule that this process breaks; empty: none.
var broken string

// On reports whether the named rule is to be broken.
func On(name string) bool { return name == broken }

// Set chooses the rule to break, before anything runs; empty: none. It reports whether this build can; only one with the tag mutants can.
func Set(name string) bool {
	broken = name
	return true
}

// Broken is the name of the rule that is broken, "" if none is.
func Broken() string { return broken }
