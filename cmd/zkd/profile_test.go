package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// trigger calls then for each line that has word.
type trigger struct {
	bytes.Buffer
	word string
	then func()
}

func (w *trigger) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(w.word)) {
		w.then()
	}
	return w.Buffer.Write(line)
}

func TestAProfileIsWholeWhenTheServerHasStopped(t *testing.T) {
	config := file(t, "", "clientPort=0\nclientPortAddress=127.0.0.1\n")
	profile := filepath.Join(t.TempDir(), "cpu")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &trigger{word: "serving clients", then: stop}
	require.Equal(t, 0, run(ctx, []string{"--config", config, "--cpu-profile", profile}, log, log), log.String())
	b, err := os.ReadFile(profile)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(b, []byte{0x1f, 0x8b}), "profiles are compressed")

	// A second run neither starts nor touches the file.
	log = &trigger{word: "serving clients", then: stop}
	require.Equal(t, 2, run(t.Context(), []string{"--config", config, "--cpu-profile", profile}, log, log))
	require.Contains(t, log.String(), "--cpu-profile: open "+profile+": file exists")
	again, err := os.ReadFile(profile)
	require.NoError(t, err)
	require.Equal(t, b, again)
}
