package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/pkg/client"
)

func addAuth(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var auth []byte
	if len(a.rest) > 1 {
		auth = []byte(a.rest[1])
	}
	return result{}, sh.c.AddAuth(ctx, a.rest[0], auth)
}

func whoAmI(ctx context.Context, sh *shell, _ *arguments) (result, error) {
	var res result
	ids, err := sh.c.WhoAmI(ctx)
	if err != nil {
		return res, err
	}
	fields := []map[string]string{}
	res.text = "Auth scheme: User\n"
	for _, id := range ids {
		fields = append(fields, map[string]string{"scheme": id.Scheme, "user": id.User})
		res.text += id.Scheme + ": " + id.User + "\n"
	}
	res.field("identities", fields)
	return res, nil
}

// closeSession leaves a shell that can connect again.
func closeSession(_ context.Context, sh *shell, _ *arguments) (result, error) {
	if sh.c == nil || sh.c.Err() != nil {
		return result{}, errNotConnected
	}
	err := sh.c.Close()
	sh.helpers.Wait()
	sh.showState(sh.c.State())
	return result{}, err
}

func connect(_ context.Context, sh *shell, a *arguments) (result, error) {
	server := sh.server
	if server == "" {
		server = sh.cfg.server
	}
	if a.arg(0) != "" {
		server = a.arg(0)
	}
	if sh.c != nil {
		sh.c.Close()
		sh.helpers.Wait()
	}
	return result{}, sh.open(server)
}

func quit(_ context.Context, sh *shell, _ *arguments) (result, error) {
	sh.quitting = true
	return result{}, nil
}

func printWatches(_ context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	switch a.arg(0) {
	case "on":
		sh.hidden.Store(false)
	case "off":
		sh.hidden.Store(true)
	case "":
		res.text = "printwatches is on\n"
		if sh.hidden.Load() {
			res.text = "printwatches is off\n"
		}
	default:
		return res, wrongUsage("printwatches", "")
	}
	res.field("on", !sh.hidden.Load())
	return res, nil
}

func showVersion(context.Context, *shell, *arguments) (result, error) {
	var res result
	number, built := "unreleased", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			number = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				built = s.Value
			}
		}
	}
	res.field("version", number)
	res.field("built", built)
	res.text = "ZooKeeper CLI version: zkcli " + number + ", built on " + built + "\n"
	return res, nil
}

func addWatch(ctx context.Context, sh *shell, a *arguments) (result, error) {
	mode, err := watchMode(a.str("m"))
	if err != nil {
		return result{}, wrongUsage("addWatch", "")
	}
	s, err := sh.c.AddWatch(ctx, a.path(), mode)
	if err != nil {
		return result{}, err
	}
	sh.followStream(s)
	return result{}, nil
}

func watchMode(name string) (client.WatchMode, error) {
	switch name {
	case "", "PERSISTENT_RECURSIVE":
		return client.WatchTree, nil
	case "PERSISTENT":
		return client.WatchNode, nil
	}
	return 0, fmt.Errorf("mode %s", name)
}

func removeWatches(ctx context.Context, sh *shell, a *arguments) (result, error) {
	typ := client.AnyWatches
	switch {
	case a.has("c"):
		typ = client.ChildWatches
	case a.has("d"):
		typ = client.DataWatches
	}
	return result{}, sh.c.RemoveWatches(ctx, a.path(), typ, a.has("l"))
}

func showConfig(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	data, st, w, err := sh.configuration(ctx, a.has("w"))
	sh.follow(w)
	if err != nil {
		return res, err
	}
	return configResult(a, data, st)
}

// configuration is Config or ConfigW.
func (sh *shell) configuration(ctx context.Context, watch bool) ([]byte, client.Stat, *client.Watch, error) {
	if watch {
		return sh.c.ConfigW(ctx)
	}
	data, st, err := sh.c.Config(ctx)
	return data, st, nil, err
}

func configResult(a *arguments, data []byte, st client.Stat) (result, error) {
	var res result
	members, number, err := client.ParseConfig(data)
	if err != nil {
		return res, err
	}
	var clients []string
	fields := []map[string]any{}
	for _, m := range members {
		fields = append(fields, map[string]any{"id": m.ID, "host": m.Host, "observer": m.Observer, "client": m.Client})
		if m.Client != "" {
			clients = append(clients, m.Client)
		}
	}
	res.field("config", data)
	res.field("members", fields)
	res.field("version", number)
	res.stat(&st)
	res.text = string(data) + "\n"
	if a.has("c") {
		res.text = number + " " + strings.Join(clients, ",") + "\n"
	}
	if a.has("s") {
		res.text += statText(&st)
	}
	return res, nil
}

func reconfig(ctx context.Context, sh *shell, a *arguments) (result, error) {
	list := func(name string) []string {
		if !a.has(name) {
			return nil
		}
		return strings.Split(a.str(name), ",")
	}
	change := client.Reconfig{Joining: list("add"), Leaving: list("remove"), Members: list("members"), Version: -1}
	if a.has("v") {
		n, err := strconv.ParseInt(a.str("v"), 16, 64)
		if err != nil {
			return result{}, wrongUsage("reconfig", "Not a number: "+a.str("v"))
		}
		change.Version = n
	}
	if a.has("file") {
		text, err := readFile(ctx, a.str("file"))
		if err != nil {
			return result{}, err
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "server.") {
				change.Members = append(change.Members, line)
			}
		}
	}
	if (len(change.Members) == 0) == (len(change.Joining)+len(change.Leaving) == 0) {
		return result{}, wrongUsage("reconfig", "")
	}
	for i, m := range change.Members {
		change.Members[i] = serverLine(m)
	}
	for i, m := range change.Joining {
		change.Joining[i] = serverLine(m)
	}
	data, st, err := sh.c.Reconfig(ctx, change)
	if err != nil {
		return result{}, err
	}
	res, err := configResult(a, data, st)
	res.note = "Committed new configuration:\n"
	return res, err
}

// serverLine lets "5=h:1:2;3" stand for "server.5=h:1:2;3".
func serverLine(s string) string {
	if _, err := strconv.Atoi(strings.SplitN(s, "=", 2)[0]); err == nil {
		return "server." + s
	}
	return s
}

func sorted(names []string) []string {
	names = append([]string{}, names...)
	slices.Sort(names)
	return names
}
