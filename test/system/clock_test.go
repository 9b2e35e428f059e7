package system

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// steppedBinary builds zkd with a wall clock that a test can move: time.Now adds the seconds that stand in a file, and everything else,
// the monotonic clock and the timers above all, is as it was. Nothing of zkd is changed. A machine's own clock belongs to others, time
// namespaces leave the wall clock alone, and a preloaded library does not reach a static program.
func steppedBinary(t *testing.T) string {
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	require.NoError(t, err)
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), now) != 1 {
		t.Skip("this Go has another time.Now")
	}
	command, err := filepath.Abs("../../cmd/zkd")
	require.NoError(t, err)
	replace := map[string]string{}
	for path, text := range map[string]string{
		filepath.Join(std, "time.go"): strings.Replace(string(source), now, now+"\tsec += stepped.Load()\n", 1),
		filepath.Join(std, "step.go"): "package time\n\nimport \"sync/atomic\"\n\nvar stepped atomic.Int64\n\n" +
			"func StepWallClock(sec int64) { stepped.Store(sec) }\n",
		filepath.Join(command, "stepped.go"): `package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

func init() {
	go func() {
		for {
			b, _ := os.ReadFile(os.Getenv("ZKD_TEST_CLOCK"))
			if sec, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
				time.StepWallClock(sec)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
}
`} {
		name := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		replace[path] = name
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	binary := filepath.Join(dir, "zkd")
	out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "../../cmd/zkd").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// step moves the server's wall clock to so far from the true time.
func (p *process) step(by time.Duration) {
	p.write("clock.new", fmt.Sprintf("%d\n", int64(by/time.Second)))
	require.NoError(p.t, os.Rename(filepath.Join(p.dir, "clock.new"), filepath.Join(p.dir, "clock")))
}

// TestAWallClockThatJumpsMovesNothing moves the wall clocks of leader and followers by hours, both ways, and kills the leader in the middle of
// it. No session ends for it, none lives on for it, nobody elects, and the times in the tree never sink.
func TestAWallClockThatJumpsMovesNothing(t *testing.T) {
	if !long {
		t.Skip("compiles the standard library anew, and waits for sessions to end: ZKD_LONG=1")
	}
	c := newCluster(t, 3)
	binary := steppedBinary(t)
	for _, p := range c.procs {
		p.binary, p.env = binary, []string{"ZKD_TEST_CLOCK=" + filepath.Join(p.dir, "clock")}
		p.step(0)
	}
	c.start()
	s := startStream(t, 3, c.procs...)
	s.goesOn()
	var short []*client.Client // their sessions end after 4 s of silence
	for _, p := range c.procs {
		cl, err := client.Dial(within(t), p.client, client.WithSessionTimeout(4*time.Second))
		require.NoError(t, err)
		defer cl.Close()
		_, err = cl.Create(within(t), fmt.Sprintf("/short%d", p.id), nil, client.Ephemeral, nil)
		require.NoError(t, err)
		short = append(short, cl)
	}
	old := c.leader()
	rest := c.others(old)
	elections := old.mntr("zk_elections")
	watch := dial(t, rest...)
	var last int64
	sunk := func() { // the newest time in the tree, which must not be before an earlier one
		var st client.Stat
		eventually(t, "a write", func() (ok bool) {
			var err error
			st, err = watch.Set(within(t), "/counter0-alive", nil, client.AnyVersion)
			return err == nil
		})
		at := st.Mtime.UnixMilli()
		require.GreaterOrEqual(t, at, last, "a time in the tree sank")
		last = at
	}
	var jumped []string
	for _, by := range [][3]time.Duration{{time.Hour, -time.Hour, 0}, {-time.Hour, time.Hour, 48 * time.Hour}, {0, -24 * time.Hour, 0}} {
		sunk()
		for i, p := range append([]*process{old}, rest...) {
			p.step(by[i])
		}
		began := time.Now()
		eventually(t, "half as long again as a short session lasts", func() bool { sunk(); return time.Since(began) > 6*time.Second })
		s.goesOn()
		require.Equal(t, "leader", old.mode())
		require.Equal(t, elections, old.mntr("zk_elections"))
		for i, cl := range short {
			require.NoError(t, cl.Err(), "session at server %d", i+1)
		}
		jumped = append(jumped, fmt.Sprintf("%v", by))
	}
	require.Greater(t, last, time.Now().Add(40*time.Minute).UnixMilli(), "no clock has moved")
	silent, nc := attach(t, old, 0, make([]byte, 16))
	nc.Close()
	ended := time.Now()
	old.step(-time.Hour) // a clock that went by the wall would wait an hour
	eventually(t, "a silent session expires", func() bool { return !strings.Contains(old.word("dump"), fmt.Sprintf("%x", silent.SessionID)) })
	took := time.Since(ended)
	require.Greater(t, took, 3500*time.Millisecond)
	rest[0].step(-72 * time.Hour)
	rest[1].step(-72 * time.Hour)
	old.kill()
	sunk()
	old.start()
	c.waitServing(old)
	s.goesOn()
	sunk()
	for i := range short {
		_, there, err := watch.Exists(within(t), fmt.Sprintf("/short%d", i+1))
		require.NoError(t, err)
		require.True(t, there, "ephemeral of the session at server %d", i+1)
	}
	s.check(c.leader())
	t.Logf("saw: clocks of leader and followers moved to %v from the true time, then the leader killed with the others three days back", jumped)
	t.Logf("saw: no election before that, no session lost; a silent session of 4 s, tick 2 s, ended after %v; digest %s", took.Round(100*time.Millisecond), c.sameDigest())
}
