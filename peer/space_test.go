package peer

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
)

func TestSpaceDoesNotFlutter(t *testing.T) {
	var s Space
	for _, c := range []struct {
		free int64
		want Space
	}{
		{1000, Space{}}, {200, Space{}}, {199, Space{Low: true}}, {240, Space{Low: true}}, {250, Space{}}, {150, Space{Low: true}},
		{99, Space{Low: true, Full: true}}, {124, Space{Low: true, Full: true}}, {125, Space{Low: true}}, {300, Space{}},
	} {
		s = s.Judge(c.free, Bounds{200, 100})
		require.Equal(t, c.want, s, "%d bytes free", c.free)
	}
}

// shrinkingDisk says how much is free.
type shrinkingDisk struct {
	env.Disk
	free atomic.Int64
}

func (d *shrinkingDisk) Free(string) (int64, error) { return d.free.Load(), nil }

func TestAFullDiskRefusesWritesAndComesBack(t *testing.T) {
	d := &shrinkingDisk{}
	d.free.Store(1 << 40)
	e := newEnsemble(t, 1, func(c *Config) { d.Disk = c.Disk; c.Disk = d })
	m := e.members[0]
	m.waitServing(t)
	m.write(0, 10)
	m.waitApplied(t, 10)
	d.free.Store(1000)
	m.reg.wait(t, "the disk to be full", func() bool { return m.status().Full })
	m.write(10, 1)
	m.reg.wait(t, "the refusal", func() bool { return len(m.reg.refused) == 1 })
	require.Equal(t, txn.RefusedDiskFull, m.reg.refused[0].Code)
	d.free.Store(1 << 40)
	m.reg.wait(t, "space again", func() bool { return !m.status().Full })
	m.write(10, 1)
	m.waitApplied(t, 11)
}

// rareClock never lets the space watcher's second pass.
type rareClock struct{ env.Clock }

func (c rareClock) NewTimer(d time.Duration) env.Timer {
	t := c.Clock.NewTimer(d)
	if d == spaceEvery {
		t.Stop()
		return stoppedTimer{t}
	}
	return t
}

type stoppedTimer struct{ env.Timer }

func (stoppedTimer) Reset(time.Duration) {}

// A snapshot takes what was left for the next segment: the server must refuse writes before the log has no room, or it has to end.
func TestASnapshotThatFillsTheDiskHasWritesRefused(t *testing.T) {
	d := &shrinkingDisk{}
	d.free.Store(1 << 40)
	e := newEnsemble(t, 1, func(c *Config) {
		d.Disk, c.Disk, c.Clock = c.Disk, d, rareClock{c.Clock}
		c.SegmentBytes = 64 << 10
	})
	m := e.members[0]
	m.waitServing(t)
	for n := 0; n < 6000; n += 2000 { // a snapshot of more than a quarter of a segment
		m.write(n, 2000)
		m.waitApplied(t, n+2000)
	}
	m.reg.wait(t, "the watcher to have looked", func() bool { return len(m.peer.disk.grown) == 0 })
	d.free.Store(1000)
	m.peer.snaps.demand()
	m.reg.wait(t, "the disk to be full", func() bool { return m.status().Full })
}

func TestALeaderWithALowDiskLetsAnotherLead(t *testing.T) {
	d := &shrinkingDisk{}
	d.free.Store(1 << 40)
	e := newEnsemble(t, 3, func(c *Config) {
		if c.Core.Self == 3 { // the first leader: all are equal but for the id
			d.Disk = c.Disk
			c.Disk = d
		}
	})
	for _, m := range e.members {
		m.waitServing(t)
	}
	old := e.leader()
	if old.id != 3 {
		t.Skip("somebody else leads")
	}
	bounds := old.peer.spaceBounds()
	d.free.Store((bounds.Soft + bounds.Hard) / 2)
	old.reg.wait(t, "another leader", func() bool { return old.status().Leader != 3 && old.status().Leader != 0 })
	old.waitServing(t)
	e.leader().write(0, 10)
	for _, m := range e.members {
		m.waitApplied(t, 10)
	}
}
