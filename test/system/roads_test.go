package system

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// fill makes n writes through one server, many at a time.
func fill(t *testing.T, n, size int, procs ...*process) {
	t.Helper()
	c := dial(t, procs...)
	_, err := c.Create(within(t), "/fill", nil, client.Persistent, nil)
	if !errors.Is(err, client.ErrNodeExists) {
		require.NoError(t, err)
	}
	data := []byte(strings.Repeat("x", size))
	const writers = 256
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			path := fmt.Sprintf("/fill/%d", w)
			_, err := c.Create(t.Context(), path, data, client.Persistent, nil)
			if err != nil && !errors.Is(err, client.ErrNodeExists) {
				t.Errorf("create %s: %v", path, err)
				return
			}
			for range n/writers - 1 {
				if _, err := c.Set(t.Context(), path, data, client.AnyVersion); err != nil {
					t.Errorf("set %s: %v", path, err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed(), "the fill")
}

// syncLine is the leader's line about a learner's synchronisation, the last one.
func syncLine(leader, learner *process) string {
	line := ""
	for _, l := range strings.Split(leader.logText(), "\n") {
		if strings.Contains(l, "learner sync") && strings.Contains(l, fmt.Sprintf(`"peer": %d,`, learner.id)) {
			line = l
		}
	}
	return line
}

func TestTheRoadsBack(t *testing.T) {
	many := 20_000
	if long {
		many = 200_000
	}
	for _, road := range []struct {
		name     string
		settings []string
		writes   int
		wipe     bool
		mode     string
		counter  string
	}{
		{"a few hundred: DIFF from memory", nil, 512, false, "DIFF", "zk_sync_diff"},
		{"many: DIFF from the log on disk", []string{"zkd.tailBytes=65536"}, many, false, "DIFF", "zk_sync_diff"},
		{"beyond the log: SNAP", []string{"zkd.segmentBytes=1048576", "zkd.snapBytes=1", "snapCount=1000", "autopurge.snapRetainCount=1",
			"zkd.retainLogBytes=1", "zkd.tailBytes=65536", "zkd.diffMinBytes=1"}, 20_000, false, "SNAP", "zk_sync_snap"},
		{"an empty directory: SNAP", []string{"zkd.snapBytes=1", "snapCount=1000"}, 20_000, true, "SNAP", "zk_sync_snap"},
	} {
		t.Run(road.name, func(t *testing.T) {
			c := newCluster(t, 3, road.settings...)
			c.start()
			leader := c.leader()
			gone := c.others(leader)[0]
			fill(t, 256, 10, c.procs...)
			gone.stop()
			fill(t, road.writes, 200, c.others()...)
			if road.wipe {
				require.NoError(t, os.RemoveAll(filepath.Join(gone.dir, "zkd")))
			}
			gone.start()
			c.waitServing(gone)
			digest := c.sameDigest()
			require.Contains(t, syncLine(leader, gone), `"mode": "`+road.mode+`"`)
			require.Equal(t, "1", gone.mntr(road.counter))
			eventually(t, "it counts", func() bool { return gone.mntr("zk_votable") == "1" })
			t.Logf("saw: %s", syncLine(leader, gone))
			t.Logf("saw: %s = 1 there, digest of all three %s", road.counter, digest)
		})
	}
}

func TestAMemberAheadIsCut(t *testing.T) {
	c := newCluster(t, 3)
	c.start()
	old := c.leader()
	rest := c.others(old)
	cl := dial(t, old)
	_, err := cl.Create(within(t), "/before", nil, client.Persistent, nil)
	require.NoError(t, err)
	c.sameDigest()
	for _, p := range rest {
		p.signal(syscall.SIGKILL)
	}
	_, err = cl.Create(within(t), "/never", nil, client.Persistent, nil) // nobody can ack it
	require.Error(t, err)
	old.kill()
	for _, p := range rest {
		<-p.exited
		p.start()
	}
	c.waitServing(rest...)
	other := dial(t, rest...)
	_, err = other.Create(within(t), "/after", nil, client.Persistent, nil)
	require.NoError(t, err)
	old.start()
	c.waitServing(old)
	digest := c.sameDigest()
	line := syncLine(c.leader(), old)
	if strings.Contains(line, `"mode": "DIFF"`) {
		t.Skip("the write did not reach the old leader's log in time")
	}
	require.Contains(t, line, `"mode": "TRUNC"`)
	require.Equal(t, "1", old.mntr("zk_sync_trunc"))
	_, there, err := other.Exists(within(t), "/never")
	require.NoError(t, err)
	require.False(t, there)
	t.Logf("saw: %s", line)
	t.Logf("saw: digest of all three %s", digest)
}

func TestThreeEmptyMembersFoundAnEnsembleAndSayForWhomTheyWait(t *testing.T) {
	c := newCluster(t, 3, "zkd.notifyMax=200")
	c.procs[0].start()
	c.procs[1].start()
	eventually(t, "they say for whom they wait", func() bool {
		return strings.Contains(c.procs[0].logText(), "waiting for voters") && strings.Contains(c.procs[1].logText(), "waiting for voters")
	})
	require.Empty(t, c.procs[0].mode())
	c.procs[2].start()
	c.waitServing(c.procs...)
	for _, l := range strings.Split(c.procs[0].logText(), "\n") {
		if strings.Contains(l, "waiting for voters") {
			t.Logf("saw: %s", l)
		}
	}
}

func TestAStandaloneServerGrowsToThree(t *testing.T) {
	c := newCluster(t, 3)
	first := c.procs[0]
	full, err := os.ReadFile(filepath.Join(first.dir, "zoo.cfg"))
	require.NoError(t, err)
	var alone []string
	for _, l := range strings.Split(string(full), "\n") {
		if !strings.HasPrefix(l, "server.") {
			alone = append(alone, l)
		}
	}
	first.write("zoo.cfg", strings.Join(alone, "\n"))
	first.start()
	c.waitServing(first)
	cl := dial(t, first)
	_, err = cl.Create(within(t), "/kept", []byte("data"), client.Persistent, nil)
	require.NoError(t, err)
	require.Equal(t, "standalone", first.mode())
	first.stop()

	first.write("zoo.cfg", string(full))
	for _, p := range c.procs {
		p.start()
	}
	said := func(p *process) bool { return strings.Contains(p.logText(), "initialize") }
	eventually(t, "the empty members say what the operator can do", func() bool { return said(c.procs[1]) && said(c.procs[2]) })
	for _, l := range strings.Split(c.procs[1].logText(), "\n") {
		if strings.Contains(l, "initialize") {
			t.Logf("saw: %s", l)
			break
		}
	}
	for _, p := range c.procs { // the operator vouches for the empty ones, and the one with the data is slow
		p.stop()
	}
	for _, p := range c.procs[1:] {
		p.write("initialize", "")
		p.start()
	}
	eventually(t, "a vouched majority founds nothing without the third", func() bool {
		return strings.Contains(c.procs[1].logText(), "may hold the data") && strings.Contains(c.procs[2].logText(), "may hold the data")
	})
	first.start()
	c.waitServing(c.procs...)
	for _, p := range c.procs {
		data, _, err := dial(t, p).Get(within(t), "/kept")
		require.NoError(t, err)
		require.Equal(t, "data", string(data))
	}
	t.Logf("saw: %s", c.sameDigest())
}

// smallDisk mounts a file system of that many MiB, or skips the test.
func smallDisk(t *testing.T, mib int) (dir string) {
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mib), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be had: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// oneOn is a standalone server with its data in dir.
func oneOn(t *testing.T, dir string, settings ...string) *cluster {
	c := newCluster(t, 1, settings...)
	p := c.procs[0]
	cfg, err := os.ReadFile(filepath.Join(p.dir, "zoo.cfg"))
	require.NoError(t, err)
	p.write("zoo.cfg", strings.ReplaceAll(string(cfg), "dataDir="+p.dir, "dataDir="+dir))
	c.start()
	return c
}

// fillUp creates znodes until one is refused, and returns how many were acknowledged and what stopped it.
func fillUp(t *testing.T, p *process, size int) (acked int, err error) {
	cl := dial(t, p)
	for ; ; acked++ {
		if _, err = cl.Create(within(t), fmt.Sprintf("/n%05d", acked), make([]byte, size), client.Persistent, nil); err != nil {
			return acked, err
		}
	}
}

func allThere(t *testing.T, cl *client.Client, acked int) {
	names, _, err := cl.Children(within(t), "/")
	require.NoError(t, err)
	have := map[string]bool{}
	for _, n := range names {
		have[n] = true
	}
	for i := range acked {
		require.True(t, have[fmt.Sprintf("n%05d", i)], "acknowledged znode %d of %d", i, acked)
	}
}

// Without the guard in front of it, no space is the end of the process.
func TestNoSpaceStopsTheServerAndLosesNothing(t *testing.T) {
	dir := smallDisk(t, 3)
	c := oneOn(t, dir, "zkd.segmentBytes=1048576", "zkd.diskSoft=1", "zkd.diskHard=1")
	p := c.procs[0]
	acked, err := fillUp(t, p, 20_000)
	require.Error(t, err)
	require.Equal(t, 4, p.exitCode(), "log:\n%s", p.logText())
	last := strings.TrimSpace(p.logText())
	last = last[strings.LastIndex(last, "\n")+1:]
	require.Contains(t, last, "free space")
	require.NoError(t, exec.Command("mount", "-o", "remount,size=64m", dir).Run())
	p.start()
	c.waitServing(p)
	allThere(t, dial(t, p), acked)
	t.Logf("saw: exit code 4; %s", last)
	t.Logf("saw: all %d acknowledged znodes are there after more space was given", acked)
}

// The guard refuses writes before it comes to that, and takes them again when there is space.
func TestAFullDiskRefusesWrites(t *testing.T) {
	dir := smallDisk(t, 8)
	c := oneOn(t, dir, "zkd.segmentBytes=1048576", "zkd.diskHard=3000000")
	p := c.procs[0]
	cl := dial(t, p) // a new session would be a write
	acked, err := 0, error(nil)
	for ; err == nil; acked++ {
		<-time.After(10 * time.Millisecond) // slowly enough for a guard that looks once a second
		_, err = cl.Create(within(t), fmt.Sprintf("/n%05d", acked), make([]byte, 10_000), client.Persistent, nil)
	}
	acked--
	require.ErrorIs(t, err, proto.ErrThrottledOp)
	require.True(t, p.running())
	allThere(t, cl, acked)
	require.Contains(t, p.logText(), "disk is full")
	require.NoError(t, exec.Command("mount", "-o", "remount,size=64m", dir).Run())
	eventually(t, "writes are taken again", func() bool {
		_, err := cl.Create(within(t), "/again", nil, client.Persistent, nil)
		return err == nil
	})
	t.Logf("saw: %d znodes acknowledged, then %v; reads go on; writes again after more space was given", acked, err)
}
