//go:build amd64

package mmkeeper

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	patience = 30 * time.Second
	ballast  = 64 << 20 // bytes that the kept process has touched
)

func init() { runtime.LockOSThread() }

// TestMain is the kept process if it is told so: it says who its keeper is and waits for the end of its input.
func TestMain(m *testing.M) {
	if os.Getenv("MMKEEPER_KEPT") == "" {
		os.Exit(m.Run())
	}
	memory := make([]byte, ballast)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	pid, err := Start()
	fmt.Println(pid, err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(memory)
}

type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	keeper int
}

func start(t *testing.T) *child {
	k := &child{t: t, cmd: exec.Command(os.Args[0])}
	k.cmd.Env = append(os.Environ(), "MMKEEPER_KEPT=1")
	var err error
	k.in, err = k.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := k.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, k.cmd.Start())
	k.out = bufio.NewReader(out)
	line, err := k.out.ReadString('\n')
	require.NoError(t, err)
	pid, what, _ := strings.Cut(strings.TrimSpace(line), " ")
	require.Equal(t, "<nil>", what)
	k.keeper, err = strconv.Atoi(pid)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = k.cmd.Process.Kill()
		_ = syscall.Kill(k.keeper, syscall.SIGCONT)
		_ = k.cmd.Wait()
	})
	return k
}

// status is a line of the keeper's, "" when it has ended.
func (k *child) status(name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.keeper))
	if err != nil || strings.Contains(string(b), "\nState:\tZ") || strings.Contains(string(b), "\nState:\tX") {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), "\n"+name+":\t")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

func (k *child) until(what string, done func() bool) {
	k.t.Helper()
	require.Eventually(k.t, done, patience, time.Millisecond, what)
}

func (k *child) resident() int {
	n, _ := strconv.Atoi(strings.TrimSuffix(k.status("VmRSS"), " kB"))
	return n << 10
}

// asleep waits until the keeper has come to where it waits.
func (k *child) asleep() {
	k.t.Helper()
	k.until("asleep", func() bool {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", k.keeper))
		return err == nil && len(files) == 0 && strings.HasPrefix(k.status("State"), "S")
	})
}

func TestTheKeeperHasTheMemoryAndNothingElse(t *testing.T) {
	k := start(t)
	k.asleep()
	require.Equal(t, strconv.Itoa(k.cmd.Process.Pid), k.status("PPid"))
	require.Greater(t, k.resident(), ballast)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", k.keeper))
	require.NoError(t, err)
	require.Equal(t, name+"\n", string(b))
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGURG, syscall.SIGPROF} {
		require.NoError(t, syscall.Kill(k.keeper, s))
		k.until("the signal waits", func() bool {
			waiting, err := strconv.ParseUint(k.status("ShdPnd"), 16, 64)
			return err == nil && waiting&(1<<(s-1)) != 0
		})
	}
}

// The keeper is stopped meanwhile, so that there is no doubt who was first.
func TestWhoIsKilledClosesItsFilesBeforeItsMemoryIsFreed(t *testing.T) {
	k := start(t)
	k.asleep()
	require.NoError(t, syscall.Kill(k.keeper, syscall.SIGSTOP))
	k.until("stopped", func() bool { return strings.HasPrefix(k.status("State"), "T") })
	require.NoError(t, k.cmd.Process.Kill())
	_, err := k.out.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Greater(t, k.resident(), ballast)
	require.NoError(t, syscall.Kill(k.keeper, syscall.SIGCONT))
	k.until("the end", func() bool { return k.status("State") == "" })
}

func TestTheKeeperEndsWithItsParent(t *testing.T) {
	k := start(t)
	require.NoError(t, k.in.Close())
	require.NoError(t, k.cmd.Wait())
	k.until("the end", func() bool { return k.status("State") == "" })
}

func TestNoKeeperForAThreadThatMayEnd(t *testing.T) {
	_, err := Start() // tests run on other threads
	require.ErrorIs(t, err, errThread)
}
