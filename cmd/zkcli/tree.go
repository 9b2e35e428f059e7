package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
)

// size is what a subtree weighs.
type size struct{ nodes, bytes int64 }

// sizes adds up every subtree of nodes, by path.
func sizes(nodes []walked) map[string]size {
	sum := make(map[string]size, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- { // children come before their parents
		n := nodes[i]
		s := sum[n.path]
		s.nodes++
		s.bytes += int64(n.stat.DataLength)
		sum[n.path] = s
		if i > 0 {
			up := sum[parentOf(n.path)]
			sum[parentOf(n.path)] = size{up.nodes + s.nodes, up.bytes + s.bytes}
		}
	}
	return sum
}

func parentOf(p string) string { return path.Dir(p) }

// tree draws a subtree; everything in it is counted, even what is too deep to be drawn.
func tree(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	depth := int(a.number("d", everything))
	nodes, err := walk(ctx, sh, sh.c, a.path(), wish{depth: everything})
	if err != nil {
		return res, err
	}
	sum := sizes(nodes)
	var b strings.Builder
	fields := []map[string]any{}
	open := []bool{} // by level: more siblings follow
	for i, n := range nodes {
		level := levelBelow(a.path(), n.path)
		if depth >= 0 && level > depth {
			continue
		}
		s := sum[n.path]
		fields = append(fields, map[string]any{"path": n.path, "nodes": s.nodes, "bytes": s.bytes, "dataLength": n.stat.DataLength,
			"ephemeral": isEphemeral(&n.stat)})
		if level == 0 {
			b.WriteString(sh.screen.paint(bold, n.path))
		} else {
			open = append(open[:level-1], hasSibling(nodes, i, level, a.path()))
			for _, more := range open[:level-1] {
				b.WriteString(map[bool]string{true: "│   ", false: "    "}[more])
			}
			b.WriteString(map[bool]string{true: "├── ", false: "└── "}[open[level-1]])
			b.WriteString(sh.paintNode(&n.stat, path.Base(n.path)))
		}
		b.WriteString(sh.screen.paint(faint, "  "+weight(&n, s)) + "\n")
	}
	res.field("nodes", fields)
	res.text = b.String()
	return res, refusals(nodes)
}

// paintNode shows ephemerals and containers in colours of their own.
func (sh *shell) paintNode(st *client.Stat, name string) string {
	switch {
	case isEphemeral(st):
		return sh.screen.paint(yellow, name)
	case st.NumChildren > 0:
		return sh.screen.paint(blue, name)
	}
	return name
}

func weight(n *walked, s size) string {
	var parts []string
	if n.stat.DataLength > 0 {
		parts = append(parts, human(int64(n.stat.DataLength)))
	}
	if s.nodes > 1 {
		parts = append(parts, fmt.Sprintf("%s below, %s in all", plural(s.nodes-1, "node"), human(s.bytes)))
	}
	if isEphemeral(&n.stat) {
		parts = append(parts, "ephemeral of "+hex(n.stat.EphemeralOwner))
	}
	if n.err != nil {
		parts = append(parts, "may not be read")
	}
	if len(parts) == 0 {
		return "empty"
	}
	return strings.Join(parts, ", ")
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// human is a number of bytes in three digits.
func human(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 3 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.3g %s", f, []string{"KiB", "MiB", "GiB", "TiB"}[unit])
}

func levelBelow(root, p string) int {
	if p == root {
		return 0
	}
	return strings.Count(strings.TrimPrefix(p, strings.TrimSuffix(root, "/")), "/")
}

// hasSibling reports whether another node of the same parent follows nodes[i].
func hasSibling(nodes []walked, i, level int, root string) bool {
	for _, n := range nodes[i+1:] {
		switch l := levelBelow(root, n.path); {
		case l == level:
			return true
		case l < level:
			return false
		}
	}
	return false
}

// isEphemeral is false for containers and nodes with a time to live, which use the same field.
func isEphemeral(st *client.Stat) bool {
	_, special := specialOwner(st)
	return st.EphemeralOwner != 0 && !special
}

// The owners that are no sessions.
const (
	containerOwner int64 = -1 << 63
	ttlMask        int64 = 0xFFFFFFFFFF
)

// specialOwner tells a node's time to live, 0 for a container, if it is one of the two.
func specialOwner(st *client.Stat) (ttl time.Duration, special bool) {
	switch owner := st.EphemeralOwner; {
	case owner == containerOwner:
		return 0, true
	case uint64(owner)>>56 == 0xFF:
		return time.Duration(owner&ttlMask) * time.Millisecond, true
	}
	return 0, false
}

// refusals joins the errors of nodes that may not be read.
func refusals(nodes []walked) error {
	var errs []error
	for _, n := range nodes {
		if n.err != nil {
			errs = append(errs, n.err)
		}
	}
	return errors.Join(errs...)
}

// du shows what the node and each of its descendants down to a depth, 1 unless given, weighs.
func du(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	nodes, err := walk(ctx, sh, sh.c, a.path(), wish{depth: everything})
	if err != nil {
		return res, err
	}
	sum := sizes(nodes)
	var b strings.Builder
	fields := []map[string]any{}
	fmt.Fprintf(&b, "%10s %12s  %s\n", "NODES", "BYTES", "PATH")
	for _, n := range nodes {
		if levelBelow(a.path(), n.path) > int(a.number("d", 1)) {
			continue
		}
		s := sum[n.path]
		fmt.Fprintf(&b, "%10d %12d  %s\n", s.nodes, s.bytes, n.path)
		fields = append(fields, map[string]any{"path": n.path, "nodes": s.nodes, "bytes": s.bytes})
	}
	res.field("subtrees", fields)
	res.text = b.String()
	return res, refusals(nodes)
}

// find lists the nodes that match everything that was asked.
func find(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	glob := a.arg(1)
	if _, err := path.Match(glob, ""); err != nil {
		return res, wrongUsage("find", "bad glob: "+glob)
	}
	nodes, err := walk(ctx, sh, sh.c, a.path(), wish{depth: int(a.number("d", everything))})
	if err != nil {
		return res, err
	}
	paths := []string{}
	for _, n := range nodes {
		subject := path.Base(n.path)
		if strings.Contains(glob, "/") {
			subject = n.path
		}
		match, _ := path.Match(glob, subject)
		switch {
		case glob != "" && !match,
			a.has("e") && !isEphemeral(&n.stat),
			a.has("larger") && int64(n.stat.DataLength) <= a.number("larger", 0),
			a.has("older") && time.Since(n.stat.Mtime) < a.duration("older", 0):
			continue
		}
		paths = append(paths, n.path)
		res.text += n.path + "\n"
	}
	res.field("paths", paths)
	return res, refusals(nodes)
}
