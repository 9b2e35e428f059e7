package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/ports"
	"github.com/zkd-project/zkd/pkg/client"
)

// tiny limits make every return another road and run snapshots and purges all the time.
var tiny = []string{"zkd.segmentBytes=65536", "snapCount=100", "zkd.snapBytes=1", "zkd.tailBytes=4096", "zkd.retainLogBytes=1",
	"zkd.diffMinBytes=1", "autopurge.snapRetainCount=1"}

func dial(t *testing.T, addrs string, timeout time.Duration) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, addrs, client.WithSessionTimeout(timeout))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// finish ends a workload that must have found nothing wrong.
func (w *workload) finish(watchers ...*watcher) {
	bad := w.end(watchers)
	if len(bad) > 0 {
		w.t.Logf("history: %s", w.h.save(w.t, w.t.Name()))
	}
	for _, b := range bad[:min(len(bad), 20)] {
		w.t.Error(b)
	}
}

// percentiles are the middle, the 99th of 100, and the longest.
func percentiles(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("p50 %v, p99 %v, max %v", d[len(d)/2].Round(100*time.Microsecond), d[(len(d)-1)*99/100].Round(100*time.Microsecond), d[len(d)-1].Round(100*time.Microsecond))
}

// The time from kill -9 of the leader to the first write that another server acknowledges, and to the first that a session of the dead one
// gets through.
func TestFailOverTakesNoTime(t *testing.T) {
	e := newEnsemble(t, layout{voters: 3})
	e.start()
	root := dial(t, e.connect(), sessionTimeout)
	_, err := root.Create(t.Context(), "/x", nil, client.Persistent, nil)
	require.NoError(t, err)
	var last [3]atomic.Int64 // when each server acknowledged its newest write
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	began := time.Now()
	for i, p := range e.procs {
		wg.Go(func() {
			for ctx.Err() == nil {
				c, err := client.Dial(ctx, p.client, client.WithSessionTimeout(sessionTimeout))
				if err != nil {
					return
				}
				for err == nil && ctx.Err() == nil { // a new client after each loss: no long pauses between its attempts
					asked := time.Since(began)
					if _, err = c.Set(ctx, "/x", nil, client.AnyVersion); err == nil {
						last[i].Store(int64(asked))
					}
					pause(ctx.Done(), time.Millisecond)
				}
				wg.Go(func() { c.Close() })
			}
		})
	}
	var took []time.Duration
	for range rounds(5, 100) {
		l := e.leader()
		killed := time.Since(began)
		l.kill()
		eventually(t, "a write elsewhere", func() bool {
			for i := range last {
				if at := time.Duration(last[i].Load()); i != l.i && at > killed+2*time.Millisecond {
					took = append(took, time.Since(began)-killed)
					return true
				}
			}
			return false
		})
		l.start()
		e.waitServing()
	}
	cancel()
	t.Logf("saw: %d leaders killed; to the first write acknowledged elsewhere: %s; digest %s", len(took), percentiles(took), e.sameDigest())
}

// Kills in the middle of a start: recovery, founding, discovery, synchronisation, the installation of a snapshot.
func TestKillsDuringStarts(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, layout{voters: 3}, tiny...)
	rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
	kills := 0
	storm := func(n int, ps ...*process) {
		for range n {
			for _, p := range ps {
				if !p.running() {
					p.start()
				}
			}
			pause(nil, time.Duration(rng.IntN(120))*time.Millisecond)
			for _, p := range ps {
				if len(ps) == 1 || rng.IntN(3) > 0 {
					p.kill()
					kills++
				}
			}
		}
		for _, p := range ps {
			if !p.running() {
				p.start()
			}
		}
	}
	storm(rounds(5, 40), e.procs...) // founding
	e.waitServing()
	w := startWorkload(t, e, rng.Uint64())
	bulk(t, dial(t, e.connect(), sessionTimeout), rounds(1000, 5000))
	for range rounds(2, 15) {
		_, ok := w.goesOn(patience)
		require.True(t, ok, "writes go on")
		f := e.others(rng, e.leader())[0]
		f.kill()
		if rng.IntN(2) == 0 {
			require.NoError(t, os.RemoveAll(filepath.Join(f.data, "zkd")))
		}
		storm(rounds(5, 15), f) // one comes back, by DIFF or SNAP
		e.waitServing()
		storm(rounds(3, 10), e.procs...) // all at once
		e.waitServing()
		l := e.leader()
		storm(rounds(3, 10), l, e.others(rng, l)[0]) // a majority
		e.waitServing()
	}
	_, ok := w.goesOn(patience)
	require.True(t, ok, "writes go on")
	w.finish()
	t.Logf("saw: %d kills; %d operations, %d writes acknowledged", kills, len(w.h.ops), w.h.acked.Load())
}

