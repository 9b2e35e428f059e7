package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/pkg/client"
)

// A server of Apache's that does not know an operation cuts the connection after it has said so. So a command that can do
// without the operation asks first.

// The versions of ZooKeeper, all 3.x, in which what not every server knows came.
const (
	knowsSubtrees = 6 // persistent watches, counts of descendants, a session's ephemerals
	knowsWhoAmI   = 7
)

// olderThan reports whether the session's server says that it is of a ZooKeeper before 3.minor. One that does not tell is
// taken for a new one.
func (sh *shell) olderThan(ctx context.Context, minor int) bool {
	addr := sh.c.Server()
	if addr == "" {
		return false
	}
	if _, known := sh.minors[addr]; !known {
		ctx, cancel := context.WithTimeout(ctx, rolePatience)
		defer cancel()
		answer, _ := fourLetters(ctx, sh.cfg.dialer(), addr, "srvr")
		if sh.minors == nil {
			sh.minors = make(map[string]int)
		}
		sh.minors[addr] = minorVersion(parseWords(answer, ": ")["Zookeeper version"])
	}
	return sh.minors[addr] < minor
}

// newest is the minor version of a server that does not say that it is Apache's.
const newest = 1 << 30

// minorVersion reads "3.6.4--d65253dc, built on …".
func minorVersion(version string) int {
	rest, ok := strings.CutPrefix(version, "3.")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil {
		return newest
	}
	return n
}

// countDescendants counts what lies below path.
func (sh *shell) countDescendants(ctx context.Context, path string) (int, error) {
	if !sh.olderThan(ctx, knowsSubtrees) {
		return sh.c.CountDescendants(ctx, path)
	}
	nodes, err := walk(ctx, sh, sh.c, path, wish{depth: everything})
	return len(nodes) - 1, err
}

// ephemerals lists this session's ephemeral nodes. On an old server it looks at every node, because prefix need not be one.
func (sh *shell) ephemerals(ctx context.Context, prefix string) ([]string, error) {
	if !sh.olderThan(ctx, knowsSubtrees) {
		return sh.c.Ephemerals(ctx, prefix)
	}
	nodes, err := walk(ctx, sh, sh.c, "/", wish{depth: everything})
	paths := []string{}
	for _, n := range nodes {
		if n.stat.EphemeralOwner == sh.c.SessionID() && strings.HasPrefix(n.path, prefix) {
			paths = append(paths, n.path)
		}
	}
	return paths, err
}

// watchTree is a stream of all changes below path, of none if the server is too old to tell.
func (sh *shell) watchTree(ctx context.Context, path string) (events <-chan client.Event, stop func(), err error) {
	if sh.olderThan(ctx, knowsSubtrees) {
		return nil, func() {}, nil
	}
	s, err := sh.c.AddWatch(ctx, path, client.WatchTree)
	switch {
	case errors.Is(err, client.ErrUnimplemented):
		return nil, func() {}, nil
	case err != nil:
		return nil, nil, err
	}
	return s.C(), s.Stop, nil
}
