package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// side reads one side of a diff: a subtree here or on other servers, or the file of an export.
func (sh *shell) side(ctx context.Context, where, auth string) ([]record, error) {
	if _, err := os.Stat(where); err == nil && !strings.HasPrefix(where, "/") {
		return sh.exported(ctx, where)
	}
	if file, ok := strings.CutPrefix(where, "file:"); ok {
		return sh.exported(ctx, file)
	}
	if !strings.Contains(where, "/") { // no node, here or elsewhere
		return sh.exported(ctx, where)
	}
	c, path, done, err := sh.elsewhere(ctx, where, auth)
	if err != nil {
		return nil, err
	}
	defer done()
	records, _, err := snapshotOf(ctx, sh, c, path)
	return records, onServers(where, err)
}

// diff prints "- path" for a node that only the first side has, "+ path" for one that only the second has, "~ path" for one
// that differs.
func diff(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	one, err := sh.side(ctx, a.arg(0), a.str("auth"))
	if err != nil {
		return res, err
	}
	other, err := sh.side(ctx, a.arg(1), a.str("auth"))
	if err != nil {
		return res, err
	}
	differences := compare(one, other, a.has("a"))
	fields := []map[string]any{}
	for _, d := range differences {
		color := map[byte]string{'-': red, '+': green, '~': yellow}[d.sign]
		res.text += sh.screen.paint(color, fmt.Sprintf("%c %s", d.sign, d.path)) + d.detail + "\n"
		fields = append(fields, map[string]any{"change": string(d.sign), "path": d.path, "detail": strings.TrimSpace(d.detail)})
	}
	res.field("differences", fields)
	if len(differences) > 0 {
		return res, &negative{plural(int64(len(differences)), "difference")}
	}
	return res, nil
}

type difference struct {
	sign         byte
	path, detail string
}

// compare walks two sorted lists of records.
func compare(one, other []record, acls bool) []difference {
	var out []difference
	for len(one) > 0 || len(other) > 0 {
		order := 0
		switch {
		case len(one) == 0:
			order = 1
		case len(other) == 0:
			order = -1
		default:
			order = comparePaths(one[0].Path, other[0].Path)
		}
		switch {
		case order < 0:
			out = append(out, difference{'-', one[0].Path, ""})
			one = one[1:]
		case order > 0:
			out = append(out, difference{'+', other[0].Path, ""})
			other = other[1:]
		default:
			if detail := contrast(&one[0], &other[0], acls); detail != "" {
				out = append(out, difference{'~', one[0].Path, detail})
			}
			one, other = one[1:], other[1:]
		}
	}
	return out
}

// contrast says how two nodes differ, "" if they do not.
func contrast(a, b *record, acls bool) string {
	detail := ""
	if x, y := a.data(), b.data(); string(x) != string(y) || (x == nil) != (y == nil) {
		detail += "  data " + brief(x) + " → " + brief(y)
	}
	if a.Container != b.Container || a.TTL != b.TTL {
		detail += "  kind"
	}
	if acls && fmt.Sprint(a.ACL) != fmt.Sprint(b.ACL) {
		detail += "  acl"
	}
	return detail
}

func brief(data []byte) string {
	const short = 40
	switch {
	case data == nil:
		return "null"
	case len(data) > short || !utf8.Valid(data):
		return human(int64(len(data)))
	}
	return fmt.Sprintf("%q", data)
}
