package peer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/zab"
)

func TestASlowDiskIsNamedOnEveryServer(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	p := &Peer{log: zap.New(core)}
	p.cfg.Core.DiskWarn = 500 * time.Millisecond
	d := newDiskWriter(p)
	d.timed(zab.Append{}, 499*time.Millisecond)
	require.Zero(t, lines.Len())
	d.timed(zab.Append{}, 600*time.Millisecond)
	d.timed(zab.SaveHardState{}, 700*time.Millisecond)
	require.Equal(t, 2, lines.FilterMessage(zab.NoteDiskStall).Len())
	require.Equal(t, "append", lines.All()[0].ContextMap()["operation"])
	require.Equal(t, "promise", lines.All()[1].ContextMap()["operation"])
}
