package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/zab"
)

// trap waits for a packet on its way, or a disk operation, and stops it there: the way is blocked, the disk hangs. It goes off once.
type trap struct {
	kind     string
	from, to []zab.ServerID // to is empty for a disk operation
	skip     int            // so many come through first
}

func (t trap) String() string { return fmt.Sprintf("%s of %v to %v", t.kind, t.from, t.to) }

// catch sets a trap, or takes all of them away.
func (w *World) catch(args []string) bool {
	if args[0] == "nothing" {
		w.traps = nil
		return true
	}
	t := trap{kind: strings.ToLower(args[0])}
	if n := len(args); n > 3 && args[n-2] == "after" {
		t.skip, _ = strconv.Atoi(args[n-1])
		args = args[:n-2]
	}
	if len(args) < 2 || len(args) > 3 {
		w.violate("SCHEDULE", 0, 0, "catch wants %s", verbs["catch"].usage)
		return true
	}
	t.from = w.ids(args[1])
	if len(args) == 3 {
		t.to = w.ids(args[2])
	}
	w.traps = append(w.traps, t)
	return true
}

func (w *World) ids(name string) []zab.ServerID {
	var out []zab.ServerID
	for _, n := range w.pick(name) {
		out = append(out, n.id)
	}
	return out
}

// caughtBy looks for a trap for v, a packet or an operation (then to is 0), and takes it away.
func (w *World) caughtBy(v any, from, to zab.ServerID) bool {
	if len(w.traps) == 0 {
		return false
	}
	name := strings.ToLower(fmt.Sprintf("%T", v))
	kind := name[strings.LastIndexByte(name, '.')+1:]
	i := slices.IndexFunc(w.traps, func(t trap) bool {
		return t.kind == kind && slices.Contains(t.from, from) && (to == 0 && t.to == nil || slices.Contains(t.to, to))
	})
	if i < 0 {
		return false
	}
	if w.traps[i].skip > 0 {
		w.traps[i].skip--
		return false
	}
	w.traps = slices.Delete(w.traps, i, i+1)
	w.trace(from, "caught", uint64(to), v)
	return true
}
