package main

import (
	"context"

	"github.com/zkd-project/zkd/pkg/client"
)

func set(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if v := a.arg(2); v != "" { // set path data version, the old form
		n, err := parseVersion(v)
		if err != nil {
			return res, &usageError{findCommand("set"), err.Error()}
		}
		a.version = n
	}
	st, err := sh.c.Set(ctx, a.path(), []byte(a.rest[1]), a.version)
	if err != nil {
		return res, err
	}
	res.stat(&st)
	if a.set['s'] {
		res.text = statText(&st)
	}
	return res, nil
}

func create(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	mode := client.Persistent
	switch {
	case a.set['c'] && (a.set['s'] || a.set['e']):
		return res, &usageError{findCommand("create"),
			"-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential."}
	case a.set['c']:
		mode = client.Container
	case a.set['e'] && a.set['s']:
		mode = client.EphemeralSequential
	case a.set['e']:
		mode = client.Ephemeral
	case a.set['s']:
		mode = client.PersistentSequential
	}
	var data []byte // nil, which get shows as null, if there is no such argument
	if len(a.rest) > 1 {
		data = []byte(a.rest[1])
	}
	acl := client.WorldACL(client.PermAll)
	if len(a.rest) > 2 {
		var err error
		if acl, err = parseACL(a.rest[2]); err != nil {
			return res, err
		}
	}
	path, err := sh.c.Create(ctx, a.path(), data, mode, acl)
	if err != nil {
		return res, err
	}
	res.field("path", path)
	res.note = "Created " + path + "\n"
	return res, nil
}

func syncNode(ctx context.Context, sh *shell, a *arguments) (result, error) {
	if err := sh.c.Sync(ctx, a.path()); err != nil {
		return result{}, err
	}
	return result{text: "Sync is OK\n"}, nil
}

func addAuth(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var auth []byte
	if len(a.rest) > 1 {
		auth = []byte(a.rest[1])
	}
	return result{}, sh.c.AddAuth(ctx, a.rest[0], auth)
}
