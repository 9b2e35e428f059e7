package main

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/zkd-project/zkd/bench/load"
)

// benchCommand measures the servers. Its flags are bench/load's own. The load goes through sockets of its own, opened as the
// shell's are, and not through the shell's session, so that the client's cost does not hide the servers'.
func benchCommand(ctx context.Context, sh *shell, a *arguments) (result, error) {
	res := result{quiet: true}
	server := cmp.Or(sh.server, sh.cfg.server)
	if sh.cfg.usesTLS() {
		if _, err := sh.cfg.tlsConfig(); err != nil {
			return res, err // once, not once for each connection
		}
	}
	_, chroot, _ := strings.Cut(server, "/")
	if chroot = strings.TrimSuffix(chroot, "/"); chroot != "" {
		chroot = "/" + chroot
	}
	words := a.rest
	if sh.json {
		words = append(words, "-json")
	}
	cfg := load.Config{Servers: serversOf(server), Chroot: chroot, Dial: sh.cfg.dialer()}
	res.code = load.Command(ctx, "zkcli bench", cfg, words, writerFunc(sh.screen.stdout), writerFunc(sh.screen.stderr))
	return res, nil
}

// writerFunc is a function of the screen as a writer.
type writerFunc func(text string)

var _ io.Writer = writerFunc(nil)

func (f writerFunc) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}
