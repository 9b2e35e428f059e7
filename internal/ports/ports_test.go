package ports

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreePortsDifferAndCanBeUsed(t *testing.T) {
	found, err := Free(50)
	require.NoError(t, err)
	more, err := Free(50)
	require.NoError(t, err)
	found = append(found, more...)
	seen := map[int]bool{}
	for _, p := range found {
		require.False(t, seen[p])
		seen[p] = true
		ln, err := net.Listen("tcp", Addr(p))
		require.NoError(t, err)
		defer ln.Close()
	}
	require.Len(t, found, 100)
	for _, p := range found {
		require.ErrorContains(t, take(p), "claimed: ", "nobody even looks whether somebody listens: he would listen himself")
	}
}

func TestAPortInUseIsNotClaimed(t *testing.T) {
	found, err := Free(1)
	require.NoError(t, err)
	claims[len(claims)-1].Close() // as if it were another process's that has ended
	ln, err := net.Listen("tcp", Addr(found[0]))
	require.NoError(t, err)
	require.ErrorIs(t, take(found[0]), syscall.EADDRINUSE)
	require.NoError(t, ln.Close())
	require.NoError(t, take(found[0]), "the claim was given back")
}
