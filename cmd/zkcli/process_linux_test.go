package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// asMain makes the test binary be zkcli.
const asMain = "ZKCLI_TEST_AS_MAIN"

// inTerminal starts zkcli as a process whose controlling terminal is a pseudo-terminal.
func inTerminal(t *testing.T, env []string, args ...string) (user *os.File, screen *view, exited <-chan int) {
	t.Helper()
	user, screen, exited, _ = processInTerminal(t, env, args...)
	return user, screen, exited
}

// processInTerminal is inTerminal for a test that does something to the process.
func processInTerminal(t *testing.T, env []string, args ...string) (user *os.File, screen *view, exited <-chan int, p *os.Process) {
	t.Helper()
	user, program := openTerminal(t)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), asMain+"=1"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	done := make(chan int, 1)
	go func() {
		cmd.Wait()
		done <- cmd.ProcessState.ExitCode()
	}()
	return user, watchTerminal(user), done, cmd.Process
}

// Ctrl-C ends the command, not the shell; Ctrl-D ends the shell.
func TestCtrlCEndsTheCommand(t *testing.T) {
	needs(t, knowsSubtrees)
	server := chroot(t)
	user, screen, exited := inTerminal(t, nil, "--server", server)
	screen.wait(" 0] ")
	press(t, user, "watch /\r")
	screen.wait("watch /\r\n")
	code, _, errs := zkcli(t, server, "", "create", "/seen") // the watch is there when this is reported
	require.Equal(t, exitOK, code, errs)
	for !strings.Contains(screen.peek(), "NodeCreated") {
		code, _, errs = zkcli(t, server, "", "create", "-s", "/seen-")
		require.Equal(t, exitOK, code, errs)
	}
	press(t, user, "\x03")
	require.NotContains(t, screen.wait(" 1] "), "interrupted", "it is how a watch ends")
	press(t, user, "\x04")
	require.Equal(t, exitOK, <-exited)
}

// A shell that was frozen for longer than its session lives: it says what is gone and what to do, and connect does it.
func TestExpiredSession(t *testing.T) {
	server := chroot(t)
	user, screen, exited, process := processInTerminal(t, nil, "--server", server, "--timeout", "1000")
	screen.wait(" 0] ")
	press(t, user, "create -e /mine\r")
	screen.wait(" 1] ")
	press(t, user, "half")
	screen.wait("half")
	require.NoError(t, process.Signal(syscall.SIGSTOP))
	code, _, errs := zkcli(t, server, "", "wait", "/mine", "--gone")
	require.Equal(t, exitOK, code, errs)
	require.NoError(t, process.Signal(syscall.SIGCONT))
	screen.wait("WatchedEvent state:Expired type:None path:null\r\n")
	screen.wait("connect opens a new session.\r\n")
	screen.wait("(EXPIRED) 1] half")
	press(t, user, "\x15ls /\r")
	require.Contains(t, screen.wait("(EXPIRED) 2] "), "Not connected\r\nconnect opens a new session.\r\n")
	press(t, user, "connect\r")
	require.Contains(t, screen.wait(" 3] "), "state:SyncConnected")
	press(t, user, "ls /\r")
	require.Contains(t, screen.wait(" 4] "), "[]\r\n")
	press(t, user, "\x04")
	require.Equal(t, exitOK, <-exited)
}

// A Ctrl-C while the pager shows what a command has found, when no command runs, does not end the shell.
func TestCtrlCInThePagerLeavesTheShell(t *testing.T) {
	server := chroot(t)
	pager := filepath.Join(t.TempDir(), "pager")
	require.NoError(t, os.WriteFile(pager, []byte("#!/bin/sh\ntrap 'echo pager interrupted; exit' INT\necho pager waits\nwhile :; do sleep 0.01; done\n"), 0o700))
	user, screen, exited := inTerminal(t, []string{"PAGER=" + pager}, "--server", server)
	screen.wait(" 0] ")
	require.NoError(t, unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 120}))
	press(t, user, "help\r")
	screen.wait("pager waits")
	press(t, user, "\x03")
	screen.wait("pager interrupted")
	screen.wait(" 1] ")
	press(t, user, "\x04")
	require.Equal(t, exitOK, <-exited)
}

func TestEditChecksTheVersion(t *testing.T) {
	server := chroot(t)
	dir := t.TempDir()
	script := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		return "EDITOR=" + file
	}
	code, _, errs := zkcli(t, server, "", "create", "/a", "old")
	require.Equal(t, exitOK, code, errs)
	env := []string{"VISUAL=", "TMPDIR=" + dir}

	_, screen, exited := inTerminal(t, append(env, script("good", `printf new >"$1"`)), "--server", server, "edit", "/a")
	screen.wait("Set /a, version 1")
	require.Equal(t, exitOK, <-exited)
	_, screen, exited = inTerminal(t, append(env, script("idle", "exit 0")), "--server", server, "edit", "/a")
	screen.wait("Unchanged")
	require.Equal(t, exitOK, <-exited)
	_, screen, exited = inTerminal(t, append(env, script("bad", "exit 3")), "--server", server, "edit", "/a")
	screen.wait("exit status 3")
	require.Equal(t, exitFailed, <-exited)

	slow := script("slow", asMain+`=1 "`+os.Args[0]+`" --server "`+server+`" set /a other; printf mine >"$1"`)
	_, screen, exited = inTerminal(t, append(env, slow), "--server", server, "edit", "/a")
	screen.wait("version No is not valid : /a")
	kept := screen.wait("Its version is 2")
	require.Equal(t, exitFailed, <-exited)
	_, kept, _ = strings.Cut(kept, "What you wrote is in ")
	file, _, _ := strings.Cut(kept, "\r\n")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	code, out, _ := zkcli(t, server, "", "get", "/a")
	require.Equal(t, exitOK, code)
	require.Equal(t, "other\n", out)
}
