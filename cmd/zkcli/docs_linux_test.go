package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
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
