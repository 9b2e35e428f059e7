package peer

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// small makes every bound easy to reach.
func small(c *Config) {
	c.SegmentBytes = 64 << 10
	c.SnapTxns, c.SnapBytes = 200, 1
	c.RetainSnaps, c.RetainLogBytes = 1, 1
	c.Core.TailBytes = 4 << 10
	c.Core.DiffMinBytes = 1
}

// keepLog makes the disk, not the memory, the road back.
func keepLog(c *Config) {
	c.SegmentBytes = 64 << 10
	c.Core.TailBytes = 4 << 10
}

func (e *ensemble) others(not ...*member) []*member {
	var out []*member
	for _, m := range e.members {
		skip := m.stop == nil
		for _, n := range not {
			skip = skip || m == n
		}
		if !skip {
			out = append(out, m)
		}
	}
	return out
}

func (m *member) status() zab.Status { return m.peer.Status() }

// away runs f while one follower is down, and returns it after its restart.
func (e *ensemble) away(f func(leader *member), before func(m *member)) (gone, leader *member) {
	for _, m := range e.members {
		m.waitServing(e.t)
	}
	leader = e.leader()
	gone = e.others(leader)[0]
	e.halt(gone)
	f(leader)
	if before != nil {
		before(gone)
	}
	e.start(gone)
	gone.waitServing(e.t)
	return gone, leader
}

func modes(m *member) [3]uint64 {
	st := m.peer.node.Status() // the loop is idle or the numbers do not matter
	return [3]uint64{st.SyncDiff, st.SyncTrunc, st.SyncSnap}
}

func TestAFollowerThatWasAwayComesBackByTheMemory(t *testing.T) {
	e := newEnsemble(t, 3, nil)
	gone, _ := e.away(func(l *member) {
		l.write(0, 300)
		l.waitApplied(t, 300)
	}, nil)
	gone.waitApplied(t, 300)
	e.halt(gone)
	require.Equal(t, [3]uint64{1, 0, 0}, modes(gone), "DIFF")
}

func TestAFollowerThatWasAwayForLongComesBackByTheLogOnDisk(t *testing.T) {
	e := newEnsemble(t, 3, keepLog)
	gone, leader := e.away(func(l *member) {
		for i := range 20 {
			l.write(1000*i, 1000)
			l.waitApplied(t, 1000*(i+1))
		}
	}, nil)
	gone.waitApplied(t, 20_000)
	e.halt(gone)
	require.Equal(t, [3]uint64{1, 0, 0}, modes(gone), "DIFF")
	e.halt(leader)
	require.Greater(t, leader.peer.hist.TailStart().Zxid, txn.MakeZxid(1, 10_000), "memory alone could not have done it")
}

func TestAFollowerBeyondTheLogComesBackByASnapshot(t *testing.T) {
	e := newEnsemble(t, 3, small)
	gone, _ := e.away(func(l *member) {
		for i := range 20 {
			l.write(1000*i, 1000)
			l.waitApplied(t, 1000*(i+1))
		}
		l.waitPurged(t)
	}, nil)
	gone.waitApplied(t, 20_000)
	e.halt(gone)
	require.Equal(t, [3]uint64{0, 0, 1}, modes(gone), "SNAP")
	e.start(gone)
	gone.waitApplied(t, 20_000)
}

// TestASnapshotIsSentNoFasterThanTheRateWhileThereIsWork: a member that catches up must not take the leader's disk and line from those who write.
func TestASnapshotIsSentNoFasterThanTheRateWhileThereIsWork(t *testing.T) {
	const rate = 128 << 10
	e := newEnsemble(t, 3, func(c *Config) {
		small(c)
		c.SnapRate = rate
	})
	var leader *member
	var size int64
	var began time.Time
	gone, _ := e.away(func(l *member) {
		for n := 0; size < rate/2; n += 1000 {
			l.write(n, 1000)
			l.waitApplied(t, n+1000)
			_, size, _ = l.peer.store.Newest()
		}
		leader = l
	}, func(*member) {
		_, size, _ = leader.peer.store.Newest()
		leader.peer.snaps.last.Store(int64(leader.peer.now() + zab.Instant(time.Hour))) // busy, whatever the test does
		began = time.Now()
	})
	require.GreaterOrEqual(t, time.Since(began), time.Duration(size*int64(time.Second)/rate))
	e.halt(gone)
	m := modes(gone)
	require.Zero(t, m[0]+m[1])
	require.NotZero(t, m[2], "SNAP; more than one if the next snapshot has taken the log from behind the first")
}

