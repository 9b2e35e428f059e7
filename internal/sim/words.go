package sim

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/proto"
)

// clientVerbs are the words with which a schedule has a client of its own do something. Each may end in "through SERVER" and "as NAME".
var clientVerbs = map[string]verb{
	"write":     {"PATH DATA [through SERVER] [as NAME]", 2, asking(2, (*World).setOrCreate)},
	"ephemeral": {"PATH DATA [through SERVER] [as NAME]", 2, asking(2, func(_ *World, a []string) *op { return createOp(a[0], dataOf(a[1]), proto.FlagEphemeral) })},
	"delete":    {"PATH [through SERVER] [as NAME]", 1, asking(1, func(_ *World, a []string) *op { return deleteOp(a[0], -1) })},
	"read":      {"PATH [through SERVER] [as NAME]", 1, asking(1, func(_ *World, a []string) *op { return readOp(proto.OpGetData, a[0]) })},
	"sync": {"PATH [through SERVER] [as NAME]", 1, asking(1, func(_ *World, a []string) *op {
		return &op{kind: proto.OpSync, path: a[0], payload: (&proto.SyncRequest{Path: a[0]}).Append(nil)}
	})},
	"close": {"[through SERVER] [as NAME]", 0, asking(0, func(*World, []string) *op { return &op{kind: proto.OpCloseSession} })},
}

// setOrCreate makes a path that is not there.
func (w *World) setOrCreate(a []string) *op {
	if w.history.model.nodes[a[0]].now().exists {
		return setOp(a[0], dataOf(a[1]), -1)
	}
	return createOp(a[0], dataOf(a[1]), proto.FlagPersistent)
}

// dataOf is a word itself, or with "9000-bytes" so many.
func dataOf(word string) []byte {
	if size, ok := strings.CutSuffix(word, "-bytes"); ok {
		if n, err := strconv.Atoi(size); err == nil {
			return make([]byte, n)
		}
	}
	return []byte(word)
}

// asking sends one request of the schedule's own; it waits until its client has a session.
func asking(fixed int, build func(*World, []string) *op) func(*World, []string) bool {
	return func(w *World, args []string) bool {
		var through *node
		name := ""
		for i := fixed; i+1 < len(args); i += 2 {
			switch args[i] {
			case "through":
				for _, n := range w.pick(args[i+1]) {
					through = n
				}
			case "as":
				name = args[i+1]
			}
		}
		c := w.writer(through)
		if !c.live {
			return false
		}
		o := build(w, args)
		c.request(o)
		if name != "" {
			w.named[name] = o
		}
		return true
	}
}

// writer is the client of a schedule's own requests through a server.
func (w *World) writer(through *node) *client {
	for _, c := range w.clients {
		if c.n > 1000 && c.fixed == through {
			return c
		}
	}
	c := newClient(w, 1001+len(w.clients))
	c.quiet, c.fixed = true, through
	w.clients = append(w.clients, c)
	c.connect()
	c.ping()
	return c
}

// spoil does something to the files of a server that is down which no crash does: it removes, empties or flips bits in all whose name
// begins like that, or in the newest of them but for the very newest.
func (w *World) spoil(args []string) bool {
	const dir = "/data/zkd"
	for _, n := range w.pick(args[0]) {
		if n.up || n.off || !w.mayDamage(n) {
			w.violate("SCHEDULE", n.id, 0, "files of server %d cannot be spoilt now", n.id)
			return true
		}
		entries, _ := n.disk.List(dir)
		entries = slices.DeleteFunc(entries, func(e env.Entry) bool { return e.Dir || !strings.HasPrefix(e.Name, args[2]) })
		if len(args) > 3 { // names are in the order of zxids
			skip := 0
			if len(args) > 4 {
				skip = number[int](w, args[4])
			}
			end := max(0, len(entries)-skip)
			entries = entries[max(0, end-number[int](w, args[3])):end]
		}
		for _, e := range entries {
			if err := n.spoilFile(args[1], dir+"/"+e.Name, e); err != nil {
				w.violate("SCHEDULE", n.id, 0, "%v", err)
			}
		}
		if len(entries) == 0 {
			w.violate("SCHEDULE", n.id, 0, "server %d has no file %s…", n.id, args[2])
		}
		w.checks.damage(n, false)
	}
	return true
}

func (n *node) spoilFile(how, path string, e env.Entry) error {
	switch how {
	case "remove":
		if err := n.disk.Remove(path); err != nil {
			return err
		}
		return n.disk.SyncDir("/data/zkd")
	case "empty":
		f, err := n.disk.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Truncate(0); err != nil {
			return err
		}
		return f.Sync()
	case "flip":
		return n.disk.Corrupt(path, n.diskRng.Int64N(max(1, e.Size)), 1<<n.diskRng.IntN(8))
	}
	return fs.ErrInvalid
}
