package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

// Clients never get the descriptors that the log and the other servers need.
func TestClientLimit(t *testing.T) {
	f := func(configured, files, share, want int) {
		t.Helper()
		c := &zooConfig{MaxCnxns: configured, Servers: make([]zab.Server, 3)}
		require.Equal(t, want, c.clientLimit(files, share))
	}
	f(0, 0, 1, 0)
	f(500, 0, 1, 500)
	f(0, 1024, 1, 1024-112)
	f(500, 1024, 1, 500)
	f(5000, 1024, 1, 1024-112)
	f(0, 3072, 3, 1024-112)
	f(0, 64, 1, 32)
	f(0, 1, 1, 1)
	require.Positive(t, openFiles()+1)
}
