package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// interact reads commands until quit or the end of input. A terminal ends with code 0; otherwise the last command that
// failed gives the code, so that a script fed to zkcli can tell.
func (sh *shell) interact(stdin io.Reader) int {
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return sh.interactTerminal(f)
	}
	code := exitOK
	in := bufio.NewReader(stdin)
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

// interactTerminal has line editing, and a history that the arrow keys walk through. The terminal is raw only while a line
// is edited: while a command runs, Ctrl-C is a signal that ends the command.
func (sh *shell) interactTerminal(f *os.File) int {
	sh.screen.stderr("Welcome to ZooKeeper!\n")
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, sh.screen.out}, "")
	for !sh.quitting {
		text, err := sh.edit(f, t)
		switch {
		case errors.Is(err, io.EOF): // Ctrl-D, or Ctrl-C on the prompt
			return exitOK
		case err != nil:
			sh.screen.stderr(err.Error() + "\n")
			return exitFailed
		}
		sh.line(text)
	}
	return exitOK
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
	t.SetPrompt(sh.prompt())
	sh.screen.edit(t)
	defer sh.screen.edit(nil)
	text, err := t.ReadLine()
	if errors.Is(err, io.EOF) {
		t.Write([]byte("\n"))
	}
	return text, err
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
