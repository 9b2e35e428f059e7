package zab

import (
	"slices"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// Satisfied is the one place that decides what a quorum is: more than half of the voters are in the set. in is asked once
// for each voter and for nobody else, so observers and strangers never count.
func (m *Membership) Satisfied(in func(ServerID) bool) bool {
	voters, yes := 0, 0
	for _, s := range m.Servers {
		if s.Observer && mutant.On("R-8") && in(s.ID) {
			yes++
		}
		if s.Observer {
			continue
		}
		voters++
		if in(s.ID) {
			yes++
		}
	}
	if mutant.On("R-7") {
		return yes >= voters/2
	}
	return 2*yes > voters
}

// QuorumZxid returns the largest zxid that a quorum has reached: the water mark of the median voter (docs/protocol.md §4).
func (m *Membership) QuorumZxid(match func(ServerID) txn.Zxid) txn.Zxid {
	marks := make([]txn.Zxid, 0, 8)
	for _, s := range m.Servers {
		if !s.Observer {
			marks = append(marks, match(s.ID))
		}
	}
	if len(marks) == 0 {
		return 0
	}
	slices.Sort(marks)
	if mutant.On("R-7-zxid") {
		return marks[len(marks)-1]
	}
	return marks[(len(marks)-1)/2]
}
