package difftest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client cannot tell a standalone server from the members of an ensemble. The comparison with Apache ZooKeeper is the
// command's, which needs Java.
func TestStandaloneBesideMembers(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "zkd")
	build := exec.Command("go", "build", "-o", binary, "github.com/zkd-project/zkd/cmd/zkd")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())
	for i, mode := range []string{"follower", "leader", "observer"} {
		t.Run(mode, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			var log bytes.Buffer
			c := Campaign{A: StartZkd(binary, Settings{Extended: true}), B: StartEnsemble(binary, mode, Settings{Extended: true}), Dir: t.TempDir(), Seed: uint64(i + 1), Ops: 4000,
				Episode: 2000, Options: Options{Ensemble: true}, Differences: 1, Log: &log}
			res, err := c.Run(ctx)
			require.NoError(t, err, log.String())
			require.Empty(t, res.Differences, log.String())
			require.GreaterOrEqual(t, res.Sent, 4000)
		})
	}
}

// The tester must see a difference where there is one: only A has TTL nodes.
func TestADifferenceIsFoundAndShortened(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "zkd")
	build := exec.Command("go", "build", "-o", binary, "github.com/zkd-project/zkd/cmd/zkd")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var log bytes.Buffer
	c := Campaign{A: StartZkd(binary, Settings{Extended: true}), B: StartZkd(binary, Settings{}), Dir: t.TempDir(), Seed: 1, Ops: 4000, Episode: 2000, Budget: 25,
		Differences: 1, Log: &log}
	res, err := c.Run(ctx)
	require.NoError(t, err)
	require.Len(t, res.Differences, 1)
	require.Contains(t, res.Differences[0], "on fresh servers")
	require.Contains(t, res.Differences[0], "createTTL")
}
