package peer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/zab"
)

// What was sent is told when it begins; the line of the end must not say that it was nothing.
func TestOnlyTheBeginningOfASyncHasASize(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	p := &Peer{log: zap.New(core)}
	p.note(zab.Note{Message: zab.NoteSyncStart, Peer: 2, Mode: "DIFF", Bytes: 500, Records: 3})
	p.note(zab.Note{Message: zab.NoteSynced, Peer: 2, Mode: "DIFF"})
	lines := logs.All()
	require.Len(t, lines, 2)
	require.Equal(t, map[string]any{"peer": uint8(2), "mode": "DIFF", "bytes": int64(500), "records": int64(3)}, lines[0].ContextMap())
	require.Equal(t, map[string]any{"peer": uint8(2), "mode": "DIFF"}, lines[1].ContextMap())
}
