package sim

import (
	"io"

	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
)

// ghost is a state that nobody serves from: it shows what a disk could be restored to.
type ghost struct{ machine *statemachine.Machine }

// Clear makes it the state of the empty history.
func (g *ghost) Clear() error {
	g.machine = newMachine()
	return nil
}

// Restore replaces it by a snapshot's.
func (g *ghost) Restore(r io.Reader) error {
	g.machine = newMachine()
	return g.machine.Restore(r)
}

// Apply replays records.
func (g *ghost) Apply(recs []txn.Record) error {
	for i := range recs {
		if _, err := g.machine.Apply(&recs[i]); err != nil {
			return err
		}
	}
	return nil
}
