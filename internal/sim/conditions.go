package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// synced tells how a leader last set out to bring a learner into line, and how often since the last mark.
type synced struct {
	mode  string
	times int
}

// state is a condition that holds for a server or does not.
type state func(w *World, n *node) bool

// plain are the conditions "WORD SERVER…".
var plain = map[string]state{
	"leader":     func(w *World, n *node) bool { return n == w.leader() && n.edge.serving },
	"serving":    func(_ *World, n *node) bool { return n.up && n.core != nil && n.edge.serving },
	"up":         func(_ *World, n *node) bool { return n.up },
	"down":       func(_ *World, n *node) bool { return !n.up },
	"recovering": func(w *World, n *node) bool { return w.checks.books[n.id].hard.Recovering },
	"leading":    inRole(zab.Leading),
	"following":  inRole(zab.Following),
	"observing":  inRole(zab.Observing),
	"looking":    inRole(zab.Looking),
}

func inRole(r zab.Role) state {
	return func(_ *World, n *node) bool { return n.core != nil && n.core.Status().Role == r }
}

// about are the conditions "WORD WHAT SERVER…".
var about = map[string]func(w *World, what string) state{
	"stored": func(w *World, name string) state {
		return func(w *World, n *node) bool { return w.stored(name, n) }
	},
	"applied": func(w *World, name string) state {
		return func(w *World, n *node) bool {
			p, ok := w.placed[w.op(name)]
			return ok && w.checks.isCommitted(p) && w.checks.books[n.id].applied >= p.Zxid
		}
	},
	"accepted": func(_ *World, epoch string) state {
		return func(w *World, n *node) bool { return w.checks.books[n.id].hard.Accepted == number[txn.Epoch](w, epoch) }
	},
	"current": func(_ *World, epoch string) state {
		return func(w *World, n *node) bool { return w.checks.books[n.id].hard.Current == number[txn.Epoch](w, epoch) }
	},
	"ahead": func(w *World, other string) state { // it has promised a later epoch than the other
		return func(w *World, n *node) bool {
			for _, o := range w.pick(other) {
				if w.checks.books[n.id].hard.Accepted <= w.checks.books[o.id].hard.Accepted {
					return false
				}
			}
			return true
		}
	},
	"synced": func(_ *World, mode string) state {
		return func(w *World, n *node) bool { return w.syncs[n.id].mode == mode }
	},
	"joined": func(_ *World, times string) state {
		return func(w *World, n *node) bool { return w.syncs[n.id].times == number[int](w, times) }
	},
}

func number[T int | txn.Epoch](w *World, s string) T {
	n, err := strconv.Atoi(s)
	if err != nil {
		w.violate("SCHEDULE", 0, 0, "%s is not a number", s)
	}
	return T(n)
}

// global are the conditions that name no server.
var global = map[string]func(w *World, args []string) bool{
	"caught":   func(w *World, _ []string) bool { return len(w.traps) == 0 },
	"there":    func(w *World, args []string) bool { return w.paths(args, true) },
	"gone":     func(w *World, args []string) bool { return w.paths(args, false) },
	"counted":  func(w *World, args []string) bool { return len(args) == 1 && w.counts[args[0]] > 0 },
	"counts":   (*World).amount,
	"files":    (*World).files,
	"learners": (*World).learners,
	"answered": func(w *World, args []string) bool {
		return !slices.ContainsFunc(args, func(name string) bool { return !w.op(name).done })
	},
	"over": func(w *World, args []string) bool {
		return !slices.ContainsFunc(args, func(name string) bool { o := w.op(name); return !o.done && !o.lost })
	},
}

func (w *World) paths(args []string, there bool) bool {
	return !slices.ContainsFunc(args, func(path string) bool { return w.history.model.nodes[path].now().exists != there })
}

// op is the request that a schedule has named.
func (w *World) op(name string) *op {
	if o := w.named[name]; o != nil {
		return o
	}
	w.violate("SCHEDULE", 0, 0, "nothing is called %q", name)
	return &op{}
}

// place notes where a named write got its record.
func (w *World) place(r *txn.Record) {
	if len(w.named) == 0 {
		return
	}
	t, err := r.Txn()
	if err != nil {
		return
	}
	for _, name := range sorted(w.named) {
		if o := w.named[name]; o.session == t.Session && o.xid == t.Cxid && t.Conn != 0 && w.placed[o] == (zab.Position{}) {
			w.placed[o] = positionOf(r)
		}
	}
}

// stored: the server's disk holds the record for certain.
func (w *World) stored(name string, n *node) bool {
	p, ok := w.placed[w.op(name)]
	return ok && w.checks.holds(w.checks.books[n.id].log, p)
}

// holds tells whether a condition is true; without not it must be for every server that is named, with not for none of them.
func (w *World) holds(args []string) bool {
	want := true
	if args[0] == "not" && len(args) > 1 {
		want, args = false, args[1:]
	}
	if args[0] == "leader" && len(args) == 1 {
		args = []string{"leader", "leader"}
		if w.leader() == nil {
			return !want
		}
	}
	if f, ok := global[args[0]]; ok {
		return f(w, args[1:]) == want
	}
	var is state
	servers := args[1:]
	if f, ok := plain[args[0]]; ok {
		is = f
	} else if f, ok := about[args[0]]; ok && len(args) > 2 {
		is, servers = f(w, args[1]), args[2:]
	} else if _, ok := w.named[args[0]]; ok && len(args) == 1 {
		return global["over"](w, args) == want
	}
	if is == nil || len(servers) == 0 {
		w.violate("SCHEDULE", 0, 0, "no such condition: %v", args)
		return false
	}
	for _, name := range servers {
		for _, n := range w.pick(name) {
			if is(w, n) != want {
				return false
			}
		}
	}
	return true
}

// await is done when the condition holds; it must within the time that is named.
func (w *World) await(args []string) bool {
	limit := 2 * settle
	if n := len(args); n > 2 && args[n-2] == "within" {
		limit, _ = time.ParseDuration(args[n-1])
		args = args[:n-2]
	}
	if w.holds(args) {
		return true
	}
	if w.now-w.waited > limit {
		w.violate("SCHEDULE", 0, 0, "not within %v: %v", limit, args)
	}
	return false
}

func (w *World) is(args []string) bool {
	if !w.holds(args) {
		w.violate("SCHEDULE", 0, 0, "it is not so: %v; %s", args, w.standing())
	}
	return true
}

// standing says in a line where every server is, for a schedule that went wrong.
func (w *World) standing() string {
	s := ""
	for _, n := range w.nodes {
		b := w.checks.books[n.id]
		s += fmt.Sprintf("%d: ", n.id)
		if n.core == nil {
			s += "down"
		} else {
			s += fmt.Sprintf("%v serving %v", n.core.Status().Role, n.edge.serving)
		}
		s += fmt.Sprintf(" Ea %d Ec %d log %v…%v applied %v synced %v; ", b.hard.Accepted, b.hard.Current, b.log[0].Zxid, tip(b.log).Zxid,
			b.applied, w.syncs[n.id])
	}
	return s
}
