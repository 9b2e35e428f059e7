package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/term"
)

// interact reads commands until quit or the end of input. A terminal ends with code 0; otherwise the last command that
// failed gives the code, so that a script fed to zkcli can tell.
func (sh *shell) interact() int {
	if f, ok := sh.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return sh.interactTerminal(f)
	}
	code := exitOK
	in := bufio.NewReader(sh.keys)
	sh.data = in // a command that reads the data gets what is behind its line
	for !sh.quitting && sh.ctx.Err() == nil {
		text, err := in.ReadString('\n')
		if got := sh.line(strings.TrimRight(text, "\r\n")); got != exitOK {
			code = got
		}
		if err != nil {
			break
		}
	}
	return code
}

// interactTerminal has line editing, completion, and a history that the arrow keys walk through. The terminal is raw only
// while a line is edited: while a command runs, Ctrl-C is a signal that ends the command. It must not end the shell when it
// comes a little late, after the command, or while a pager or an editor runs.
func (sh *shell) interactTerminal(f *os.File) int {
	late := make(chan os.Signal, 1)
	signal.Notify(late, os.Interrupt)
	defer signal.Stop(late)
	sh.screen.stderr("Welcome to ZooKeeper!\n")
	sh.past.read()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{&freshLine{r: sh.keys}, sh.screen.out}, "")
	t.History = sh.past
	t.AutoCompleteCallback = (&keys{sh: sh}).press
	for !sh.quitting {
		text, err := sh.edit(f, t)
		switch {
		case errors.Is(err, io.EOF): // Ctrl-D
			return sh.leave(exitOK)
		case err != nil:
			sh.screen.fault(err.Error() + "\n")
			return sh.leave(exitFailed)
		}
		sh.line(text)
	}
	return sh.leave(exitOK)
}

// freshLine makes Ctrl-C drop the line that is edited: for the terminal's library it is the end of input.
type freshLine struct {
	r    io.Reader
	rest []byte
}

// To the end of the line, delete it, Enter.
const dropLine = "\x05\x15\r"

func (l *freshLine) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		n, err := l.r.Read(b)
		l.rest = bytes.ReplaceAll(b[:n], []byte{'C' - '@'}, []byte(dropLine))
		if err != nil {
			return copy(b, l.rest), err
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// leave keeps the history.
func (sh *shell) leave(code int) int {
	if err := sh.past.write(); err != nil {
		sh.screen.fault("the history could not be kept: " + err.Error() + "\n")
	}
	return code
}

func (sh *shell) edit(f *os.File, t *term.Terminal) (string, error) {
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(f.Fd()), old)
	if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		t.SetSize(width, height)
	}
	number := sh.past.count()
	prompt := func() string { return sh.prompt(number) }
	sh.screen.edit(t, prompt)
	defer sh.screen.edit(nil, nil)
	t.SetPrompt(prompt())
	text, err := t.ReadLine()
	if errors.Is(err, io.EOF) {
		t.Write([]byte("\n"))
	}
	return text, err
}

// keys handles what the terminal does not know: Tab completes, Ctrl-R searches the history.
type keys struct {
	sh     *shell
	sought string // what Ctrl-R looks for
	hits   int    // lines that it has shown
	shown  string // the last of them
}

const (
	keyTab   = '\t'
	keyCtrlR = 'R' - '@'
)

func (k *keys) press(line string, pos int, key rune) (string, int, bool) {
	switch key {
	case keyTab:
		newLine, newPos, choices := k.sh.completeLine(line, pos)
		if len(choices) > 0 {
			k.sh.screen.stdout(columns(choices, 80))
		}
		return newLine, newPos, true
	case keyCtrlR:
		if line != k.shown || k.hits == 0 {
			k.sought, k.hits = line, 0
		}
		if hit, ok := k.sh.past.search(k.sought, k.hits); ok {
			k.hits++
			k.shown = hit
			return hit, len(hit), true
		}
		return line, pos, true
	}
	return "", 0, false
}

// columns sets words side by side.
func columns(all []string, width int) string {
	widest := 0
	for _, s := range all {
		widest = max(widest, len(s))
	}
	perLine := max(1, width/(widest+2))
	var b strings.Builder
	for i, s := range all {
		b.WriteString(s)
		if (i+1)%perLine == 0 || i == len(all)-1 {
			b.WriteByte('\n')
		} else {
			b.WriteString(strings.Repeat(" ", widest+2-len(s)))
		}
	}
	return b.String()
}

// split cuts a line into words at white space. A word that begins with a quote, ' or ", goes to the next such quote and
// may be empty; there are no escapes.
func split(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t\r\n")
		if line == "" {
			return words, nil
		}
		if quote := line[0]; quote == '\'' || quote == '"' {
			end := strings.IndexByte(line[1:], quote)
			if end < 0 {
				return nil, errors.New("quote without an end")
			}
			words = append(words, line[1:1+end])
			line = line[end+2:]
			continue
		}
		end := strings.IndexAny(line, " \t\r\n")
		if end < 0 {
			end = len(line)
		}
		words = append(words, line[:end])
		line = line[end:]
	}
}
