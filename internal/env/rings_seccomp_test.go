package env

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const forbidden = "ZKD_TEST_FORBIDDEN_SYSCALL"

// A filter of system calls, as containers have, may keep any part of io_uring from us: then no sync tries it.
func TestNoRingsWhereTheyAreForbidden(t *testing.T) {
	rings(t)
	for name, call := range map[string]int{"setup": unix.SYS_IO_URING_SETUP, "enter": unix.SYS_IO_URING_ENTER} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutACall$", "-test.v")
			cmd.Env = append(os.Environ(), forbidden+"="+strconv.Itoa(call))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), "--- PASS: TestWithoutACall")
		})
	}
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
