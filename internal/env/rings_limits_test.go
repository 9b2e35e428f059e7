package env

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What a process of a test's own has to do without.
const (
	forbidden = "ZKD_TEST_FORBIDDEN_SYSCALL"
	noThreads = "ZKD_TEST_NO_THREADS"
)

// A filter of system calls, as containers have, may keep any part of io_uring from us: then no sync tries it.
func TestNoRingsWhereTheyAreForbidden(t *testing.T) {
	rings(t)
	for name, call := range map[string]int{"setup": unix.SYS_IO_URING_SETUP, "enter": unix.SYS_IO_URING_ENTER} {
		t.Run(name, func(t *testing.T) {
			alone(t, "TestWithoutACall", forbidden+"="+strconv.Itoa(call))
		})
	}
}

// Where the kernel can start no thread, the first sync finds out, succeeds, and is the last that tries.
func TestNoRingsWhereThereAreNoThreads(t *testing.T) {
	rings(t)
	alone(t, "TestWithoutThreads", noThreads+"="+filepath.Join(t.TempDir(), "file"))
}

// alone runs a test in a process of its own.
func alone(t *testing.T, name, setting string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), setting)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: "+name)
}

// TestWithoutThreads is TestNoRingsWhereThereAreNoThreads in a process of its own.
func TestWithoutThreads(t *testing.T) {
	path := os.Getenv(noThreads)
	if path == "" {
		t.Skip("not a test of its own")
	}
	rs := new(Rings)
	f, err := OSDisk{Rings: rs}.Create(path)
	require.NoError(t, err)
	defer f.Close()
	spareThreads(16)
	if os.Getuid() == 0 { // whom the limit does not bind
		require.NoError(t, syscall.Setuid(65534))
	}
	var usual unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NPROC, &usual))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: usual.Max}))
	defer unix.Setrlimit(unix.RLIMIT_NPROC, &usual)
	require.ErrorIs(t, rs.Probe(), unix.ECANCELED)
	require.NoError(t, f.Sync())
	require.True(t, rs.closed)
	require.NoError(t, f.Sync())
}

// TestWithoutACall is a part of TestNoRingsWhereTheyAreForbidden, in a process of its own.
func TestWithoutACall(t *testing.T) {
	call, err := strconv.Atoi(os.Getenv(forbidden))
	if err != nil {
		t.Skip("not a test of its own")
	}
	forbid(t, call)
	rs := new(Rings)
	require.ErrorIs(t, rs.Probe(), unix.EPERM)
	require.Empty(t, rs.free)
	f, err := OSDisk{Rings: rs}.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
}

// spareThreads makes n threads for the runtime to use: it ends the process when it needs one and cannot make it.
func spareThreads(n int) {
	var there, gone sync.WaitGroup
	there.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread() // nobody else runs on this thread while it waits
			defer runtime.UnlockOSThread()
			there.Done()
			there.Wait()
		})
	}
	gone.Wait()
}

// forbid has a system call fail with EPERM in this process from now on.
func forbid(t *testing.T, call int) {
	const ret, load, equal = unix.BPF_RET | unix.BPF_K, unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	program := []unix.SockFilter{
		{Code: load}, // the number of the call
		{Code: equal, K: uint32(call), Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	runtime.LockOSThread() // the second call takes over to all threads what the first one says about this one
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	require.Zero(t, errno)
}
