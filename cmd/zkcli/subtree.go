package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

const (
	defaultBatch  = 1000      // nodes that deleteall removes in one transaction
	maxBatchBytes = 512 << 10 // of paths in one transaction, to stay below what a server takes
)

// errSubtree says that deleteall left something.
const errSubtree = spoken("Failed to delete some node(s) in the subtree!")

// walked is a node that walk found.
type walked struct {
	path string
	stat client.Stat
	data []byte
	acl  []client.ACL
	err  error // why its children are not known
}

// wish is what walk asks about each node beyond its children.
type wish struct {
	data, acl, watch bool
	depth            int // levels below the root, -1 for all
}

const everything = -1

// walk lists root and what lies below it, parents first, siblings by name. Requests of one level travel together. What is
// deleted meanwhile is left out; a node that may not be read is there with an error.
func walk(ctx context.Context, sh *shell, c *client.Client, root string, w wish) ([]walked, error) {
	var all []walked
	level := []string{root}
	prog := sh.progress("read", 0)
	defer prog.end()
	for depth := 0; len(level) > 0 && (w.depth == everything || depth <= w.depth); depth++ {
		found, next, err := walkLevel(ctx, sh, c, level, w)
		if err != nil {
			return nil, err
		}
		if depth == 0 && len(found) == 0 {
			return nil, noNode(root)
		}
		prog.add(len(found))
		all = append(all, found...)
		level = next
	}
	slices.SortFunc(all, func(a, b walked) int { return comparePaths(a.path, b.path) })
	return all, nil
}

// comparePaths puts parents before children and everything below a node before its next sibling.
func comparePaths(a, b string) int {
	slash := func(s string) string { return strings.ReplaceAll(strings.TrimSuffix(s, "/"), "/", "\x00") }
	return strings.Compare(slash(a), slash(b))
}

func walkLevel(ctx context.Context, sh *shell, c *client.Client, level []string, w wish) (found []walked, next []string, err error) {
	b := c.Batch(ctx)
	listed, got, acls := make([]*client.Listed, len(level)), make([]*client.Got, len(level)), make([]*client.Permitted, len(level))
	for i, path := range level {
		if w.watch {
			listed[i] = sh.watchedList(ctx, path)
		} else {
			listed[i] = b.Children(path)
		}
		if w.data {
			got[i] = b.Get(path)
		}
		if w.acl {
			acls[i] = b.GetACL(path)
		}
	}
	if err := b.Wait(); err != nil {
		return nil, nil, err
	}
	for i, path := range level {
		n := walked{path: path, stat: listed[i].Stat, err: listed[i].Err}
		if w.data {
			n.data = got[i].Data
			n.err = cmp.Or(n.err, got[i].Err)
		}
		if w.acl {
			n.acl = acls[i].ACL
			n.err = cmp.Or(n.err, acls[i].Err)
		}
		switch {
		case errors.Is(n.err, client.ErrNoNode):
			continue
		case n.err != nil && !errors.Is(n.err, client.ErrNoAuth):
			return nil, nil, n.err
		}
		found = append(found, n)
		for _, name := range listed[i].Children {
			next = append(next, join(path, name))
		}
	}
	return found, next, nil
}

// watchedList is a listing whose watch the shell follows.
func (sh *shell) watchedList(ctx context.Context, path string) *client.Listed {
	names, st, err := sh.children(ctx, path, true)
	return &client.Listed{Children: names, Stat: st, Err: err}
}

// subtree lists path and everything below it, parents first, siblings by name. What lies below a node that may not be read
// stays unknown; refused has an error for each of these.
func (sh *shell) subtree(ctx context.Context, path string, watch bool) (all []string, refused []error, err error) {
	nodes, err := walk(ctx, sh, sh.c, path, wish{watch: watch, depth: everything})
	if err != nil {
		return nil, nil, err
	}
	if nodes[0].err != nil {
		return nil, nil, nodes[0].err
	}
	for _, n := range nodes {
		all = append(all, n.path)
		if n.err != nil {
			refused = append(refused, n.err)
		}
	}
	return all, refused, nil
}

func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

func deleteNode(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	number := a.version()
	if v := a.arg(1); v != "" {
		res.note = oldForm("delete path [version]", "delete [-v version] path")
		n, err := parseVersion(v)
		if err != nil {
			return res, wrongUsage("delete", err.Error())
		}
		number = n
	}
	return res, sh.c.Delete(ctx, a.path(), number)
}

// deleteAll removes a subtree, leaves first, in transactions of a batch each.
func deleteAll(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	batch := int(a.number("b", defaultBatch))
	if batch < 1 {
		return res, wrongUsage("deleteall", "batch size must be positive")
	}
	if proto.IsReserved(a.path()) {
		return res, errSubtree // it would take what lies below and then fail
	}
	paths, _, err := sh.subtree(ctx, a.path(), false) // a delete tells more about what was refused
	if err != nil {
		return res, err
	}
	res.field("deleted", len(paths))
	prog := sh.progress("deleted", len(paths))
	defer prog.end()
	all := len(paths)
	for len(paths) > 0 {
		var m client.Multi
		size, gone := 0, all-len(paths)
		for len(paths) > 0 && m.Len() < batch && size < maxBatchBytes {
			last := paths[len(paths)-1]
			paths = paths[:len(paths)-1]
			m.Delete(last, client.AnyVersion)
			size += len(last)
		}
		if err := sh.c.Multi(ctx, &m); err != nil {
			var which *client.MultiError
			if errors.As(err, &which) {
				return result{}, partly(errors.Join(errSubtree, explain(which.Path, which.Err)), "were deleted", gone, all)
			}
			return result{}, partly(err, "were deleted", gone, all)
		}
		prog.add(m.Len())
	}
	return res, nil
}
