package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs is the document whose sessions TestDocs carries out.
const docs = "../../docs/zkcli.md"

// The sessions in the document are what the commands print, apart from what differs from run to run.
func TestDocs(t *testing.T) {
	if os.Getenv("ZKD_LIVE_SERVERS") != "" {
		t.Skip("the sessions are zkd's")
	}
	file := filepath.Join(sourceDir, docs)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	one := chroot(t)
	_, root, _ := strings.Cut(one, "/")
	server := liveServers(t) + "/" + root // status shows all of them
	var out bytes.Buffer
	sh := newShell(t.Context(), config{server: server, timeout: 10 * time.Second}, strings.NewReader(""), &out, &out)
	require.NoError(t, sh.open(server))
	defer sh.close()
	require.Equal(t, exitOK, sh.line("sync /"))
	blocks := regexp.MustCompile("(?ms)(^<!-- keys\n(.*?)-->\n)?^```(zkcli|zkcli-json|terminal)\n(.*?)^```$")
	got := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
		parts := blocks.FindStringSubmatch(block)
		session := ""
		if parts[3] == "terminal" {
			session = recordSession(t, one, parts[2])
		} else {
			sh.json = parts[3] == "zkcli-json"
			session = rerun(sh, &out, parts[4])
		}
		session = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(strings.NewReplacer(server, "127.0.0.1:2181", one, "127.0.0.1:2181").Replace(session), "127.0.0.1:2181")
		if vague(session) == vague(parts[4]) {
			session = parts[4] // the same session on another day
		}
		return parts[1] + "```" + parts[3] + "\n" + session + "```"
	})
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	require.Equal(t, string(text), got)
}

func rerun(sh *shell, out *bytes.Buffer, block string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		if cmd, ok := strings.CutPrefix(line, "> "); ok {
			out.Reset()
			sh.line(strings.TrimSuffix(cmd, "\n"))
			b.WriteString(line + out.String())
		}
	}
	return b.String()
}

// vague takes numbers, times, roles and white space out of a session.
func vague(s string) string {
	s = regexp.MustCompile(`leader|follower|standalone`).ReplaceAllString(s, "ROLE")
	s = regexp.MustCompile(`0x[0-9a-f]+|"20[^"]*Z"|zkd [^ \n]*|\d[\d./]*`).ReplaceAllString(s, "N")
	return regexp.MustCompile(`[ \t]+`).ReplaceAllString(s, " ")
}

// The recorded help of zkCli.sh 3.9.5 names no command and no flag that we do not have in the same words, and the table in
// the document has all of them. test/foreign/zkcli.sh compares the recording with the shell itself.
func TestEveryCommandOfTheOriginal(t *testing.T) {
	help, err := os.ReadFile(filepath.Join(sourceDir, "testdata/zkCli.sh/help-3.9.5.txt"))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(sourceDir, docs))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Against zkCli.sh 3.9")
	require.True(t, found)
	listed := map[string]string{} // flags and verdict by command
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			require.Regexp(t, "^ (same|better|here|---)|^---", cells[3], line)
			listed[strings.TrimSpace(cells[1])] = cells[2]
		}
	}
	flag := regexp.MustCompile(`(?:^|[\[| ])(-[a-zA-Z][a-z-]*)`)
	names := 0
	for line := range strings.Lines(string(help)) {
		line = strings.TrimRight(line, "\n")
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "\t"), " ")
		if !strings.HasPrefix(line, "\t") {
			name = "options of the program"
		} else {
			c := findCommand(name)
			require.NotNil(t, c, name)
			require.Equal(t, strings.TrimSpace(name+" "+rest), strings.TrimSpace(c.usageLine()))
		}
		names++
		flags, ok := listed[name]
		require.True(t, ok, "the table has no %s", name)
		rest, _, _ = strings.Cut(rest, "#")
		for _, m := range flag.FindAllStringSubmatch(rest, -1) {
			require.Contains(t, flags, "`"+m[1]+"`", name)
			if c := findCommand(name); c != nil {
				require.True(t, c.knows(strings.TrimPrefix(m[1], "-")), "%s %s", name, m[1])
			}
		}
	}
	require.Equal(t, len(classicCommands())+1, names)
}

func (c *command) knows(flag string) bool {
	return slices.ContainsFunc(c.options, func(o option) bool { return o.letter == flag || o.long == flag })
}

// The manual page in docs is the one that the table gives.
func TestManPage(t *testing.T) {
	file := filepath.Join(sourceDir, "../../docs/zkcli.1")
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(man()), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), man())
	for _, c := range commands() {
		require.Contains(t, man(), ".SS "+strings.NewReplacer("-", `\-`).Replace(c.name))
		require.NotEmpty(t, c.summary, c.name)
		require.False(t, strings.HasSuffix(c.summary, "."), c.name)
		for _, o := range c.options {
			require.NotEmpty(t, o.help, c.name)
		}
	}
}