// bulk makes n nodes of 4 KiB, so that a snapshot takes a while.
func bulk(t *testing.T, c *client.Client, n int) {
	_, err := c.Create(t.Context(), "/bulk", nil, client.Persistent, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for k := range 50 {
		wg.Go(func() {
			for i := k; i < n; i += 50 {
				if _, err := c.Create(t.Context(), fmt.Sprintf("/bulk/%d", i), make([]byte, 4<<10), client.Persistent, nil); err != nil {
					t.Errorf("bulk: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// wipe empties a data folder but for myid.
func (p *process) wipe() { require.NoError(p.t, os.RemoveAll(filepath.Join(p.data, "zkd"))) }

func TestFoldersThatAreNotOurs(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, layout{voters: 3})
	e.start()
	other := newEnsemble(t, layout{voters: 3})
	other.start()
	c := dial(t, e.connect(), sessionTimeout)
	_, err := c.Create(t.Context(), "/ours", nil, client.Persistent, nil)
	require.NoError(t, err)

	twin := e.procs[0].twin(e.procs[0].data)
	twin.start()
	require.Equal(t, 7, twin.exitCode(), "twice at once: %s", tail(twin.logText(), 300))

	// Server 2's folder in the hands of server 1.
	one, two := e.procs[0], e.procs[1]
	one.stop()
	two.stop()
	swap := func() {
		a, b := filepath.Join(one.data, "zkd"), filepath.Join(two.data, "zkd")
		require.NoError(t, os.Rename(a, a+".x"))
		require.NoError(t, os.Rename(b, a))
		require.NoError(t, os.Rename(a+".x", b))
	}
	swap()
	one.start()
	require.Equal(t, 7, one.exitCode(), "another's folder: %s", tail(one.logText(), 300))
	swap()
	one.start()
	two.start()
	e.waitServing()

	// A member of another cluster at the same addresses.
	foreign := other.procs[2]
	for _, p := range other.procs {
		p.stop()
	}
	mine := e.procs[2]
	mine.stop()
	require.NoError(t, os.Rename(filepath.Join(mine.data, "zkd"), filepath.Join(mine.data, "kept")))
	require.NoError(t, os.CopyFS(filepath.Join(mine.data, "zkd"), os.DirFS(filepath.Join(foreign.data, "zkd"))))
	mine.start()
	require.Equal(t, 7, mine.exitCode(), "another cluster's folder: %s", tail(mine.logText(), 300))
	_, err = c.Set(t.Context(), "/ours", nil, client.AnyVersion)
	require.NoError(t, err)
	mine.wipe()
	require.NoError(t, os.Rename(filepath.Join(mine.data, "kept"), filepath.Join(mine.data, "zkd")))
	mine.start()
	e.waitServing()
	t.Logf("saw: three times exit code 7; digest %s", e.sameDigest())
}

// twin is a process with the same configuration but for its own ports and its folder.
func (p *process) twin(data string) *process {
	at, err := ports.Free(3)
	require.NoError(p.t, err)
	x := &process{t: p.t, i: p.i, dir: p.t.TempDir(), data: data, binary: p.binary, client: fmt.Sprintf("127.0.0.1:%d", at[2])}
	cfg, err := os.ReadFile(filepath.Join(p.dir, "zoo.cfg"))
	require.NoError(p.t, err)
	x.log, err = os.OpenFile(filepath.Join(x.dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	require.NoError(p.t, err)
	self := fmt.Sprintf("server.%d=", p.i+1)
	var lines []string
	for _, l := range strings.Split(string(cfg), "\n") {
		switch {
		case strings.HasPrefix(l, "clientPort="):
			l = fmt.Sprintf("clientPort=%d", at[2])
		case strings.HasPrefix(l, "dataDir="):
			l = "dataDir=" + data
		case strings.HasPrefix(l, self):
			l = fmt.Sprintf("%s127.0.0.1:%d:%d", self, at[0], at[1])
		}
		lines = append(lines, l)
	}
	require.NoError(p.t, os.WriteFile(filepath.Join(x.dir, "zoo.cfg"), []byte(strings.Join(lines, "\n")), 0o600))
	p.t.Cleanup(func() {
		x.kill()
		x.log.Close()
	})
	return x
}

// Two machines with one myid, the second with an empty folder: it never counts, the others go on, and say what they see.
func TestTwoServersWithOneNumber(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, layout{voters: 3})
	e.start()
	w := startWorkload(t, e, rand.Uint64())
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "myid"), []byte("3"), 0o600))
	twin := e.procs[2].twin(dir)
	twin.start()
	for range 4 {
		_, ok := w.goesOn(20 * time.Second)
		require.True(t, ok, "writes go on")
		require.Empty(t, twin.mode())
		pause(nil, 300*time.Millisecond)
	}
	for _, p := range e.procs[:2] {
		require.Contains(t, p.logText(), "two with one myid", "server %d", p.i+1)
	}
	twin.kill()
	e.waitServing()
	w.finish()
}

// status reads a figure of /proc/PID/status.
func (p *process) status(key string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	_, rest, _ := strings.Cut(string(b), key+":")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(p.t, err)
	return n
}

// A server that changes its role often is as small afterwards as before.
func TestRoleChangesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, layout{voters: 3})
	e.start()
	w := startWorkload(t, e, rand.Uint64())
	figures := func() (out []string) {
		for _, p := range e.procs {
			out = append(out, fmt.Sprintf("%d KiB, %s open files", p.status("VmRSS"), p.mntr("zk_open_file_descriptor_count")[0]))
		}
		return out
	}
	changes := rounds(5, 200)
	var before []int
	for i := range changes {
		if i == changes/4 {
			for _, p := range e.procs {
				before = append(before, p.status("VmRSS"))
			}
			t.Logf("after %d changes: %v", i, figures())
		}
		l := e.leader()
		e.net.each(touch(l.i), block)
		eventually(t, "another leads", func() bool {
			for _, p := range e.procs {
				if p != l && p.mode() == "leader" {
					return true
				}
			}
			return false
		})
		if i%2 == 0 {
			e.net.reset(touch(l.i))
		}
		e.net.heal()
		e.waitServing()
	}
	t.Logf("after %d changes: %v", changes, figures())
	for i, p := range e.procs {
		require.Less(t, p.status("VmRSS"), 2*before[i]+64<<10, "memory of server %d, in KiB", i+1)
	}
	w.finish()
}

// Many clients whose server dies all come back in time.
func TestAStormOfClientsKeepsItsSessions(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, layout{voters: 3})
	e.start()
	n := rounds(200, 1000)
	clients := make([]*client.Client, n)
	var wg sync.WaitGroup
	root := dial(t, e.connect(), sessionTimeout)
	_, err := root.Create(t.Context(), "/s", nil, client.Persistent, nil)
	require.NoError(t, err)
	l := e.leader()
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := client.Dial(ctx, e.connect(), client.WithSessionTimeout(10*time.Second))
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			clients[i] = c
			for c.Err() == nil && ctx.Err() == nil {
				if _, err := c.Create(ctx, fmt.Sprintf("/s/%d", i), nil, client.Ephemeral, nil); err == nil || judge(err) == exists {
					return
				}
			}
			t.Errorf("client %d makes no ephemeral: %v", i, c.Err())
		})
	}
	pause(nil, 50*time.Millisecond)
	l.signal(syscall.SIGKILL) // in the middle of it
	wg.Wait()
	<-l.exited
	l.start()
	e.waitServing()
	l = e.leader()
	killed := time.Now()
	l.kill()
	for i, c := range clients {
		if c == nil {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for c.Err() == nil && ctx.Err() == nil {
				if _, err := c.Set(ctx, fmt.Sprintf("/s/%d", i), nil, client.AnyVersion); err == nil {
					return
				}
			}
			t.Errorf("client %d lost its session: %v", i, c.Err())
		})
	}
	wg.Wait()
	back := time.Since(killed)
	l.start()
	e.waitServing()
	names, _, err := root.Children(t.Context(), "/s")
	require.NoError(t, err)
	require.Len(t, names, n, "ephemerals")
	for _, c := range clients {
		if c != nil {
			wg.Go(func() { c.Close() })
		}
	}
	wg.Wait()
	t.Logf("saw: %d sessions through two kills of the leader, all served again %v after the second; digest %s", n, back.Round(time.Millisecond), e.sameDigest())
}

