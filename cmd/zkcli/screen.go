package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen serialises what goroutines print. While a line is being edited everything goes through the terminal, which
// redraws the line.
type screen struct {
	colors    bool // on standard output
	errColors bool

	mu       sync.Mutex
	out, err io.Writer
	lost     error          // the first fault of standard output
	editing  *term.Terminal // nil if no line is being edited
	prompt   func() string  // of that line, as it is now
}

func newScreen(out, err io.Writer, mode colorMode) *screen {
	return &screen{out: out, err: err, colors: mode.on(out), errColors: mode.on(err)}
}

func (s *screen) stdout(text string) { s.print(s.out, text) }
func (s *screen) stderr(text string) { s.print(s.err, text) }

// fault prints an error.
func (s *screen) fault(text string) {
	if s.errColors {
		text = red + strings.TrimSuffix(text, "\n") + plain + "\n"
	}
	s.stderr(text)
}

func (s *screen) print(w io.Writer, text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.editing != nil {
		w = s.editing
	}
	_, err := io.WriteString(w, text) // a fault is no reason to stop: the command may be a write
	if err != nil && w == s.out && s.lost == nil {
		s.lost = err
	}
}

// outputLost returns the first fault of standard output: a full disk, or one that is closed. What was to be there is not.
func (s *screen) outputLost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// edit sets the terminal whose line is being edited, nil for none. prompt is asked for it again when the session changes.
func (s *screen) edit(t *term.Terminal, prompt func() string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.editing, s.prompt = t, prompt
}

// newPrompt brings the prompt of a line that is being edited up to date; what is printed next shows it.
func (s *screen) newPrompt() {
	s.mu.Lock()
	t, prompt := s.editing, s.prompt
	s.mu.Unlock()
	if t != nil {
		t.SetPrompt(prompt()) // of the next line at worst, which sets its own
	}
}

// The colours.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	blue   = "\x1b[34m"
	faint  = "\x1b[2m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// paint colours text for standard output, if that takes colours.
func (s *screen) paint(color, text string) string {
	if !s.colors || text == "" {
		return text
	}
	return color + text + plain
}

// colorMode is the value of --color.
type colorMode string

func (m *colorMode) Type() string   { return "when" }
func (m *colorMode) String() string { return string(*m) }
func (m *colorMode) Set(s string) error {
	if s != "auto" && s != "always" && s != "never" {
		return errors.New("neither auto nor always nor never")
	}
	*m = colorMode(s)
	return nil
}

// on reports whether what goes to w is coloured: a terminal, and nobody asked for no colour.
func (m colorMode) on(w io.Writer) bool {
	switch m {
	case "always":
		return true
	case "never":
		return false
	}
	_, tty := terminalOf(w)
	return tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func terminalOf(w any) (fd int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// show prints data, through the pager if somebody sits before a terminal that it does not fit on.
func (sh *shell) show(text string) {
	out, tty := terminalOf(sh.screen.out)
	_, typed := terminalOf(sh.stdin)
	if !tty || !typed {
		sh.screen.stdout(text)
		return
	}
	_, height, err := term.GetSize(out)
	if err != nil || height == 0 || strings.Count(text, "\n") < height || !sh.page(text) {
		sh.pour(text)
	}
}

// pour prints what may be long, until Ctrl-C.
func (sh *shell) pour(text string) {
	if len(sh.cfg.command) > 0 {
		sh.screen.stdout(text) // Ctrl-C ends the process
		return
	}
	ctx, stop := signal.NotifyContext(sh.ctx, os.Interrupt)
	defer stop()
	const chunk = 4 << 10
	for len(text) > 0 && ctx.Err() == nil {
		n := min(chunk, len(text))
		sh.screen.stdout(text[:n])
		text = text[n:]
	}
}

// page reports whether a pager took the text.
func (sh *shell) page(text string) bool {
	pager := os.Getenv("PAGER")
	if pager == "" {
		pager = "less -FRX"
	}
	words := strings.Fields(pager)
	if len(words) == 0 {
		return false
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(text)
	cmd.Stdout, cmd.Stderr = sh.screen.out, sh.screen.err
	if cmd.Start() != nil {
		return false
	}
	cmd.Wait() // its exit code says nothing about the text
	return true
}
