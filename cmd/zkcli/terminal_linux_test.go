package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkd-project/zkd/proto"
)

// openTerminal returns both ends of a pseudo-terminal: a user's keyboard and screen, and what a program sees.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { program.Close() })
	return user, program
}

// viewPatience bounds how long a terminal may take to show something.
const viewPatience = time.Minute

// view collects what a terminal shows and lets a test wait for text.
type view struct {
	mu   sync.Mutex
	more *sync.Cond
	text bytes.Buffer
}

func watchTerminal(f *os.File) *view {
	v := &view{}
	v.more = sync.NewCond(&v.mu)
	go func() { // ends when the test closes the terminal
		b := make([]byte, 4096)
		for {
			n, err := f.Read(b)
			v.mu.Lock()
			v.text.Write(b[:n])
			v.more.Broadcast()
			v.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return v
}

// peek returns what was shown behind the last wait.
func (v *view) peek() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.String()
}

// shows reports whether text comes within a time that proves nothing if it does not.
func (v *view) shows(text string, within time.Duration) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	late := time.AfterFunc(within, v.more.Broadcast)
	defer late.Stop()
	for end := time.Now().Add(within); time.Now().Before(end); v.more.Wait() {
		if strings.Contains(v.text.String(), text) {
			return true
		}
	}
	return strings.Contains(v.text.String(), text)
}

// wait returns what was shown up to and with the next occurrence of text.
func (v *view) wait(text string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	late := time.AfterFunc(viewPatience, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		panic("the terminal never showed " + text + ", but " + v.text.String())
	})
	defer late.Stop()
	for {
		if i := strings.Index(v.text.String(), text); i >= 0 {
			return string(v.text.Next(i + len(text)))
		}
		v.more.Wait()
	}
}

func TestTerminal(t *testing.T) {
	f := newFake()
	addr := listen(t, f)
	user, program := openTerminal(t)
	screen := watchTerminal(user)
	code := make(chan int, 1)
	go func() { code <- run(t.Context(), []string{"-server", addr}, program, program, program) }()
	keys := func(s string) {
		_, err := user.WriteString(s)
		require.NoError(t, err)
	}
	prompt := func(n int) string { return fmt.Sprintf("[zk: %s(CONNECTED) %d] ", addr, n) }

	require.Contains(t, screen.wait(prompt(0)), "Welcome to ZooKeeper!\r\n")
	keys("get /nopf\x7fe\r") // with a correction
	require.Contains(t, screen.wait(prompt(1)), "Node does not exist: /nope\r\n")
	keys("create /a 'x y'\r")
	require.Contains(t, screen.wait(prompt(2)), "Created /a\r\n")
	keys("get -w /a\r")
	require.Contains(t, screen.wait(prompt(3)), "x y\r\n")
	keys("history\r")
	require.Contains(t, screen.wait(prompt(4)), "0 - get /nope\r\n1 - create /a 'x y'\r\n2 - get -w /a\r\n3 - history\r\n")
	keys("\x1b[A\x1b[A\r") // up, up: the get again
	require.Contains(t, screen.wait(prompt(5)), "x y\r\n")

	// An event that comes while a line is edited is shown above it, and the line is drawn again.
	keys("sy")
	screen.wait("sy")
	f.notify(proto.EventNodeDataChanged, "/a")
	require.Contains(t, screen.wait(prompt(5)+"sy"), "WatchedEvent state:SyncConnected type:NodeDataChanged path:/a\r\n")
	keys("nc /\r")
	require.Contains(t, screen.wait(prompt(6)), "Sync is OK\r\n")

	// The prompt knows of a lost connection though nobody presses a key.
	f.leave()
	require.Contains(t, screen.wait("(CONNECTING) 6] "), "state:Disconnected")
	f.comeBack()
	require.Contains(t, screen.wait(prompt(6)), "state:SyncConnected")

	// Ctrl-C drops the line, wherever the cursor is, and does not end the shell.
	keys("create /never x\x1b[D\x03")
	screen.wait("create /never")
	screen.wait(prompt(6))
	keys("stat /never\r")
	require.Contains(t, screen.wait(prompt(7)), "Node does not exist: /never\r\n")

	keys("\x04")
	require.Equal(t, exitOK, <-code)
}
