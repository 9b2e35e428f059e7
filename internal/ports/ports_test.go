package ports

import (
	"net"
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
	require.False(t, claim(found[0]), "another process would be told the same")
}
