// Package rules makes the table that says what shows that each rule of docs/protocol.md is kept.
//
//	docs/protocol.md                        names the rules: R-n, O-n, D-n, sync cases S-n, schedules X-n, reasons to step down L-n
//	internal/sim/testdata/schedules/*.txt   say in a line "# rules: R-4 O5" which of them they try
//	internal/mutant                         names the rules that each mutant breaks
//	internal/rules/tests.txt                names other tests: a rule, then tests as folder.TestName, stories as files, or "waits …"
//
// zkdsim rules prints it, zkdsim rules --write puts it into docs/testing.md. The package's test fails when a rule has nothing at all, when
// something is named that does not exist, when an entry of the catalogue of known failures has neither a schedule nor a reason, and
// when the table in the document is not the one that would be printed.
package rules
