package datatree

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
)

func TestFadedNodes(t *testing.T) {
	ttl := func(ms int64) txn.SessionID { return txn.SessionID(txn.OwnerTTLMask | ms) }
	w := newWorld(t) // a millisecond per change
	w.create("/unused", txn.OwnerContainer)
	w.create("/used", txn.OwnerContainer)
	w.create("/used/x", 0)
	w.create("/ttl", ttl(10))
	w.create("/parent", ttl(10))
	w.create("/parent/x", 77)
	w.create("/plain", 0)
	due := func(now int64, neverUsed time.Duration) (paths []string) {
		for _, f := range w.Faded(now, neverUsed) {
			require.Equal(t, w.Get(f.Path).Mzxid(), f.Mzxid)
			paths = append(paths, f.Path)
		}
		return paths
	}
	require.Empty(t, due(14, 0), "exactly its time")
	require.Equal(t, []string{"/ttl"}, due(15, 0))
	w.set("/ttl", "again") // at 8
	require.Empty(t, due(18, 0))
	require.Empty(t, due(11, 10*time.Millisecond))
	require.Equal(t, []string{"/unused"}, due(12, 10*time.Millisecond))
	w.del("/used/x")
	w.del("/parent/x")
	require.Equal(t, []string{"/parent", "/ttl", "/used"}, due(1000, 0))
	again, err := load(w.Clone())
	require.NoError(t, err)
	w.Tree = again
	require.Equal(t, []string{"/parent", "/ttl", "/used"}, due(1000, 0))
	for _, path := range []string{"/parent", "/ttl", "/used", "/unused"} {
		w.del(path)
	}
	require.Empty(t, w.fading)
}

func TestConfigIsShown(t *testing.T) {
	w := newWorld(t)
	digest := w.Digest()
	w.ShowConfig("server.1=a:1:2:participant\nversion=0", 99)
	stat := w.stat("/zookeeper/config")
	require.EqualValues(t, -1, stat.Version)
	require.EqualValues(t, -1, stat.Aversion)
	require.EqualValues(t, 99, stat.Mtime)
	require.Zero(t, stat.Mzxid)
	require.Equal(t, digest, w.Digest())
}
