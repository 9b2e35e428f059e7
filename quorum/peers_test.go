package quorum

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

func fatalCode(fx []zab.Effect) int {
	for _, e := range fx {
		if f, ok := e.(zab.Fatal); ok {
			return f.Code
		}
	}
	return 0
}

// A server with another cluster's folder would wait for ever. It ends when a majority calls it a stranger, not before.
func TestAMajorityOfStrangersEndsAServer(t *testing.T) {
	n, _ := server{self: 1, voters: ids(5), current: 3, end: 9}.node()
	at := zab.Instant(0)
	tell := func(ev zab.Event) int {
		at = at.Add(time.Millisecond)
		return fatalCode(n.Step(at, []zab.Event{ev}))
	}
	foreign := func(id zab.ServerID) zab.Event { return zab.MeshDown{Peer: id, Foreign: true} }
	require.Zero(t, tell(foreign(2)))
	require.Zero(t, tell(foreign(3)))
	require.Zero(t, tell(zab.MeshUp{Peer: 3}), "the right one has come")
	require.Zero(t, tell(foreign(4)))
	require.Zero(t, tell(zab.MeshDown{Peer: 2, Active: true}), "nobody is there now")
	require.Zero(t, tell(foreign(3)))
	require.Equal(t, zab.ExitWrongCluster, tell(foreign(5)))
}
