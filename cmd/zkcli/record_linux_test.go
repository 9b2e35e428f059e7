package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// grid is what a terminal of 120 columns without end shows.
type grid struct {
	lines    [][]rune
	row, col int
}

// render draws what a program wrote to a terminal.
func render(text string) string {
	g := &grid{lines: [][]rune{nil}}
	control := regexp.MustCompile(`^\x1b\[(\d*)(?:;\d*)*([A-Za-z])`)
	for text != "" {
		if m := control.FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			g.control(m[2], n)
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		g.put(r)
	}
	var b strings.Builder
	for _, l := range g.lines {
		b.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return b.String()
}

func (g *grid) control(what string, n int) {
	switch what {
	case "A":
		g.row = max(0, g.row-max(n, 1))
	case "B":
		g.row += max(n, 1)
	case "C":
		g.col += max(n, 1)
	case "D":
		g.col = max(0, g.col-max(n, 1))
	case "K", "J":
		g.fit()
		g.lines[g.row] = g.lines[g.row][:min(g.col, len(g.lines[g.row]))]
		if what == "J" {
			g.lines = g.lines[:g.row+1]
		}
	}
}

func (g *grid) fit() {
	for len(g.lines) <= g.row {
		g.lines = append(g.lines, nil)
	}
}

func (g *grid) put(r rune) {
	switch r {
	case '\r':
		g.col = 0
	case '\n':
		g.row++
		g.fit()
	case '\b':
		g.col = max(0, g.col-1)
	default:
		g.fit()
		line := g.lines[g.row]
		for len(line) <= g.col {
			line = append(line, ' ')
		}
		line[g.col] = r
		g.lines[g.row] = line
		g.col++
	}
}

// recordSession types lines of keys into a shell on a pseudo-terminal and returns what the screen shows at the end.
func recordSession(t *testing.T, server, typed string) string {
	user, program := openTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 120}))
	screen := watchTerminal(user)
	code := make(chan int, 1)
	go func() { code <- run(t.Context(), []string{"-server", server}, program, program, program) }()
	all := screen.wait("0] ")
	count := 0
	for line := range strings.Lines(typed) {
		for key := range strings.SplitSeq(separated.ReplaceAllString(line, "\n$1\n"), "\n") {
			switch key {
			case "":
				continue
			case "<Enter>":
				count++
				press(t, user, "\r")
				all += screen.wait(" " + strconv.Itoa(count) + "] ")
			case "<Tab>":
				press(t, user, "\t")
			case "<Ctrl-R>":
				press(t, user, "\x12")
			case "<Ctrl-U>":
				press(t, user, "\x15")
			case "<Ctrl-D>":
				press(t, user, "\x04")
			default:
				press(t, user, key)
			}
		}
	}
	require.Equal(t, exitOK, <-code)
	return render(all)
}

var separated = regexp.MustCompile(`(<[A-Za-z-]+>)`)

func press(t *testing.T, f *os.File, keys string) {
	_, err := f.WriteString(keys)
	require.NoError(t, err)
}

func TestRender(t *testing.T) {
	require.Equal(t, "abX\nnext\n", render("abcd\x1b[2D\x1b[KX\r\nnext"))
	require.Equal(t, "new\n", render("\x1b[31mold\x1b[0m\r\nmore\x1b[A\r\x1b[Jnew"))
}

// Completion and history search in a terminal, and what is kept afterwards.
func TestTerminalCompletesAndSearches(t *testing.T) {
	server := chroot(t)
	code, _, errs := zkcli(t, server, "", "create", "-p", "/fruit/apple/core")
	require.Equal(t, exitOK, code, errs)
	file := t.TempDir() + "/history"
	t.Setenv("ZKCLI_HISTORY", file)
	shown := recordSession(t, server, "ls /fr<Tab><Tab>a<Tab><Tab>co<Tab><Enter>\nstat /f<Tab><Enter>\naddauth digest a:secret<Enter>\nl<Ctrl-R><Enter>\nge<Tab><Tab><Ctrl-U>\n<Ctrl-D>\n")
	require.Contains(t, shown, ") 0] ls /fruit/apple/core\n[]\n")
	require.Contains(t, shown, ") 1] stat /fruit\ncZxid")
	require.Contains(t, shown, ") 3] ls /fruit/apple/core\n[]\n")
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "ls /fruit/apple/core\nstat /fruit\nls /fruit/apple/core\n", string(kept))
	shown = recordSession(t, server, "stat<Ctrl-R><Enter>\n<Ctrl-D>\n")
	require.Contains(t, shown, ") 0] stat /fruit\ncZxid", "the history of the last run")
}

// A listing that does not fit goes through the pager, a colour to the terminal and nowhere else.
func TestTerminalPagesAndColours(t *testing.T) {
	server := chroot(t)
	sh := newShell(t.Context(), config{server: server, timeout: testPatience}, strings.NewReader(""), os.Stderr, os.Stderr)
	sh.screen = newScreen(discard{}, discard{}, "never")
	require.NoError(t, sh.open(server))
	defer sh.close()
	for i := range 60 {
		require.Equal(t, exitOK, sh.line("create /n"+strconv.Itoa(i)))
	}
	t.Setenv("PAGER", "sed s/^/paged:/")
	shown := recordSession(t, server, "ls -R /<Enter>\nls /n1<Enter>\n<Ctrl-D>\n")
	require.Contains(t, shown, "paged:/n59\n")
	require.Contains(t, shown, "\n[]\n")
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	user, program := openTerminal(t)
	screen := watchTerminal(user)
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), []string{"-server", server, "get", "/nope"}, program, program, program)
	}()
	screen.wait(red + "Node does not exist: /nope" + plain)
	require.Equal(t, exitFailed, <-done)
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
