package peer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/snapshot"
)

// rotten flips a bit in the middle of a file.
func rotten(t *testing.T, path string, off int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	require.NoError(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], off)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func (m *member) figure(name string) int64 {
	for _, f := range m.peer.Figures() {
		if f.Name == name {
			return f.Value
		}
	}
	return -1
}

// snapping: a snapshot is being written, or what it let go of deleted; or a turn is taken right now.
func (m *member) snapping() bool {
	if !m.peer.turning.TryLock() { // the caller may hold what the turn needs
		return true
	}
	defer m.peer.turning.Unlock()
	return m.peer.snaps.plan.Running()
}

func (m *member) glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.cfg.DataDir, "zkd", pattern))
	require.NoError(t, err)
	return found
}

// rotting is a standalone server with a snapshot and old log that scrubs every second.
func rotting(t *testing.T) (*ensemble, *member) {
	e := newEnsemble(t, 1, func(c *Config) {
		c.SegmentBytes = 64 << 10
		c.SnapTxns, c.SnapBytes = 200, 1
		c.ScrubInterval, c.ScrubRate = 3*time.Second, 1<<30
	})
	m := e.members[0]
	m.waitServing(t)
	for i := range 30 {
		m.write(100*i, 100)
		m.waitApplied(t, 100*(i+1))
	}
	m.reg.wait(t, "a snapshot", func() bool { return m.figure("snapshots_written") > 0 && !m.snapping() })
	return e, m
}

func TestRotInOldFilesIsFoundAndMendedFromMemory(t *testing.T) {
	for _, kind := range []string{"log", "snap"} {
		t.Run(kind, func(t *testing.T) {
			e, m := rotting(t)
			files := m.glob(t, kind+".*")
			if kind == "snap" {
				newest := files[len(files)-1]
				info, err := os.Stat(newest)
				require.NoError(t, err)
				rotten(t, newest, info.Size()/2)
			} else {
				rotten(t, files[0], 4096+100) // in the first batch of the oldest segment
			}
			m.reg.wait(t, "the finding", func() bool { return m.figure("scrub_findings") == 1 && m.figure("damaged_files") == 0 })
			m.reg.wait(t, "the end of the run", func() bool {
				return m.figure("scrub_runs") > 0 && m.figure("scrub_last_ms") > 0 && m.figure("scrub_bytes") > 0
			})
			e.crash(m)
			e.start(m)
			m.waitServing(t)
			m.waitApplied(t, 3000)
			found, err := m.peer.store.Scrub(nil)
			require.NoError(t, err)
			require.Empty(t, found)
			require.Empty(t, m.peer.store.Condemned())
		})
	}
}

// A learner that is sent a damaged snapshot would come again and again: the leader looks first, and writes another one.
func TestADamagedSnapshotIsReplacedBeforeItIsSent(t *testing.T) {
	e := newEnsemble(t, 3, small)
	gone, leader := e.away(func(l *member) {
		for i := range 20 {
			l.write(1000*i, 1000)
			l.waitApplied(t, 1000*(i+1))
		}
		l.waitPurged(t)
		l.reg.wait(t, "the end of snapshots", func() bool { return !l.snapping() })
		head, size, ok := l.peer.store.Newest()
		require.True(t, ok)
		rotten(t, filepath.Join(l.cfg.DataDir, "zkd", snapshot.Name(head.At.Zxid)), size/2)
	}, nil)
	gone.waitApplied(t, 20_000)
	require.Equal(t, int64(1), leader.figure("scrub_findings"))
	leader.reg.wait(t, "the repair", func() bool { return leader.figure("damaged_files") == 0 })
	e.halt(gone)
	require.Equal(t, uint64(1), modes(gone)[2], "SNAP")
}