// waitPurged waits until the log no longer reaches back to its beginning.
func (m *member) waitPurged(t *testing.T) {
	t.Helper()
	for i := 20_000; ; i++ {
		if z, _ := m.peer.store.log.Oldest(); z > 0 {
			return
		}
		require.Less(t, i, 60_000, "the log is never purged")
		m.write(i, 1)
		m.waitApplied(t, i+1)
	}
}

func TestAWipedFollowerDoesNotCountBeforeItIsReadmitted(t *testing.T) {
	e := newEnsemble(t, 3, small)
	gone, leader := e.away(func(l *member) {
		l.write(0, 1000)
		l.waitApplied(t, 1000)
	}, func(m *member) {
		require.NoError(t, os.RemoveAll(filepath.Join(m.cfg.DataDir, "zkd")))
	})
	gone.waitApplied(t, 1000)
	gone.reg.wait(t, "readmission", func() bool { return gone.status().Votable })
	// It counts again: with it and without the third server there is a quorum.
	third := e.others(gone, leader)[0]
	e.halt(third)
	now := e.leader()
	now.write(1000, 10)
	gone.waitApplied(t, 1010)
}

func TestALeaderThatComesBackWithMoreIsCut(t *testing.T) {
	e := newEnsemble(t, 3, nil)
	for _, m := range e.members {
		m.waitServing(t)
	}
	old := e.leader()
	old.write(0, 10)
	for _, m := range e.members {
		m.waitApplied(t, 10)
	}
	rest := e.others(old)
	for _, m := range rest {
		e.crash(m)
	}
	end := old.status().LogEnd
	old.write(10, 5) // nobody is there to ack them
	old.reg.wait(t, "stepping down", func() bool { return old.reg.role == zab.Looking })
	e.crash(old)
	require.Greater(t, old.peer.hist.End.Zxid, end, "the writes are in its log")
	for _, m := range rest {
		e.start(m)
	}
	now := e.leader()
	now.write(10, 1)
	for _, m := range rest {
		m.waitApplied(t, 11)
	}
	e.start(old)
	old.waitApplied(t, 11)
	old.reg.mu.Lock()
	require.Len(t, old.reg.applied, 11)
	old.reg.mu.Unlock()
	e.halt(old)
	require.Equal(t, [3]uint64{0, 1, 0}, modes(old), "TRUNC")
}

func TestASnapshotIsDueByWhatAStartHadToReplay(t *testing.T) {
	e := newEnsemble(t, 1, func(c *Config) { c.SnapTxns, c.SnapBytes = 1000, 1 })
	m := e.members[0]
	m.waitServing(t)
	written := 0
	for range 10 { // never enough between two starts, more than enough in all
		m.write(written, 300)
		written += 300
		m.waitApplied(t, written)
		e.crash(m)
		e.start(m)
		m.waitServing(t)
	}
	m.write(written, 1)
	m.reg.wait(t, "a snapshot", func() bool {
		_, _, ok := m.peer.store.Newest()
		return ok
	})
}

// A snapshot that is being written when the server stops is there for the next start.
func TestASnapshotUnderWayAtAStopCounts(t *testing.T) {
	e := newEnsemble(t, 1, func(c *Config) { c.SnapTxns, c.SnapBytes = 100, 1 })
	m := e.members[0]
	m.waitServing(t)
	begun, stopped := make(chan struct{}), m.peer.stopped
	m.reg.gate = func() { close(begun); <-stopped }
	m.write(0, 200)
	<-begun
	m.waitApplied(t, 200)
	e.halt(m)
	e.start(m)
	require.NotZero(t, m.peer.rec.SnapshotAt.Zxid)
	m.waitServing(t)
	m.waitApplied(t, 200)
}

// timerCount is a clock that counts how often timers that began with d are set again; those never fire.
type timerCount struct {
	env.Clock
	d    time.Duration
	sets atomic.Int64
}

type countedTimer struct {
	env.Timer
	of *timerCount
}

func (c *timerCount) NewTimer(d time.Duration) env.Timer {
	t := c.Clock.NewTimer(d)
	if d == c.d {
		return countedTimer{t, c}
	}
	return t
}

func (t countedTimer) Reset(time.Duration) { t.of.sets.Add(1) }

