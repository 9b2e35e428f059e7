package quorum

import (
	"slices"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// playLeader lets a stub core play a leader without a history to bring into line: FOLLOWERINFO from a quorum, an epoch, promises,
// established.
func playLeader(w *network, h *host, c *stubCore, start zab.Instant) {
	type learner struct {
		peer     zab.ServerID
		info     *zab.FollowerInfo
		promised bool
		told     bool
	}
	learners := map[zab.ConnID]*learner{}
	var conns []zab.ConnID
	var chosen txn.Epoch
	var saved, claimed uint64
	members := &c.local.Cfg.Members
	has := func(f func(*learner) bool) bool {
		return members.Satisfied(func(id zab.ServerID) bool {
			if id == h.id {
				return true
			}
			return slices.ContainsFunc(conns, func(x zab.ConnID) bool { return learners[x].peer == id && f(learners[x]) })
		})
	}
	quit := func(why string) {
		for _, x := range conns {
			c.fx.Add(zab.Close{Conn: x})
		}
		c.leave = &zab.Leave{Reason: why}
	}
	c.deadline = start.Add(c.local.Cfg.EpochWait)
	c.onStep = func(now zab.Instant, evs []zab.Event) {
		for _, ev := range evs {
			switch ev := ev.(type) {
			case zab.Accepted:
				learners[ev.Conn] = &learner{peer: ev.Peer}
				conns = append(conns, ev.Conn)
			case zab.ConnDown:
				conns = slices.DeleteFunc(conns, func(x zab.ConnID) bool { return x == ev.Conn })
			case zab.Received:
				if l := learners[ev.Conn]; l != nil {
					switch p := ev.Packet.(type) {
					case *zab.FollowerInfo:
						l.info = p
						if c.epoch != 0 && p.Accepted > chosen {
							quit("a voter has promised more") // in place of a re-epoch
							return
						}
					case *zab.AckEpoch:
						l.promised = p.Vote
					}
				}
			}
		}
		counts := func(l *learner) bool { return l.info != nil && l.info.Votable }
		if chosen == 0 && has(counts) {
			h := c.local.Hard
			chosen = h.Accepted
			for _, x := range conns {
				if counts(learners[x]) {
					chosen = max(chosen, learners[x].info.Accepted)
				}
			}
			chosen++
			h.Accepted, h.AcceptedLeader = chosen, c.leader
			saved = c.local.SaveHard(now, h)
		}
		if saved != 0 && c.local.IsDone(saved) {
			for _, x := range conns {
				if l := learners[x]; l.info != nil && !l.told {
					l.told = true
					c.fx.Add(zab.Send{Conn: x, Packet: &zab.LeaderInfo{Epoch: chosen}})
				}
			}
			if claimed == 0 && has(func(l *learner) bool { return l.promised }) {
				h := c.local.Hard
				h.Current = chosen
				claimed = c.local.SaveHard(now, h)
			}
		}
		if claimed != 0 && c.local.IsDone(claimed) {
			if c.epoch == 0 {
				c.phase, c.epoch, c.deadline = zab.Broadcast, chosen, zab.Never
			}
			for _, x := range conns {
				if l := learners[x]; l.told && l.info != nil {
					l.info = nil
					c.fx.Add(zab.Send{Conn: x, Packet: &zab.UpToDate{Epoch: chosen}})
				}
			}
		}
		switch {
		case c.epoch == 0 && now >= start.Add(c.local.Cfg.EpochWait):
			quit("no quorum in time")
		case c.epoch != 0 && !has(func(l *learner) bool { return l.promised }):
			quit("quorum lost")
		}
	}
}

// playFollower is its other side.
func playFollower(c *stubCore, start zab.Instant) {
	var conn zab.ConnID
	var saved, claimed uint64
	var offered, upTo txn.Epoch
	var promise bool
	giveUp := start.Add(c.local.Cfg.ConnectLimit)
	redial := zab.Never
	c.deadline = giveUp
	quit := func(l zab.Leave) {
		if conn != 0 {
			c.fx.Add(zab.Close{Conn: conn})
		}
		c.leave = &l
	}
	c.onStep = func(now zab.Instant, evs []zab.Event) {
		for _, ev := range evs {
			switch ev := ev.(type) {
			case zab.Dialed:
				conn = ev.Conn
				hard := c.local.Hard
				c.fx.Add(zab.Send{Conn: conn, Packet: &zab.FollowerInfo{Accepted: hard.Accepted, Current: hard.Current, Votable: c.local.Votable()}})
			case zab.DialFailed:
				redial = now.Add(c.local.Cfg.ConnectRetry)
			case zab.ConnDown:
				if ev.Conn == conn {
					conn = 0
					quit(zab.Leave{Reason: "connection lost", Lost: true})
					return
				}
			case zab.Received:
				if ev.Conn != conn {
					continue
				}
				switch p := ev.Packet.(type) {
				case *zab.LeaderInfo:
					h := c.local.Hard
					if p.Epoch < h.Accepted {
						quit(zab.Leave{Reason: "epoch too old"})
						return
					}
					c.phase, offered = zab.Synchronization, p.Epoch
					promise = p.Epoch > h.Accepted || h.AcceptedLeader == c.leader
					if promise {
						h.Accepted, h.AcceptedLeader = p.Epoch, c.leader
					}
					saved = c.local.SaveHard(now, h)
				case *zab.UpToDate:
					upTo = p.Epoch
				}
			}
		}
		if saved != 0 && c.local.IsDone(saved) {
			saved = 0
			c.fx.Add(zab.Send{Conn: conn, Packet: &zab.AckEpoch{Epoch: offered, Vote: promise && c.local.Votable()}})
		}
		if upTo != 0 && claimed == 0 {
			h := c.local.Hard
			h.Current = upTo
			if h.Accepted < upTo {
				h.Accepted, h.AcceptedLeader = upTo, c.leader
			}
			claimed = c.local.SaveHard(now, h)
		}
		if claimed != 0 && c.epoch == 0 && c.local.IsDone(claimed) {
			c.epoch, c.phase, c.deadline = upTo, zab.Broadcast, zab.Never
			c.fx.Add(zab.Send{Conn: conn, Packet: &zab.AckEpoch{Epoch: upTo, Vote: c.local.Votable()}}) // in place of the ack of NEWLEADER
		}
		switch {
		case c.phase != zab.Discovery:
			c.deadline = zab.Never
		case now >= giveUp:
			quit(zab.Leave{Reason: "leader does not open", Unreachable: conn == 0})
		case now >= redial:
			redial = zab.Never
			c.fx.Add(zab.Dial{Peer: c.leader})
		}
		if c.phase == zab.Discovery {
			c.deadline = min(giveUp, redial)
		}
	}
}