// Members that were wiped one after the other, a majority that comes back in every order, and a majority that is gone.
func TestWipedMembersAndOrdersOfReturn(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, layout{voters: 3}, append(slices.Clone(tiny), "zkd.notifyMax=200")...)
	e.start()
	w := startWorkload(t, e, rand.Uint64())
	for _, p := range e.procs {
		_, ok := w.goesOn(patience)
		require.True(t, ok)
		p.kill()
		p.wipe()
		p.start()
		e.waitServing()
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		_, ok := w.goesOn(patience)
		require.True(t, ok)
		for _, i := range order {
			e.procs[i].stop()
		}
		for _, i := range order {
			e.procs[i].start()
			pause(nil, 300*time.Millisecond)
		}
		e.waitServing()
	}
	_, ok := w.goesOn(patience)
	require.True(t, ok)
	w.finish()
	digest := e.sameDigest()

	// Two of three forget everything: nobody may found a new ensemble or serve without them.
	for _, p := range e.procs {
		p.kill()
	}
	e.procs[0].wipe()
	e.procs[1].wipe()
	for _, p := range e.procs {
		p.start()
	}
	served := within(3*time.Second, func() bool {
		for _, p := range e.procs {
			if p.mode() != "" {
				return true
			}
		}
		return false
	})
	require.False(t, served, "an ensemble served after a majority had forgotten what it promised")
	for _, p := range e.procs[:2] { // the operator knows what he does
		p.stop()
		require.NoError(t, os.WriteFile(filepath.Join(p.data, "initialize"), nil, 0o600))
		p.start()
	}
	e.waitServing()
	t.Logf("saw: digest before %s, and after two were vouched for %s", digest, e.sameDigest())
}

// A snapshot that takes longer over a thin line than a silence that is taken for a loss, with all of it in the buffers between (K53).
func TestASnapshotOverAThinLine(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, layout{voters: 3}, tiny...)
	e.start()
	c := dial(t, e.connect(), sessionTimeout)
	bulk(t, c, 1000)
	leader := e.leader()
	gone := e.others(rand.New(rand.NewPCG(1, 1)), leader)[0]
	gone.kill()
	gone.wipe()
	e.net.each(touch(gone.i), func(w *wire) { w.rate = 800 << 10 })
	began := time.Now()
	gone.start()
	e.waitServing()
	took := time.Since(began)
	e.net.heal()
	require.Greater(t, took, 3*time.Second, "the line was not thin")
	require.Equal(t, "1", gone.mntr("zk_sync_snap")[0], "one transfer was enough")
	require.NotContains(t, leader.logText(), `"reason": "silent"`, "its pings waited behind the snapshot, but bytes came in there")
	t.Logf("saw: %v for a snapshot of 4 MB; digest %s", took.Round(time.Millisecond), e.sameDigest())
}
