package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/zab"
)

// verb is one word of the schedule language. do reports whether it is done; if not it is asked again a moment later.
type verb struct {
	usage string
	least int // arguments
	do    func(w *World, args []string) bool
}

var verbs map[string]verb

func init() {
	each := func(do func(*World, *node)) func(*World, []string) bool {
		return func(w *World, args []string) bool {
			for _, a := range args {
				for _, n := range w.pick(a) {
					do(w, n)
				}
			}
			return true
		}
	}
	way := func(do func(w *World, l *link, a, b zab.ServerID)) func(*World, []string) bool {
		return func(w *World, args []string) bool {
			for _, a := range w.pick(args[0]) {
				for _, b := range w.pick(args[1]) {
					if a != b {
						do(w, w.net.link(a.id, b.id), a.id, b.id)
					}
				}
			}
			w.net.changed()
			return true
		}
	}
	verbs = map[string]verb{
		"start":  {"SERVER…", 1, each(func(_ *World, n *node) { n.start() })},
		"kill":   {"SERVER…", 1, each(func(_ *World, n *node) { n.kill() })},
		"power":  {"SERVER…", 1, each(func(_ *World, n *node) { n.power() })},
		"stop":   {"SERVER…", 1, each(func(_ *World, n *node) { n.stop() })},
		"freeze": {"SERVER…", 1, each(func(_ *World, n *node) { n.freeze() })},
		"thaw":   {"SERVER…", 1, each(func(_ *World, n *node) { n.thaw() })},
		"pause":  {"SERVER…", 1, each(func(_ *World, n *node) { n.pause() })},
		"wipe":   {"SERVER…", 1, each((*World).wipe)},
		"rot":    {"SERVER…", 1, each((*World).rot)},
		"forget": {"SERVER…", 1, each((*World).forget)},
		"lose":   {"SERVER…", 1, each((*World).lose)},
		"stray": {"SERVER…", 1, each(func(_ *World, n *node) {
			if !n.frozen {
				n.stray()
			}
		})},
		"calm": {"on|off", 1, (*World).calm},
		"snapshot": {"SERVER…", 1, each(func(_ *World, n *node) {
			if n.core != nil {
				n.snaps.demand()
			}
		})},
		"lie":   {"SERVER…", 1, each(func(w *World, n *node) { w.lie(n) })},
		"scrub": {"SERVER…", 1, each(func(_ *World, n *node) { n.scrub() })},
		"handover": {"SERVER [TARGET]", 1, func(w *World, args []string) bool {
			target := zab.ServerID(0)
			if len(args) > 1 {
				for _, t := range w.pick(args[1]) {
					target = t.id
				}
			}
			for _, n := range w.pick(args[0]) {
				if n.core != nil {
					n.put(zab.HandOver{Target: target})
				}
			}
			return true
		}},
		"block":  {"FROM TO", 2, way(func(_ *World, l *link, _, _ zab.ServerID) { l.blocked = true })},
		"open":   {"FROM TO", 2, way(func(_ *World, l *link, _, _ zab.ServerID) { *l = link{refused: l.refused, slow: l.slow, rate: l.rate} })},
		"mute":   {"FROM TO", 2, way(func(_ *World, l *link, _, _ zab.ServerID) { l.deaf[zab.ForElection] = true })},
		"starve": {"FROM TO", 2, way(func(_ *World, l *link, _, _ zab.ServerID) { l.deaf[zab.ForData] = true })},
		"refuse": {"FROM TO", 2, way(func(_ *World, l *link, _, _ zab.ServerID) { l.refused = true })},
		"admit":  {"FROM TO", 2, way(func(_ *World, l *link, _, _ zab.ServerID) { l.refused = false })},
		"garble": {"FROM TO", 2, way(func(_ *World, l *link, _, _ zab.ServerID) { l.garble = true })},
		"reset":  {"A B", 2, way(func(w *World, _ *link, a, b zab.ServerID) { w.net.resetBetween(a, b) })},
		"slow": {"FROM TO DELAY", 3, func(w *World, args []string) bool {
			d, _ := time.ParseDuration(args[2])
			return way(func(_ *World, l *link, _, _ zab.ServerID) { l.slow = d })(w, args)
		}},
		"partition": {"SERVER… | SERVER…", 3, (*World).partition},
		"heal":      {"", 0, func(w *World, _ []string) bool { w.heal(); return true }},
		"disk":      {"SERVER ok|hang|failsync|full|room BYTES|free|slow DELAY|cut STEPS|fail STEPS", 2, (*World).diskFault},
		"wall":      {"SERVER BY", 2, (*World).moveWall},
		"move": {"CLIENT", 1, func(w *World, args []string) bool {
			if i, err := strconv.Atoi(args[0]); err == nil && i >= 1 && i <= len(w.clients) {
				w.clients[i-1].leave()
			}
			return true
		}},
		"wait": {"TIME", 1, func(w *World, args []string) bool {
			d, _ := time.ParseDuration(args[0])
			return w.now-w.waited >= d
		}},
		"spoil": {"SERVER remove|empty|flip PREFIX [NEWEST [BUT]]", 3, (*World).spoil},
		"catch": {"PACKET FROM TO [after N] | OPERATION SERVER [after N] | nothing", 1, (*World).catch},
		"mark":  {"", 0, func(w *World, _ []string) bool { clear(w.syncs); return true }},
		"await": {"[not] CONDITION [within TIME]", 1, (*World).await},
		"is":    {"[not] CONDITION", 1, (*World).is},
	}
	maps.Copy(verbs, clientVerbs)
	maps.Copy(verbs, actVerbs)
	maps.Copy(verbs, folderVerbs)
}

