package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands print into testdata")

// Each file is one session: commands, and below each what it prints, first on standard output, then, marked with "2| ", on
// standard error. The exit code is shown if it is not 0.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			want, err := os.ReadFile(name)
			require.NoError(t, err)
			var got string
			synctest.Test(t, func(t *testing.T) { got = replay(t, string(want), strings.Contains(name, "json")) })
			if *rewrite {
				require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

// tagged collects both outputs in one text.
type tagged struct {
	to     *bytes.Buffer
	prefix string
}

func (w tagged) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		w.to.WriteString(strings.TrimRight(w.prefix+line, " \n") + "\n")
	}
	return len(b), nil
}

func replay(t *testing.T, script string, json bool) string {
	f := newFake()
	var out, errs, all bytes.Buffer
	cfg := config{server: "fake:2181", timeout: 30 * time.Second, json: json, dial: f.dial}
	sh := newShell(t.Context(), cfg, strings.NewReader(""), tagged{&out, ""}, tagged{&errs, "2| "})
	require.NoError(t, sh.open(cfg.server))
	skipping := false // what a command printed last time
	for line := range strings.Lines(script) {
		cmd, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case strings.HasPrefix(line, "# "):
			all.WriteString(line)
		case isCommand:
			skipping = true
			out.Reset()
			errs.Reset()
			code := sh.line(strings.TrimSuffix(cmd, "\n"))
			synctest.Wait() // for events
			fmt.Fprintf(&all, "> %s%s%s", cmd, out.String(), errs.String())
			if code != 0 {
				fmt.Fprintf(&all, "exit %d\n", code)
			}
		case !skipping:
			all.WriteString(line)
		}
	}
	out.Reset()
	errs.Reset()
	sh.close()
	all.WriteString(out.String() + errs.String())
	return all.String()
}
