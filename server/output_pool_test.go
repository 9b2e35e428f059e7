package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipeline of 64 reads of 1 KiB is the most usual large answer. Its buffer must go back to the pool, however append has grown it:
// otherwise making and collecting buffers costs three times as much as the reads.
func TestTheBufferOfAPipelineOfReadsIsKept(t *testing.T) {
	reply := make([]byte, 4+replyHeaderBytes+4+1024+68)
	out := make([]byte, 0, 4<<10)
	for range 64 {
		out = append(out, reply...)
	}
	require.LessOrEqual(t, cap(out), keepOutput)
}
