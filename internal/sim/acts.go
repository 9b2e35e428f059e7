package sim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// actVerbs are words for what schedules of the catalogue need beyond faults of machines and networks.
var actVerbs = map[string]verb{
	"lead":     {"SERVER", 1, (*World).lead},
	"visit":    {"SERVER…", 1, onEach(func(w *World, n *node) { w.writer(n) })},
	"hush":     {"SERVER…", 1, onEach(func(w *World, n *node) { w.writer(n).hush() })},
	"redirect": {"FROM TO", 2, (*World).redirect},
	"blackout": {"SERVER…", 1, onEach(func(_ *World, n *node) { n.blackout() })},
	"narrow":   {"FROM TO BYTES", 3, (*World).narrow},
	"forge":    {"ACK|COMMIT FROM TO BEYOND", 4, (*World).forge},
	"multi":    {"create:PATH:DATA|set:PATH:DATA|delete:PATH|check:PATH:VERSION… [through SERVER] [as NAME]", 1, (*World).multi},
}

func onEach(do func(*World, *node)) func(*World, []string) bool {
	return func(w *World, args []string) bool {
		for _, a := range args {
			for _, n := range w.pick(a) {
				do(w, n)
			}
		}
		return true
	}
}

// lead waits until this server leads and everybody who is up serves; a leader that is another hands over to it.
func (w *World) lead(args []string) bool {
	l := w.leader()
	if l == nil || !l.edge.serving {
		return false
	}
	for _, n := range w.nodes {
		if n.up && !n.edge.serving {
			return false
		}
	}
	target := w.pick(args[0])
	if slices.Contains(target, l) {
		return true
	}
	if len(target) == 1 && l.core.Status().Phase == zab.Broadcast {
		l.put(zab.HandOver{Target: target[0].id})
	}
	return false
}

// hush makes the client fall silent for ever; nobody hears of it.
func (c *client) hush() {
	c.asleep = true
	c.disconnected()
}

// redirect has the client of one server go to another.
func (w *World) redirect(args []string) bool {
	from, to := w.pick(args[0])[0], w.pick(args[1])[0]
	c := w.writer(from)
	c.fixed = to
	c.leave()
	return true
}

// blackout takes the machine off, and of what was not synced nothing survives.
func (n *node) blackout() {
	left := n.disk.Survivor()
	n.power()
	n.setDisk(left)
}

// narrow lets only so many bytes a second go a way; 0 takes it back.
func (w *World) narrow(args []string) bool {
	for _, a := range w.pick(args[0]) {
		for _, b := range w.pick(args[1]) {
			if a != b {
				w.net.link(a.id, b.id).rate = number[int](w, args[2])
			}
		}
	}
	return true
}

// forge puts a lie on the data connection from a learner to its leader or back: an ack of, or a commit at, a record that far beyond the
// end of the leader's log. The checkers of frames do not see it: it is not the server that says it.
func (w *World) forge(args []string) bool {
	from, to := w.pick(args[1])[0], w.pick(args[2])[0]
	by, _ := strconv.Atoi(args[3])
	for _, c := range w.net.conns {
		for _, e := range c.ends {
			if c.purpose != zab.ForData || e.n != from || e.peer != to || !e.open {
				continue
			}
			st := w.leader().core.Status()
			var lie zab.Packet = &zab.Commit{Commit: st.LogEnd + txn.Zxid(by)}
			if strings.EqualFold(args[0], "ack") {
				lie = &zab.Ack{Kind: zab.AckPropose, Epoch: st.Epoch, Durable: st.LogEnd + txn.Zxid(by), Votable: true}
			}
			w.trace(from.id, "forged", c.id, lie)
			e.put(parcel{frame: zab.AppendFrame(nil, st.Epoch, lie)})
			return true
		}
	}
	return false
}

// multi sends one whose ops are given as words.
func (w *World) multi(args []string) bool {
	fixed := slices.IndexFunc(args, func(a string) bool { return a == "through" || a == "as" })
	if fixed < 0 {
		fixed = len(args)
	}
	return asking(fixed, func(w *World, a []string) *op {
		var ops []proto.MultiOp
		for _, word := range a[:fixed] {
			p := append(strings.SplitN(word, ":", 3), "", "")
			switch p[0] {
			case "create":
				ops = append(ops, proto.MultiOp{Op: proto.OpCreate, Request: &proto.CreateRequest{Path: p[1], Data: []byte(p[2]), ACL: proto.OpenACL()}})
			case "set":
				ops = append(ops, proto.MultiOp{Op: proto.OpSetData, Request: &proto.SetDataRequest{Path: p[1], Data: []byte(p[2]), Version: -1}})
			case "delete":
				ops = append(ops, proto.MultiOp{Op: proto.OpDelete, Request: &proto.DeleteRequest{Path: p[1], Version: -1}})
			case "check":
				ops = append(ops, proto.MultiOp{Op: proto.OpCheck, Request: &proto.CheckVersionRequest{Path: p[1], Version: int32(number[int](w, p[2]))}})
			default:
				w.violate("SCHEDULE", 0, 0, "no op of a multi: %s", word)
			}
		}
		return multiOp(ops)
	})(w, args)
}

// amounts are the conditions "counts WHAT LEAST [MOST]": how often something happened, or how much there is of it.
func (w *World) amount(args []string) bool {
	if len(args) < 2 {
		w.violate("SCHEDULE", 0, 0, "counts wants WHAT LEAST [MOST]")
		return false
	}
	have := w.counts[args[0]]
	if args[0] == "epochs" {
		have = len(w.checks.leaders)
	}
	return have >= number[int](w, args[1]) && (len(args) < 3 || have <= number[int](w, args[2]))
}

// files is the condition "files SERVER PREFIX LEAST [MOST]": so many files of the server have a name that begins like that.
func (w *World) files(args []string) bool {
	if len(args) < 3 {
		w.violate("SCHEDULE", 0, 0, "files wants SERVER PREFIX LEAST [MOST]")
		return false
	}
	for _, n := range w.pick(args[0]) {
		have := 0
		entries, _ := n.disk.List("/data/zkd")
		for _, e := range entries {
			if strings.HasPrefix(e.Name, args[1]) {
				have++
			}
		}
		if have < number[int](w, args[2]) || len(args) > 3 && have > number[int](w, args[3]) {
			return false
		}
	}
	return true
}

// learners is the condition "learners SERVER LEAST [MOST]": so many are in step with this leader.
func (w *World) learners(args []string) bool {
	if len(args) < 2 {
		w.violate("SCHEDULE", 0, 0, "learners wants SERVER LEAST [MOST]")
		return false
	}
	for _, n := range w.pick(args[0]) {
		have := 0
		if n.core != nil {
			for _, l := range n.core.Status().Learners {
				if l.Synced {
					have++
				}
			}
		}
		if have < number[int](w, args[1]) || len(args) > 2 && have > number[int](w, args[2]) {
			return false
		}
	}
	return true
}
