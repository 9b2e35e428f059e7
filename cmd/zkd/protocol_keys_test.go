package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/zab"
)

// The keys of quotas, containers, local sessions and read-only mode arrive where they are used.
func TestProtocolKeysArrive(t *testing.T) {
	const keys = "dataDir=d\nzookeeper.enforceQuota=true\nextendedTypesEnabled=true\nznode.container.checkIntervalMs=1000\nznode.container.maxPerMinute=7\n" +
		"znode.container.maxNeverUsedIntervalMs=5\nlocalSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\nreadonlymode.enabled=true\n"
	const members = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888:participant;c:2182\nserver.3=c:2888:3888:observer\n"
	c, err := parseZooConfig(strings.NewReader(keys + members))
	require.NoError(t, err)
	c.Self = 1
	sc := c.serverConfig(env.RealClock{})
	require.NoError(t, sc.Validate())
	require.Equal(t, time.Second, sc.FadeEvery)
	require.Equal(t, 7, sc.FadePerMinute)
	require.Equal(t, 5*time.Millisecond, sc.NeverUsed)
	require.True(t, sc.LocalSessions && sc.UpgradeSessions && sc.ReadOnlyMode)
	require.Regexp(t, `^3\.9\.5-zkd-[A-Za-z0-9.-]+$`, sc.Version)

	mc := c.machineConfig(time.UnixMilli(99))
	require.True(t, mc.EnforceQuota && mc.ExtendedTypes && mc.LocalSessions)
	require.EqualValues(t, 99, mc.EnsembleMillis)
	require.Equal(t, "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:participant;c:2182\nserver.3=c:2888:3888:observer\nversion=0", mc.Ensemble)

	alone, err := parseZooConfig(strings.NewReader(keys))
	require.NoError(t, err)
	alone.Self = 1
	sc = alone.serverConfig(env.RealClock{})
	require.False(t, sc.LocalSessions || sc.ReadOnlyMode, "only members of an ensemble have them")
	require.Empty(t, alone.machineConfig(time.Time{}).Ensemble)
}

// snapSizeLimitInKb is in KiB, and nothing or less turns it off.
func TestTheSizeThatMakesASnapshotDueArrives(t *testing.T) {
	for file, want := range map[string]int64{"": 4 << 30, "snapSizeLimitInKb=3": 3 << 10, "snapSizeLimitInKb=0": 1 << 60, "snapSizeLimitInKb=-1": 1 << 60} {
		c, err := parseZooConfig(strings.NewReader("dataDir=d\n" + file))
		require.NoError(t, err)
		c.Servers = []zab.Server{{ID: 1}}
		c.Self = 1
		pc, err := c.peerConfig()
		require.NoError(t, err, file)
		require.Equal(t, want, pc.SnapLimit, file)
	}
}
