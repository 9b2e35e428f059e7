package leader_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func started(t testing.TB, n int) *pump {
	p := newPump(t, n)
	for _, n := range p.nodes {
		n.boot()
	}
	p.node(1).becomeLeader()
	for _, n := range p.nodes[1:] {
		n.becomeFollower(1, false)
	}
	p.run()
	return p
}

func TestAnEmptyEnsembleFoundsItself(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5} {
		p := started(t, size)
		require.Equal(t, txn.Epoch(1), p.node(1).lead.Established(), p.trace.String())
		p.node(1).submit(1, "/a", "/b")
		p.node(zab.ServerID(size)).submit(2, "/c")
		p.run()
		p.pass(200 * time.Millisecond)
		for _, n := range p.nodes {
			require.Len(t, n.applied, 4, "node %d\n%s", n.id, p.trace.String())
			require.Equal(t, txn.TypeSecret, n.applied[0].Type())
		}
	}
}
