package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
)

func TestMarksRememberTheLastOnes(t *testing.T) {
	var m marks
	_, ok := m.at(7)
	require.False(t, ok, "nothing yet")
	for i := range 3 * marksKept / 2 {
		m.add(txn.Zxid(10+2*i), uint64(i))
	}
	first := marksKept / 2
	for i, want := range map[int]bool{0: false, first - 1: false, first: true, first + 1: true, marksKept: true, 3*marksKept/2 - 1: true} {
		d, ok := m.at(txn.Zxid(10 + 2*i))
		require.Equal(t, want, ok, "%d", i)
		if ok {
			require.EqualValues(t, i, d)
		}
		_, ok = m.at(txn.Zxid(11 + 2*i))
		require.False(t, ok, "between two")
	}
}
