package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// parseACL reads scheme:id:perms,… where perms are letters of cdrwa and an id may hold colons.
func parseACL(s string) ([]client.ACL, error) {
	var acl []client.ACL
	for entry := range strings.SplitSeq(s, ",") {
		first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
		if first == last {
			return nil, errors.Join(spoken(entry+" does not have the form scheme:id:perm"), errACL)
		}
		perms, err := parsePerms(entry[last+1:])
		if err != nil {
			return nil, err
		}
		acl = append(acl, client.ACL{Perms: perms, ID: proto.ID{Scheme: entry[:first], ID: entry[first+1 : last]}})
	}
	return acl, nil
}

// errACL is a list that zkcli does not send.
const errACL = spoken("Acl is not valid : null")

func parsePerms(s string) (client.Perm, error) {
	var perms client.Perm
	for _, letter := range s {
		switch letter {
		case 'r':
			perms |= client.PermRead
		case 'w':
			perms |= client.PermWrite
		case 'c':
			perms |= client.PermCreate
		case 'd':
			perms |= client.PermDelete
		case 'a':
			perms |= client.PermAdmin
		default:
			return 0, errors.Join(spoken("Unknown perm type: "+string(letter)), errACL)
		}
	}
	return perms, nil
}

func getACL(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	acl, st, err := sh.c.GetACL(ctx, a.path())
	if err != nil {
		return res, err
	}
	entries := []map[string]string{}
	for _, e := range acl {
		entries = append(entries, map[string]string{"scheme": e.ID.Scheme, "id": e.ID.ID, "perms": e.Perms.String()})
		res.text += fmt.Sprintf("'%s,'%s\n: %s\n", e.ID.Scheme, e.ID.ID, e.Perms)
	}
	res.field("acl", entries)
	if a.has("s") || sh.json {
		res.stat(&st)
	}
	if a.has("s") {
		res.text += statText(&st)
	}
	return res, nil
}

// setACL with -R goes on after a node that refuses, and fails at the end.
func setACL(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	acl, err := parseACL(a.rest[1])
	if err != nil {
		return res, err
	}
	if !a.has("R") {
		st, err := sh.c.SetACL(ctx, a.path(), acl, a.version())
		if err != nil {
			return res, err
		}
		res.stat(&st)
		if a.has("s") {
			res.text = statText(&st)
		}
		return res, nil
	}
	paths, _, err := sh.subtree(ctx, a.path(), false)
	if err != nil {
		return res, err
	}
	var refused []error
	for _, p := range paths {
		switch _, err := sh.c.SetACL(ctx, p, acl, a.version()); {
		case err == nil || errors.Is(err, client.ErrNoNode):
		case ctx.Err() != nil:
			return res, err
		default:
			refused = append(refused, err)
		}
	}
	res.field("changed", len(paths)-len(refused))
	return res, errors.Join(refused...)
}
