package main

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

const (
	defaultBatch  = 1000      // nodes that deleteall removes in one transaction
	maxBatchBytes = 512 << 10 // of paths in one transaction, to stay below what a server takes
)

// errSubtree says that deleteall left something.
const errSubtree = spoken("Failed to delete some node(s) in the subtree!")

// subtree lists path and everything below it, parents first, siblings by name. What is deleted meanwhile is left out.
// What lies below a node that may not be read stays unknown; refused has an error for each of these.
func (sh *shell) subtree(ctx context.Context, path string, watch bool) (all []string, refused []error, err error) {
	stack := []string{path}
	for len(stack) > 0 {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		names, _, err := sh.children(ctx, p, watch)
		switch {
		case errors.Is(err, client.ErrNoNode) && p != path:
			continue
		case errors.Is(err, client.ErrNoAuth) && p != path:
			refused = append(refused, err)
		case err != nil:
			return nil, nil, err
		}
		all = append(all, p)
		for i := len(names) - 1; i >= 0; i-- {
			stack = append(stack, join(p, names[i]))
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
	if v := a.arg(1); v != "" {
		res.note = oldForm("delete path [version]", "delete [-v version] path")
		n, err := parseVersion(v)
		if err != nil {
			return res, &usageError{findCommand("delete"), err.Error()}
		}
		a.version = n
	}
	return res, sh.c.Delete(ctx, a.path(), a.version)
}

// deleteAll removes a subtree, leaves first, in transactions of a batch each.
func deleteAll(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if a.batch < 1 {
		return res, &usageError{findCommand("deleteall"), "batch size must be positive"}
	}
	if proto.IsReserved(a.path()) {
		return res, errSubtree // it would take what lies below and then fail
	}
	paths, _, err := sh.subtree(ctx, a.path(), false) // a delete tells more about what was refused
	if err != nil {
		return res, err
	}
	res.field("deleted", len(paths))
	for len(paths) > 0 {
		var m client.Multi
		size := 0
		for len(paths) > 0 && m.Len() < a.batch && size < maxBatchBytes {
			last := paths[len(paths)-1]
			paths = paths[:len(paths)-1]
			m.Delete(last, client.AnyVersion)
			size += len(last)
		}
		if err := sh.c.Multi(ctx, &m); err != nil {
			var which *client.MultiError
			if errors.As(err, &which) {
				return result{}, errors.Join(errSubtree, explain(which.Path, which.Err))
			}
			return result{}, err
		}
	}
	return res, nil
}
