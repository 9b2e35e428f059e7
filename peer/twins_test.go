package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

func TestTwoLiveProcessesWithOneIDAreNoticed(t *testing.T) {
	hello := func(directory, boot uint64) *zab.Hello { return &zab.Hello{Self: 2, Directory: directory, Boot: boot} }
	var x twins
	for boot := range uint64(20) { // restarts, each with a few connections
		for range 3 {
			require.False(t, x.seen(hello(7, boot)))
		}
	}
	require.False(t, x.seen(hello(7, 18)), "a connection of the process before, read late")
	require.False(t, x.seen(hello(7, 19)))
	require.True(t, x.seen(hello(7, 18)), "again: it lives")

	x = twins{}
	for range 2 {
		require.False(t, x.seen(hello(7, 1)))
		require.False(t, x.seen(hello(8, 1)))
	}
	require.False(t, x.seen(&zab.Hello{Self: 3, Directory: 7, Boot: 1}), "another id")
	require.True(t, x.seen(hello(7, 1)))
}
