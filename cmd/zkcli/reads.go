package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/pkg/client"
)

func get(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if a.arg(1) != "" {
		res.note = oldForm("get path [watch]", "get [-s] [-w] path")
		a.values["w"] = "true"
	}
	data, st, err := sh.read(ctx, a.path(), a.has("w"))
	if err != nil {
		return res, err
	}
	res.field("data", data)
	if a.has("s") || sh.json {
		res.stat(&st)
	}
	switch {
	case a.has("out") && a.str("out") != "-":
		return res, writeFile(ctx, a.str("out"), data)
	case a.has("raw"), a.has("out"):
		res.text, res.asIs = string(data), true
		return res, nil
	case a.has("b"):
		res.text = base64.StdEncoding.EncodeToString(data) + "\n"
	case a.has("x"):
		res.text = hexTable(data)
	default:
		res.text = dataText(data)
	}
	if a.has("s") {
		res.text += statText(&st)
	}
	return res, nil
}

// hexTable shows bytes as zkCli.sh does.
func hexTable(data []byte) string {
	const perLine = 16
	const edge = "+--------+-------------------------------------------------+----------------+\n"
	var b strings.Builder
	b.WriteString("         +-------------------------------------------------+\n" +
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n" + edge)
	for at := 0; at < len(data); at += perLine {
		part := data[at:min(at+perLine, len(data))]
		fmt.Fprintf(&b, "|%08x| %-47s |%-16s|\n", at, fmt.Sprintf("% x", part), printable(part))
	}
	return b.String() + edge
}

// printable has a dot for everything that is not a visible ASCII character or a blank.
func printable(data []byte) string {
	text := slices.Clone(data)
	for i, c := range text {
		if c < ' ' || c > '~' {
			text[i] = '.'
		}
	}
	return string(text)
}

// read is Get or GetW, whose watch the shell then follows.
func (sh *shell) read(ctx context.Context, path string, watch bool) ([]byte, client.Stat, error) {
	if !watch {
		return sh.c.Get(ctx, path)
	}
	data, st, w, err := sh.c.GetW(ctx, path)
	sh.follow(w)
	return data, st, err
}

func (sh *shell) children(ctx context.Context, path string, watch bool) ([]string, client.Stat, error) {
	var names []string
	var st client.Stat
	var err error
	if watch {
		var w *client.Watch
		names, st, w, err = sh.c.ChildrenW(ctx, path)
		sh.follow(w)
	} else {
		names, st, err = sh.c.Children(ctx, path)
	}
	slices.Sort(names)
	return names, st, err
}

func ls(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if a.arg(1) != "" {
		res.note = oldForm("ls path [watch]", "ls [-w] path")
		a.values["w"] = "true"
	}
	if a.has("R") {
		paths, refused, err := sh.subtree(ctx, a.path(), a.has("w"))
		if err != nil {
			return res, err
		}
		res.field("paths", paths)
		res.text = strings.Join(paths, "\n") + "\n"
		return res, errors.Join(refused...)
	}
	names, st, err := sh.children(ctx, a.path(), a.has("w"))
	if err != nil {
		return res, err
	}
	res.field("children", append([]string{}, names...))
	res.text = "[" + strings.Join(names, ", ") + "]\n"
	if a.has("s") {
		res.text += statText(&st)
	}
	if a.has("s") || sh.json {
		res.stat(&st)
	}
	return res, nil
}

func stat(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if a.arg(1) != "" {
		res.note = oldForm("stat path [watch]", "stat [-w] path")
		a.values["w"] = "true"
	}
	var st client.Stat
	var found bool
	var err error
	if a.has("w") {
		var w *client.Watch
		st, found, w, err = sh.c.ExistsW(ctx, a.path())
		sh.follow(w)
	} else {
		st, found, err = sh.c.Exists(ctx, a.path())
	}
	if err != nil {
		return res, err
	}
	if !found {
		return res, noNode(a.path())
	}
	res.stat(&st)
	res.text = statText(&st)
	return res, nil
}

func getAllChildrenNumber(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	n, err := sh.countDescendants(ctx, a.path())
	if err != nil {
		return res, err
	}
	res.field("number", n)
	res.text = fmt.Sprintln(n)
	return res, nil
}

func getEphemerals(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	prefix := "/"
	if a.arg(0) != "" {
		prefix = a.path()
	}
	paths, err := sh.ephemerals(ctx, prefix)
	if err != nil {
		return res, err
	}
	res.field("ephemerals", paths)
	res.text = "[" + strings.Join(paths, ", ") + "]\n"
	return res, nil
}
