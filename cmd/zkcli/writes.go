package main

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"time"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// payload is the data of a create or set: from an argument, a file or standard input. given is false if there is none.
func (sh *shell) payload(ctx context.Context, a *arguments, name string) (data []byte, given bool, err error) {
	switch {
	case a.has("file") && len(a.rest) > 1 && name == "set":
		return nil, false, wrongUsage(name, "data and --file exclude each other")
	case a.has("file") && a.str("file") == "-":
		data, err = io.ReadAll(sh.data)
	case a.has("file"):
		data, err = readFile(ctx, a.str("file"))
	case len(a.rest) > 1:
		data = []byte(a.rest[1])
	default:
		return nil, false, nil
	}
	if err == nil && a.has("b") {
		data, err = base64.StdEncoding.DecodeString(string(data))
	}
	if data == nil {
		data = []byte{}
	}
	return data, true, err
}

func set(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	data, given, err := sh.payload(ctx, a, "set")
	switch {
	case err != nil:
		return res, err
	case !given:
		return res, wrongUsage("set", "")
	}
	number := a.version()
	if v := a.arg(2); v != "" { // set path data version, the old form
		if number, err = parseVersion(v); err != nil {
			return res, wrongUsage("set", err.Error())
		}
	}
	st, err := sh.c.Set(ctx, a.path(), data, number)
	if err != nil {
		return res, err
	}
	res.stat(&st)
	if a.has("s") {
		res.text = statText(&st)
	}
	return res, nil
}

func create(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	mode, fault := createMode(a)
	if fault != "" {
		return res, wrongUsage("create", fault)
	}
	data, given, err := sh.payload(ctx, a, "create") // nil, which get shows as null, if there is none
	if err != nil {
		return res, err
	}
	acl := client.WorldACL(client.PermAll)
	at := 2
	if a.has("file") {
		at = len(a.rest) - 1 // create --file F path [acl]
	}
	if text := a.arg(at); at > 0 && text != "" {
		if acl, err = parseACL(text); err != nil {
			return res, err
		}
	}
	if a.has("p") && a.path() != "/" {
		if err := sh.c.CreateAll(ctx, proto.Parent(a.path()), nil); err != nil {
			return res, err
		}
	}
	var path string
	if mode.TTL() {
		path, _, err = sh.c.CreateTTL(ctx, a.path(), data, mode, time.Duration(a.number("t", 0))*time.Millisecond, acl)
	} else {
		path, err = sh.c.Create(ctx, a.path(), data, mode, acl)
	}
	if a.has("p") && !given && errors.Is(err, client.ErrNodeExists) {
		res.note = a.path() + " is there already\n"
		return res, nil
	}
	if err != nil {
		return res, err
	}
	res.field("path", path)
	res.note = "Created " + path + "\n"
	return res, nil
}

// createMode returns what is wrong with the options, "" if nothing is.
func createMode(a *arguments) (mode client.CreateMode, fault string) {
	s, e, c, t := a.has("s"), a.has("e"), a.has("c"), a.has("t")
	switch {
	case c && (s || e):
		return 0, "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential."
	case t && e:
		return 0, "TTLs cannot be used with Ephemeral znodes"
	case t && c:
		return 0, "TTLs cannot be used with Container znodes"
	case t && s:
		return client.PersistentSequentialTTL, ""
	case t:
		return client.PersistentTTL, ""
	case c:
		return client.Container, ""
	case e && s:
		return client.EphemeralSequential, ""
	case e:
		return client.Ephemeral, ""
	case s:
		return client.PersistentSequential, ""
	}
	return client.Persistent, ""
}

func syncNode(ctx context.Context, sh *shell, a *arguments) (result, error) {
	if err := sh.c.Sync(ctx, a.path()); err != nil {
		return result{}, err
	}
	return result{text: "Sync is OK\n"}, nil
}
