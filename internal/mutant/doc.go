// Package mutant lets a test build break one rule of the protocol on purpose, to see that the simulator notices.
//
//	if mutant.On("O1") || l.local.IsDone(l.promiseID) { …
//
// With the build tag mutants, Set chooses the one rule that the process breaks. In every other build On is false for the compiler too, and what
// stands behind it is not there. registry.go says what each name breaks; zkdsim mutants runs the simulator against each of them.
package mutant
