package main

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/zkd-project/zkd/bench/load"
)

// benchCommand measures the servers. Its flags are bench/load's own. The load goes through sockets of its own and not
// through the shell's session, so that the client's cost does not hide the servers'.
func benchCommand(ctx context.Context, sh *shell, a *arguments) (result, error) {
	res := result{quiet: true}
	server := cmp.Or(sh.server, sh.cfg.server)
	switch {
	case sh.cfg.usesTLS():
		return res, spoken("bench speaks no TLS")
	case strings.Contains(server, "/"):
		return res, wrongUsage("bench", "bench knows no chroot: name servers without one, and the node to work below with --root")
	}
	words := a.rest
	if sh.json {
		words = append(words, "-json")
	}
	res.code = load.Command(ctx, "zkcli bench", serversOf(server), words, writerFunc(sh.screen.stdout), writerFunc(sh.screen.stderr))
	return res, nil
}

// writerFunc is a function of the screen as a writer.
type writerFunc func(text string)

var _ io.Writer = writerFunc(nil)

func (f writerFunc) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}
