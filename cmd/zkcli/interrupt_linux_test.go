package main

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Ctrl-C ends commands that wait for something else than the servers too: for what somebody types, for a pipe. The shell
// goes on, and no key is lost to a read that was given up.
func TestCtrlCEndsWhatWaitsForFilesAndKeys(t *testing.T) {
	server := chroot(t)
	t.Chdir(t.TempDir())
	require.NoError(t, unix.Mkfifo("pipe", 0o600))
	require.NoError(t, unix.Mkfifo("other", 0o600)) // what was given up may still wait at the first
	user, screen, exited := inTerminal(t, nil, "--server", server)
	screen.wait(" 0] ")
	for i, line := range []string{"import /x", "create --file - /x", "export / pipe", "get --out pipe /", "import /x other"} {
		number := " " + string(rune('1'+i)) + "] "
		press(t, user, line+"\r")
		screen.wait(line + "\r\n")
		require.Contains(t, interrupt(t, user, screen, number), "interrupted", line)
	}
	press(t, user, "create /typed 'all of it'\r")
	require.Contains(t, screen.wait(" 6] "), "Created /typed\r\n")
	press(t, user, "set --file - /typed\r")
	screen.wait("/typed\r\n")
	echoes(t, user)
	press(t, user, "two lines\r")
	screen.wait("lines\r\n")
	press(t, user, "of text\r")
	screen.wait("text\r\n")
	press(t, user, "\x04")
	screen.wait(" 7] ")
	press(t, user, "get /typed\r")
	require.Contains(t, screen.wait(" 8] "), "two lines\r\nof text\r\n")
	press(t, user, "\x04")
	require.Equal(t, exitOK, <-exited)
}

// echoes waits until the terminal itself shows what is typed: the line editor has handed it over to the command, which
// happens behind the line's own newline.
func echoes(t *testing.T, user *os.File) {
	for late := time.Now().Add(viewPatience); time.Now().Before(late); time.Sleep(time.Millisecond) {
		mode, err := unix.IoctlGetTermios(int(user.Fd()), unix.TCGETS)
		require.NoError(t, err)
		if mode.Lflag&unix.ECHO != 0 && mode.Lflag&unix.ICANON != 0 {
			return
		}
	}
	require.Fail(t, "the terminal does not echo")
}

// interrupt presses Ctrl-C until the prompt is there: the first may come before the command has begun.
func interrupt(t *testing.T, user *os.File, screen *view, prompt string) string {
	for {
		press(t, user, "\x03")
		if screen.shows(prompt, 100*time.Millisecond) {
			return screen.wait(prompt)
		}
	}
}

// One-shot too.
func TestCtrlCEndsAOneShotThatReads(t *testing.T) {
	user, screen, exited := inTerminal(t, nil, "--server", chroot(t), "set", "--file", "-", "/")
	screen.wait("SyncConnected type:None path:null\r\n") // the command runs from here on, or soon
	for {
		press(t, user, "\x03")
		select {
		case code := <-exited:
			require.NotEqual(t, exitOK, code)
			return
		case <-time.After(20 * time.Millisecond): // the signal may have come before the command
		}
	}
}

func TestInputOutlivesAContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	in := newInput(ctx, r)
	cancel(errors.New("Ctrl-C"))
	b := make([]byte, 4)
	_, err := in.Read(b)
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancelCause(t.Context())
	in.ctx = ctx
	given := make(chan error)
	go func() {
		_, err := in.Read(b)
		given <- err
	}()
	cancel(nil)
	require.ErrorIs(t, <-given, context.Canceled)
	in.ctx = t.Context()
	go w.Write([]byte("abcdef"))
	_, err = io.ReadFull(in, b)
	require.NoError(t, err)
	require.Equal(t, "abcd", string(b))
	n, err := in.Read(b)
	require.NoError(t, err)
	require.Equal(t, "ef", string(b[:n]))
}
