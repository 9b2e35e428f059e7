package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxPast is how many lines the history remembers.
const maxPast = 1000

// pastLines is the history: the lines of this run, numbered as the prompt numbers them, behind those of earlier runs, which
// are in a file. It is also the terminal's history.
type pastLines struct {
	file    string // "" for none
	earlier []string
	lines   []string // of this run; the older ones are forgotten, but keep their numbers
}

// defaultHistory is where the history is kept.
func defaultHistory() string {
	if file, given := os.LookupEnv("ZKCLI_HISTORY"); given {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".zkcli_history")
}

// loadHistory reads the file when it is first needed; a missing one is empty.
func loadHistory(file string) *pastLines { return &pastLines{file: file} }

// read reads the file, for an interactive run.
func (p *pastLines) read() {
	f, err := os.Open(p.file)
	if err != nil {
		return
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p.earlier = append(p.earlier, sc.Text())
	}
	p.earlier = p.earlier[max(0, len(p.earlier)-maxPast):]
}

// write writes the file, for an interactive run. What addauth was given stays out of it.
func (p *pastLines) write() error {
	if p.file == "" {
		return nil
	}
	p.earlier = nil
	p.read() // what other shells have written meanwhile stays
	all := append([]string{}, p.earlier...)
	for _, line := range p.lines {
		if line != "" && !strings.HasPrefix(strings.TrimSpace(line), "addauth") {
			all = append(all, line)
		}
	}
	all = all[max(0, len(all)-maxPast):]
	temp := p.file + ".new"
	if err := os.WriteFile(temp, []byte(strings.Join(append(all, ""), "\n")), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, p.file)
}

func (p *pastLines) add(line string) {
	p.lines = append(p.lines, line)
	if len(p.lines) > maxPast {
		p.lines[len(p.lines)-maxPast-1] = "" // keep the numbers, not the text
	}
}

// count is the number that the prompt shows.
func (p *pastLines) count() int { return len(p.lines) }

// Add does nothing: the shell adds what it carries out.
func (p *pastLines) Add(string) {}

// Len is for the terminal.
func (p *pastLines) Len() int { return len(p.earlier) + len(p.lines) }

// At returns a line, 0 being the latest.
func (p *pastLines) At(i int) string {
	if i < len(p.lines) {
		return p.lines[len(p.lines)-1-i]
	}
	return p.earlier[len(p.earlier)-1-(i-len(p.lines))]
}

// search returns the latest line that holds text and is older than the first skip hits.
func (p *pastLines) search(text string, skip int) (string, bool) {
	last := ""
	for i := range p.Len() {
		line := p.At(i)
		if line == "" || line == last || !strings.Contains(line, text) {
			continue
		}
		last = line
		if skip == 0 {
			return line, true
		}
		skip--
	}
	return "", false
}

// history shows the last commands with the numbers that the prompt gave them.
func history(_ context.Context, sh *shell, _ *arguments) (result, error) {
	const shown = 11
	var res result
	var b strings.Builder
	first := max(sh.past.count()-shown, 0)
	for i, line := range sh.past.lines[first:] {
		fmt.Fprintf(&b, "%d - %s\n", first+i, line)
	}
	res.field("history", append([]string{}, sh.past.lines[first:]...))
	res.text = b.String()
	return res, nil
}

// redo carries out a command of the history again, which takes the place of the redo in it.
func redo(_ context.Context, sh *shell, a *arguments) (result, error) {
	var i int
	if n, err := fmt.Sscanf(a.arg(0)+" ", "%d ", &i); n != 1 || err != nil {
		return result{}, wrongUsage("redo", "Not a number: "+a.arg(0))
	}
	lines := sh.past.lines
	if i < 0 || i >= len(lines)-1 || lines[i] == "" {
		return result{}, spoken("Command index out of range")
	}
	lines[len(lines)-1] = lines[i]
	words, err := split(lines[i])
	if err != nil {
		return result{}, err
	}
	return result{code: sh.execute(words), quiet: true}, nil
}
