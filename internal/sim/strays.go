package sim

import (
	"fmt"

	"github.com/zkd-project/zkd/zab"
)

// strayKeep is how many frames of dead connections a server's wire remembers.
const strayKeep = 16

// remember keeps what a connection brought, for a time when it is of no account any more.
func (n *node) remember(ev zab.Received) {
	if len(n.past) < strayKeep {
		n.past = append(n.past, ev)
		return
	}
	if n.strayRng.IntN(8) == 0 {
		n.past[n.strayRng.IntN(strayKeep)] = ev
	}
}

// stray tells the core once more what came before over another connection, or in another epoch: nothing may follow from it (I-22). The
// core is given what waits and the time first, so that what is due anyhow is done before.
func (n *node) stray() {
	if n.core == nil || len(n.past) == 0 {
		return
	}
	life, evs := n.life, n.inbox
	n.inbox = nil
	n.turn(evs)
	if n.life != life || n.w.fail != nil || n.core.Deadline() <= n.now() {
		return
	}
	ev := n.past[n.strayRng.IntN(len(n.past))]
	before := n.core.Status()
	foreign := false
	if n.strayRng.IntN(2) == 0 {
		foreign = n.address(&ev, &before)
	}
	if n.streams[ev.Conn] != nil && !foreign {
		return // it counts as it is
	}
	n.w.count("stray")
	if foreign {
		n.w.count("stray-epoch")
	}
	n.w.trace(n.id, "stray", 0, ev)
	fx := n.core.Step(n.now(), []zab.Event{ev})
	after := n.core.Status()
	n.w.checks.onStray(n, foreign, &before, &after, fx)
	for _, fx := range fx {
		if n.perform(n.now(), fx); n.life != life || n.w.fail != nil {
			return
		}
	}
	n.turn(nil)
}

// address makes an old frame one of a connection that counts now, with the epoch in which it was sent. It reports whether there is such a
// connection, and whether the epoch is another one.
func (n *node) address(ev *zab.Received, st *zab.Status) bool {
	switch ev.Packet.(type) {
	case *zab.Bye, *zab.LeaderInfo, *zab.FollowerInfo: // these open or end a connection in whatever epoch
		return false
	}
	if ev.Epoch == 0 || ev.Epoch == st.Epoch || st.Epoch == 0 {
		return false
	}
	for _, id := range sorted(n.streams) {
		s := n.streams[id]
		up := st.Role != zab.Leading && s.hello == nil && s.peer == st.Leader
		down := st.Role == zab.Leading && s.hello != nil && n.inSync(st, s.peer)
		if !s.down && (up || down) {
			ev.Conn = id
			return true
		}
	}
	return false
}

func (n *node) inSync(st *zab.Status, id zab.ServerID) bool {
	for _, l := range st.Learners {
		if l.ID == id && l.Synced {
			return true
		}
	}
	return false
}

// onStray: what a server has, promised, told and counted is the same before and after a frame that must not matter. A frame of another
// epoch costs the connection, and with it perhaps the role; one of a connection that is gone costs nothing.
func (c *checks) onStray(n *node, foreign bool, before, after *zab.Status, fx []zab.Effect) {
	for _, f := range fx {
		switch f.(type) {
		case zab.Append, zab.Truncate, zab.SaveHardState, zab.InstallSnapshot, zab.ReceiveSnapshot, zab.Prepare, zab.Apply, zab.Serve, zab.Established:
			c.w.violate("I-22", n.id, after.LogEnd, "%T follows from a frame that is of no account", f)
			return
		}
	}
	was, is := fmt.Sprintf("%+v", *before), fmt.Sprintf("%+v", *after)
	if foreign {
		was, is = standing(before), standing(after)
	}
	if was != is {
		c.w.violate("I-22", n.id, after.LogEnd, "a frame that is of no account turned %s into %s", was, is)
	}
}

// standing is the part of a server's status that does not hang on one connection.
func standing(s *zab.Status) string {
	return fmt.Sprint(s.Accepted, s.Current, s.Votable, s.LogEnd, s.Durable, s.Commit, s.Applied)
}
