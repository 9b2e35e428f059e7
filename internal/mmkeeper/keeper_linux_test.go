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
	"unsafe"

	"github.com/stretchr/testify/require"
)

const (
	patience = 30 * time.Second
	ballast  = 64 << 20 // bytes that the kept process has touched
	nobody   = 65534
)

func init() { runtime.LockOSThread() }

// Lives of the kept process.
const (
	usual  = "usual"  // it says who its keeper is and waits for the end of its input
	old    = "old"    // its kernel has no close_range
	barred = "barred" // it may not send its keeper signals, and tries to end it
	ended  = "ended"  // it ends its keeper first
)

// TestMain is the kept process if it is told so.
func TestMain(m *testing.M) {
	life := os.Getenv("MMKEEPER_KEPT")
	if life == "" {
		os.Exit(m.Run())
	}
	if life == old {
		refuse(sysCloseRange)
	}
	memory := make([]byte, ballast)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	pid, err := Start()
	switch life {
	case barred:
		if err := syscall.Setresuid(nobody, nobody, nobody); err != nil {
			panic(err)
		}
		End(pid)
	case ended:
		End(pid)
	}
	fmt.Println(pid, err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(memory)
}

// refuse has the kernel say to this thread that it has no such call. Only a process that is to end soon may do that.
func refuse(call uint32) {
	const load, ifEqual, answer, allow, refused, filter = 0x20, 0x15, 0x06, 0x7fff0000, 0x00050000, 2
	const setNoNewPrivs = 38
	program := []syscall.SockFilter{{Code: load}, {Code: ifEqual, K: call, Jf: 1}, {Code: answer, K: refused | uint32(syscall.ENOSYS)}, {Code: answer, K: allow}}
	p := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	for _, args := range [][3]uintptr{{setNoNewPrivs, 1}, {syscall.PR_SET_SECCOMP, filter, uintptr(unsafe.Pointer(&p))}} {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, args[0], args[1], args[2], 0, 0, 0); errno != 0 {
			panic(errno)
		}
	}
	runtime.KeepAlive(program)
}

type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	keeper int
	failed string // what Start said, "<nil>" for nothing
}

func start(t *testing.T, life string) *child {
	k := &child{t: t, cmd: exec.Command(os.Args[0])}
	k.cmd.Env, k.cmd.Dir = append(os.Environ(), "MMKEEPER_KEPT="+life), t.TempDir()
	var err error
	k.in, err = k.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := k.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, k.cmd.Start())
	k.out = bufio.NewReader(out)
	line, err := k.out.ReadString('\n')
	require.NoError(t, err)
	pid, failed, _ := strings.Cut(strings.TrimSpace(line), " ")
	k.failed = failed
	k.keeper, err = strconv.Atoi(pid)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = k.cmd.Process.Kill()
		if k.keeper > 0 {
			_ = syscall.Kill(k.keeper, syscall.SIGCONT)
		}
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
	require.Equal(k.t, "<nil>", k.failed)
	k.until("asleep", func() bool {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", k.keeper))
		if err != nil || len(files) > 0 {
			return false
		}
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", k.keeper))
		return err == nil && dir == "/" && strings.HasPrefix(k.status("State"), "S")
	})
}

func TestTheKeeperHasTheMemoryAndNothingElse(t *testing.T) {
	k := start(t, usual)
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
	k := start(t, usual)
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
	k := start(t, usual)
	require.NoError(t, k.in.Close())
	require.NoError(t, k.cmd.Wait())
	k.until("the end", func() bool { return k.status("State") == "" })
}

func TestAKeeperThatIsNotToldLooksForItself(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give it up")
	}
	k := start(t, barred)
	k.asleep()
	require.NoError(t, k.in.Close())
	require.NoError(t, k.cmd.Wait())
	k.until("the end", func() bool { return k.status("State") == "" })
}

func TestWhoEndsItsKeeperHasNoneLeft(t *testing.T) {
	k := start(t, ended)
	require.Equal(t, "<nil>", k.failed)
	require.ErrorIs(t, syscall.Kill(k.keeper, 0), syscall.ESRCH)
}

func TestNoKeeperThatWouldHoldFiles(t *testing.T) {
	k := start(t, old)
	require.Zero(t, k.keeper)
	require.Contains(t, k.failed, "close_range")
}

func TestNoKeeperForAThreadThatMayEnd(t *testing.T) {
	_, err := Start() // tests run on other threads
	require.ErrorIs(t, err, errThread)
}