// pick names servers: a number, leader, followers, minority, all, or A to I for 1 to 9.
func (w *World) pick(name string) []*node {
	switch name {
	case "leader":
		if l := w.leader(); l != nil {
			return []*node{l}
		}
		return nil
	case "minority":
		return w.minority()
	case "followers", "all":
		var out []*node
		for _, n := range w.nodes {
			if name == "all" || n != w.leader() {
				out = append(out, n)
			}
		}
		return out
	}
	if len(name) == 1 && name[0] >= 'A' && name[0] <= 'I' {
		name = string(name[0] - 'A' + '1')
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 1 && i <= len(w.nodes) {
		return []*node{w.nodes[i-1]}
	}
	w.violate("SCHEDULE", 0, 0, "no server %q", name)
	return nil
}

// schedule carries out the next lines that are due.
func (w *World) schedule() {
	for w.step < len(w.sc.Steps) && w.fail == nil {
		st := w.sc.Steps[w.step]
		if st.At > w.now {
			w.at(st.At, w.schedule)
			return
		}
		if !verbs[st.Verb].do(w, st.Args) {
			if w.now-w.waited > 2*settle {
				w.violate("SCHEDULE", 0, 0, "still waiting for: %s", st)
				return
			}
			w.after(time.Millisecond, w.schedule)
			return
		}
		if st.Verb != "await" && st.Verb != "is" {
			w.trace(0, "fault", uint64(w.step), st.String())
		}
		w.step++
		w.waited = w.now
	}
	if w.sc.Length == 0 && w.step == len(w.sc.Steps) {
		w.finish()
	}
}

// heal takes back everything that was done to the network.
func (w *World) heal() {
	for _, from := range w.nodes {
		for _, to := range w.nodes {
			*w.net.link(from.id, to.id) = link{}
		}
	}
	w.net.changed()
}

func (w *World) repair(n *node) {
	n.disk.CrashAt(0)
	n.disk.SetCapacity(0)
	n.disk.Mend()
	w.diskSlow[n.id] = 0
	if w.diskHung[n.id] {
		w.diskHung[n.id] = false
		if n.up && n.core != nil {
			n.writer.kick()
		}
	}
}

func (w *World) partition(args []string) bool {
	groups := [][]*node{nil}
	for _, a := range args {
		if a == "|" {
			groups = append(groups, nil)
			continue
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], w.pick(a)...)
	}
	for i, g := range groups {
		for j, h := range groups {
			for _, a := range g {
				for _, b := range h {
					if i != j && a != b {
						w.net.link(a.id, b.id).blocked = true
					}
				}
			}
		}
	}
	return true
}

func (w *World) diskFault(args []string) bool {
	for _, n := range w.pick(args[0]) {
		switch args[1] {
		case "ok":
			w.repair(n)
		case "hang":
			w.diskHung[n.id] = true
		case "slow":
			d, _ := time.ParseDuration(args[2])
			w.diskSlow[n.id] = d
		case "failsync":
			w.diskFaults[n.id]++
			n.disk.FailSync(syscall.EIO)
		case "room":
			w.diskFaults[n.id]++
			n.squeeze(int64(number[int](w, args[2])))
		case "full":
			w.diskFaults[n.id]++
			n.disk.SetCapacity(1)
		case "free":
			n.disk.SetCapacity(0)
		case "cut":
			k, _ := strconv.Atoi(args[2])
			if !n.off { // also before a start
				n.disk.CrashAt(n.disk.Steps() + k)
			}
		case "fail":
			k, _ := strconv.Atoi(args[2])
			w.diskFaults[n.id]++
			n.disk.FailAt(n.disk.Steps()+k, syscall.EIO)
		default:
			w.violate("SCHEDULE", 0, 0, "unknown disk fault %q", args[1])
		}
	}
	return true
}