// While a graceful stop waits for a snapshot, the disk writer, which has an append to confirm, waits too.
func TestAStopThatWaitsForASnapshotDoesNotSpin(t *testing.T) {
	clock := &timerCount{Clock: env.RealClock{}, d: 59 * time.Minute}
	e := newEnsemble(t, 1, func(c *Config) { c.SnapTxns, c.SnapBytes, c.Clock, c.IdleConfirm = 100, 1, clock, clock.d })
	m := e.members[0]
	m.waitServing(t)
	const jobs = 100
	begun, p, sets := make(chan struct{}), m.peer, int64(0)
	m.reg.gate = func() {
		close(begun)
		<-p.stopped
		before := clock.sets.Load()
		for range jobs {
			done := make(chan struct{})
			p.disk.do(func() error { close(done); return nil })
			<-done
		}
		sets = clock.sets.Load() - before
	}
	m.write(0, 200)
	<-begun
	m.waitApplied(t, 200)
	e.halt(m)
	require.LessOrEqual(t, sets, int64(2*jobs+2), "twice per job, if its call for attention comes late, and for the stop")
}

// A server whose disk has failed answers nobody any more while its last goroutines end, and says at once why; the snapshot under way is given up.
func TestAFailedDiskWhileASnapshotIsWritten(t *testing.T) {
	d := &failingDisk{}
	e := newEnsemble(t, 1, func(c *Config) {
		d.Disk = c.Disk
		c.Disk, c.SnapTxns, c.SnapBytes = d, 100, 1
	})
	m := e.members[0]
	e.halt(m)
	lines, told := observer.New(zap.ErrorLevel)
	over := false // when the line came: nothing of the server's may depend on it
	m.lines = zapcore.RegisterHooks(lines, func(zapcore.Entry) error {
		over = m.peer.failed() != nil
		return nil
	})
	e.start(m)
	m.waitServing(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	m.reg.change(func() { m.reg.gate = func() { close(begun); <-goOn } })
	m.write(0, 200)
	<-begun
	m.waitApplied(t, 200)
	d.fail.Store(true)
	m.write(200, 1)
	m.reg.wait(t, "the end of its role", func() bool { return m.reg.role == zab.Looking })
	fatal := told.FilterMessage("fatal").All()
	require.Len(t, fatal, 1)
	require.Equal(t, int64(zab.ExitDisk), fatal[0].ContextMap()["exitCode"])
	require.Contains(t, fatal[0].ContextMap()["reason"], errBadDisk.Error())

	d.fail.Store(false) // of the log; the snapshot could be written
	close(goOn)
	require.Error(t, <-m.done)
	m.stop()
	m.stop = nil
	require.Zero(t, m.figure("snapshots_written"))
	require.Equal(t, 1, told.Len())
	require.True(t, over)
}

func TestASnapshotIsDueByTheLogAloneHoweverFewTheTransactions(t *testing.T) {
	e := newEnsemble(t, 1, func(c *Config) { c.SnapTxns, c.SnapBytes, c.SnapLimit = 1_000_000, 1, 8<<10 })
	m := e.members[0]
	m.waitServing(t)
	m.write(0, 500)
	m.reg.wait(t, "a snapshot", func() bool {
		_, _, ok := m.peer.store.Newest()
		return ok
	})
}

// The state of a start may have no snapshot to give yet: whoever wants one asks again.
func TestASnapshotThatIsNotToBeHadYetIsAskedForAgain(t *testing.T) {
	e := newEnsemble(t, 1, func(c *Config) { c.SnapTxns, c.SnapBytes = 100, 1 })
	m := e.members[0]
	m.waitServing(t)
	left := func() int {
		m.reg.mu.Lock()
		defer m.reg.mu.Unlock()
		return m.reg.busy
	}
	m.reg.change(func() { m.reg.busy = 3 })
	for n := 0; left() > 0; n += 200 { // each batch is enough
		require.Less(t, n, 200*1000)
		m.write(n, 200)
		m.waitApplied(t, n+200)
	}
	m.write(1_000_000, 1)
	m.reg.wait(t, "the snapshot that is due", func() bool { return m.figure("snapshots_written") > 0 && !m.snapping() })

	before := m.figure("snapshots_written")
	m.reg.change(func() { m.reg.busy = 3 })
	m.peer.snaps.demand()
	m.reg.wait(t, "the snapshot that is wanted", func() bool { return m.figure("snapshots_written") > before })
	require.Zero(t, left())
	m.peer.takeTurn(func() { require.False(t, m.peer.snaps.plan.wanted) })
}

// Who demands a snapshot while one is begun wants another: nobody knows whether the state had been taken before.
func TestASnapshotThatIsDemandedWhileOneBeginsIsWritten(t *testing.T) {
	e := newEnsemble(t, 1, nil)
	m := e.members[0]
	m.waitServing(t)
	m.write(0, 10)
	m.waitApplied(t, 10)
	m.reg.change(func() {
		m.reg.asked = func() {
			m.reg.asked = nil
			go m.peer.snaps.demand() // it has to wait for the end of this turn
		}
	})
	m.peer.snaps.demand()
	m.reg.wait(t, "both snapshots", func() bool { return m.figure("snapshots_written") == 2 })
}

// gatedDisk lets the removal of one file wait.
type gatedDisk struct {
	env.Disk
	name        atomic.Value // string: the file's, without its folder
	asked, open chan struct{}
}

func (d *gatedDisk) Remove(path string) error {
	if d.name.Load() == filepath.Base(path) {
		close(d.asked)
		<-d.open
	}
	return d.Disk.Remove(path)
}

// The deletion is part of the snapshot: beside it the next one would cost writes more, and what waits for it could grow without end (ADR 0025).
func TestASnapshotThatIsDemandedBesideTheDeletionWaitsForIt(t *testing.T) {
	d := &gatedDisk{asked: make(chan struct{}), open: make(chan struct{})}
	open := sync.OnceFunc(func() { close(d.open) })
	defer open()
	e := newEnsemble(t, 1, func(c *Config) {
		d.Disk, c.Disk = c.Disk, d
		c.RetainSnaps = 1
	})
	m := e.members[0]
	m.waitServing(t)
	take := func(n int) {
		m.write(10*(n-1), 10)
		m.waitApplied(t, 10*n)
		m.peer.snaps.demand()
	}
	take(1)
	m.reg.wait(t, "the first snapshot", func() bool { return m.figure("snapshots_written") == 1 && !m.snapping() })
	head, _, ok := m.peer.store.Newest()
	require.True(t, ok)
	d.name.Store(snapshot.Name(head.At.Zxid))
	take(2)
	<-d.asked
	take(3)
	m.peer.takeTurn(func() {
		require.True(t, m.peer.snaps.plan.Running())
		require.True(t, m.peer.snaps.plan.wanted)
	})
	require.Equal(t, int64(2), m.figure("snapshots_written"))
	open()
	m.reg.wait(t, "the third snapshot", func() bool { return m.figure("snapshots_written") == 3 && !m.snapping() })
}

// A stop would wait for all of it.
func TestAServerThatStopsBeginsNoSnapshot(t *testing.T) {
	e := newEnsemble(t, 1, nil)
	m := e.members[0]
	m.waitServing(t)
	m.write(0, 10)
	m.waitApplied(t, 10)
	m.peer.takeTurn(func() {
		m.peer.leaving = true
		m.peer.snaps.plan.Demand()
		m.peer.turn(nil)
		require.False(t, m.peer.snaps.plan.Running())
		m.peer.leaving = false
		m.peer.turn(nil)
		require.True(t, m.peer.snaps.plan.Running())
	})
	m.reg.wait(t, "the snapshot", func() bool { return m.figure("snapshots_written") == 1 })
}

func TestADamagedStandaloneServerEndsAndGoesOnWhenTheOperatorSaysSo(t *testing.T) {
	e := newEnsemble(t, 1, nil)
	m := e.members[0]
	m.waitServing(t)
	for i := range 3 { // several batches, so that a damaged one has good ones behind it
		m.write(10*i, 10)
		m.waitApplied(t, 10*(i+1))
	}
	e.halt(m)
	segments, err := filepath.Glob(filepath.Join(m.cfg.DataDir, "zkd", "log.*"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("rotten"), 2*4096+200)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for i := range 2 { // it does not forget that it has forgotten
		_, err = Open(m.cfg, newRegister(), m.reg, m.reg, zap.NewNop())
		var fatal *FatalError
		require.ErrorAs(t, err, &fatal)
		require.Equal(t, zab.ExitCorrupt, fatal.Code)
		require.ErrorContains(t, err, "initialize")
		if i == 0 {
			require.ErrorContains(t, err, segments[0]+" at 8192")
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.cfg.DataDir, "initialize"), nil, 0o600))
	e.start(m)
	m.waitServing(t)
	m.write(0, 5)
	m.waitApplied(t, 5)
	aside, err := filepath.Glob(filepath.Join(m.cfg.DataDir, "zkd", "damaged.*", "log.*"))
	require.NoError(t, err)
	require.Len(t, aside, 1, "the damaged file is kept")
}

func TestSyncIsAnsweredOnEveryServerAndCoversEarlierWrites(t *testing.T) {
	e := newEnsemble(t, 3, nil)
	for _, m := range e.members {
		m.waitServing(t)
	}
	l := e.leader()
	l.write(0, 50)
	l.waitApplied(t, 50)
	for _, m := range e.members {
		m.peer.Sync(7)
		m.reg.wait(t, "the answer", func() bool { return m.reg.synced[7].ID == 7 })
		require.True(t, m.reg.synced[7].OK)
		m.reg.mu.Lock()
		require.GreaterOrEqual(t, len(m.reg.applied), 50, "applied before the answer")
		m.reg.mu.Unlock()
	}
}

func TestAGracefulStopOfTheLeaderLosesNothing(t *testing.T) {
	e := newEnsemble(t, 3, nil)
	for _, m := range e.members {
		m.waitServing(t)
	}
	l := e.leader()
	l.write(0, 500)
	l.waitApplied(t, 500)
	e.halt(l)
	now := e.leader()
	now.write(500, 1)
	for _, m := range e.others() {
		m.waitApplied(t, 501)
	}
}

func TestAFullPipelineRefusesBeforeItGivesOutAZxid(t *testing.T) {
	e := newEnsemble(t, 3, func(c *Config) { c.Core.MaxPending = 100 })
	for _, m := range e.members {
		m.waitServing(t)
	}
	l := e.leader()
	l.write(0, 1000)
	l.reg.wait(t, "all answers", func() bool { return len(l.reg.applied)+len(l.reg.refused) == 1000 })
	require.NotEmpty(t, l.reg.refused)
	seen := map[int32]bool{}
	for _, c := range l.reg.applied {
		seen[c] = true
	}
	for _, r := range l.reg.refused {
		require.Equal(t, txn.RefusedPendingFull, r.Code)
		require.False(t, seen[r.Cxid], "refused and applied")
	}
}

func TestGarbageOnThePeerPortsHurtsNobody(t *testing.T) {
	e := newEnsemble(t, 3, nil)
	for _, m := range e.members {
		m.waitServing(t)
	}
	self, _ := e.members[0].cfg.Core.Members.Find(1)
	huge := zab.AppendFrame(nil, 0, &zab.Hello{})
	huge[0] = 0x7f
	for _, addr := range []string{self.PeerAddr, self.ElectionAddr} {
		for _, b := range [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n"), huge, {0, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff},
			zab.AppendFrame(nil, 0, &zab.Hello{Self: 2, Target: 1, ClusterID: 12345, Purpose: zab.ForData}),
			zab.AppendFrame(nil, 0, &zab.Hello{Self: 1, Target: 1, Purpose: zab.ForElection}),
			zab.AppendFrame(nil, 0, &zab.Hello{Self: 9, Target: 1, Purpose: zab.ForElection})} {
			nc, err := e.members[0].cfg.Net.Dial(t.Context(), addr)
			require.NoError(t, err)
			_, err = nc.Write(b)
			require.NoError(t, err)
			nc.SetReadDeadline(time.Now().Add(20 * time.Second))
			buf := make([]byte, 1024)
			for err == nil { // a Bye may come, then the end
				_, err = nc.Read(buf)
			}
			require.False(t, os.IsTimeout(err), "the connection is closed, not left open")
			nc.Close()
		}
	}
	require.Equal(t, uint64(1), e.members[0].status().Elections)
	e.members[0].write(0, 10)
	e.members[0].waitApplied(t, 10)
}

func TestAFailedDiskStopsTheServerAndNothingIsAcknowledged(t *testing.T) {
	d := &failingDisk{}
	e := newEnsemble(t, 1, func(c *Config) { d.Disk = c.Disk; c.Disk = d })
	m := e.members[0]
	m.waitServing(t)
	m.write(0, 10)
	m.waitApplied(t, 10)
	d.fail.Store(true)
	m.write(10, 10)
	err := <-m.done
	m.stop()
	m.stop = nil
	var fatal *FatalError
	require.ErrorAs(t, err, &fatal)
	require.Equal(t, zab.ExitDisk, fatal.Code)
	require.Len(t, m.reg.applied, 10, "nothing after the failure is answered")
	d.fail.Store(false)
	e.start(m)
	m.waitApplied(t, 10)
}