func (w *World) moveWall(args []string) bool {
	d, _ := time.ParseDuration(args[1])
	for _, n := range w.pick(args[0]) {
		n.wall += d
	}
	return true
}

// calm waits until everybody serves under one leader who need not make way for a larger promise, and then demands that it goes on.
func (w *World) calm(args []string) bool {
	if args[0] != "on" {
		w.checks.onCalm(false)
		return true
	}
	l := w.leader()
	if l == nil || !l.edge.serving {
		return false
	}
	for _, n := range w.nodes {
		if !n.up || n.core == nil || !n.edge.serving || n.core.Status().Epoch != l.core.Status().Epoch || w.checks.book(n).hard.Accepted != l.core.Status().Epoch {
			return false
		}
	}
	w.checks.onCalm(true)
	return true
}

// mayDamage: only so many disks may lose what they promised that a majority never does.
func (w *World) mayDamage(n *node) bool {
	lost := 1
	for _, o := range w.nodes {
		if b := w.checks.books[o.id]; o != n && !w.observer(o.id) && (b.damaged || b.rotten || b.lied || o.edge != nil && o.edge.lies || b.hard.Recovering || b.hard.Current == 0) {
			lost++
		}
	}
	return 2*lost < w.voters()
}

// wipe empties a server's directory.
func (w *World) wipe(n *node) {
	if n.own != nil || !w.mayDamage(n) {
		return
	}
	n.kill()
	fresh := simdisk.NewDisk(0)
	_ = fresh.MkdirAll("/data")
	n.setDisk(fresh)
	w.checks.damage(n, true)
	w.count("wiped")
}

// rot flips a bit in a file that is not being written: a snapshot, an older segment, one copy of the hard state.
func (w *World) rot(n *node) {
	if !w.mayDamage(n) || n.off {
		return
	}
	const dir = "/data/zkd"
	entries, err := n.disk.List(dir)
	if err != nil {
		return
	}
	var cold []string
	newest := ""
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "log.") {
			newest = max(newest, e.Name)
		}
	}
	for _, e := range entries {
		if !e.Dir && e.Size > 0 && e.Name != newest && (strings.HasPrefix(e.Name, "log.") || strings.HasPrefix(e.Name, "snap.")) {
			cold = append(cold, e.Name)
		}
	}
	if len(cold) == 0 {
		return
	}
	name := cold[n.diskRng.IntN(len(cold))]
	i := slices.IndexFunc(entries, func(e env.Entry) bool { return e.Name == name })
	if err := n.disk.Corrupt(dir+"/"+name, n.diskRng.Int64N(entries[i].Size), 1<<n.diskRng.IntN(8)); err != nil {
		return
	}
	w.trace(n.id, "rot", 0, name)
	w.checks.damage(n, false)
	w.count("rotten")
}

// deep restores a server's disk as a power cut would leave it at the very worst, and looks whether everything is there that must be
// (I-12, I-44, I-45).
func (c *checks) deep(n *node) {
	b := c.book(n)
	if b.damaged || b.rotten || b.hard.Diverged || !n.up || n.installing() { // a start sets aside what diverged
		return
	}
	rec, err := recoverFrom(n.disk.Survivor(), n.id, c.w.sc.Limits.Segment)
	if err != nil {
		c.w.violate("I-44", n.id, tip(b.log).Zxid, "what would survive a power cut cannot be started from: %v", err)
		return
	}
	if head, _, _ := n.store.Newest(); rec.SnapshotAt != head.At {
		c.w.violate("I-44", n.id, head.At.Zxid, "the newest snapshot would not survive a power cut, or cannot be used: the start takes %v", rec.SnapshotAt.Zxid)
		return
	}
	if rec.End != tip(b.log) || rec.Hard != b.hard {
		c.w.violate("I-12", n.id, tip(b.log).Zxid, "a power cut would leave %v and %+v, durable should be %v and %+v; %s", rec.End, rec.Hard, tip(b.log), b.hard, rec.Recovering)
	}
}
