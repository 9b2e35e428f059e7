package quorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

const lan = time.Millisecond // largest delay, one way

func ids(n int) []zab.ServerID {
	var out []zab.ServerID
	for i := range n {
		out = append(out, zab.ServerID(i+1))
	}
	return out
}

// ensemble makes n servers with histories drawn from seed, and says who has the best.
func ensemble(n int, seed uint64) (servers []server, best zab.ServerID) {
	rng := newRandom(seed)
	var top zab.Vote
	for _, id := range ids(n) {
		s := server{self: id, voters: ids(n), current: txn.Epoch(1 + rng.next()%3)}
		s.end = txn.MakeZxid(txn.Epoch(1+rng.next()%uint64(s.current)), uint32(1+rng.next()%4))
		servers = append(servers, s)
		if v := (zab.Vote{Leader: id, Epoch: s.current, Zxid: s.end}); v.Better(top) {
			top = v
		}
	}
	return servers, top.Leader
}

func each(t *testing.T, seeds int, f func(t *testing.T, n int, seed uint64)) {
	for _, n := range []int{3, 5} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("%d servers, seed %d", n, seed), func(t *testing.T) { f(t, n, seed) })
		}
	}
}

// All start at about the same time: the best history wins, in the first round, quickly.
func TestBestHistoryWins(t *testing.T) {
	each(t, 50, func(t *testing.T, n int, seed uint64) {
		servers, best := ensemble(n, seed)
		w := newNetwork(t, seed, lan, servers...)
		for _, id := range w.ids {
			w.start(id)
		}
		w.settle(300*time.Millisecond, func() bool { return w.leader(w.ids...) != 0 }, "an established leader")
		require.Equal(t, best, w.leader(w.ids...))
		require.Equal(t, 1, w.moves)
	})
}

// The leader's process dies: another one leads, without any timer on the way.
func TestFailover(t *testing.T) {
	var worst time.Duration
	each(t, 50, func(t *testing.T, n int, seed uint64) {
		servers, _ := ensemble(n, seed)
		w := newNetwork(t, seed, lan, servers...)
		for _, id := range w.ids {
			w.start(id)
		}
		w.settle(300*time.Millisecond, func() bool { return w.leader(w.ids...) != 0 }, "an established leader")
		w.run(100 * time.Millisecond)
		old := w.leader(w.ids...)
		w.kill(old)
		var rest []zab.ServerID
		for _, id := range w.ids {
			if id != old {
				rest = append(rest, id)
			}
		}
		took := w.settle(60*time.Millisecond, func() bool { return w.leader(rest...) != 0 }, "another leader")
		worst = max(worst, took)
		require.Equal(t, 2, w.moves)
	})
	t.Logf("slowest: %v", worst)
}

// I-48, R-10, K69: a minority node that flaps, cut off and back again or killed and started, deposes nobody.
func TestFlappingMinorityDeposesNobody(t *testing.T) {
	each(t, 20, func(t *testing.T, n int, seed uint64) {
		servers, _ := ensemble(n, seed)
		w := newNetwork(t, seed, lan, servers...)
		for _, id := range w.ids {
			w.start(id)
		}
		w.settle(300*time.Millisecond, func() bool { return w.leader(w.ids...) != 0 }, "an established leader")
		l := w.leader(w.ids...)
		flapper := l%zab.ServerID(n) + 1
		for i := range 12 {
			if i%2 == 0 {
				w.isolate(flapper)
				w.run(time.Duration(500+w.rng.next()%1500) * time.Millisecond)
				w.heal(flapper)
			} else {
				w.kill(flapper)
				w.run(time.Duration(w.rng.next()%300) * time.Millisecond)
				w.start(flapper)
			}
			w.run(time.Duration(w.rng.next()%1500) * time.Millisecond)
		}
		w.run(time.Second)
		w.settle(2*time.Second, func() bool { return w.leader(w.ids...) == l }, "the flapper back under the same leader")
		require.Equal(t, 1, w.moves, "leadership moved")
	})
}

// Connections break and processes die at random; once that stops, there is one leader that all follow (I-47).
func TestElectionsEnd(t *testing.T) {
	each(t, 50, func(t *testing.T, n int, seed uint64) {
		servers, _ := ensemble(n, seed)
		w := newNetwork(t, seed, 3*lan, servers...)
		for _, id := range w.ids {
			w.start(id)
		}
		for range 60 {
			w.trouble()
			w.run(time.Duration(w.rng.next()%100) * time.Millisecond)
		}
		w.calm()
		took := w.settle(8*time.Second, func() bool { return w.leader(w.ids...) != 0 }, "an established leader")
		w.run(5 * time.Second)
		moves := w.moves
		w.run(10 * time.Second)
		require.Equal(t, moves, w.moves, "after %v leadership still moved", took)
		require.NotZero(t, w.leader(w.ids...))
	})
}

// trouble breaks something.
func (w *network) trouble() {
	a := w.ids[w.rng.next()%uint64(len(w.ids))]
	b := w.ids[w.rng.next()%uint64(len(w.ids))]
	h := w.hosts[a]
	switch k := w.rng.next() % 8; {
	case !h.alive:
		w.start(a)
	case k == 0:
		w.kill(a)
	case k == 1 && a != b:
		w.cut[pair(a, b)] = true
		w.notice(pair(a, b))
	case k <= 3 && w.conn > 0:
		w.closeWire(zab.ConnID(1 + w.rng.next()%uint64(w.conn)))
	case a != b && w.hosts[b].alive:
		w.disconnect(a, b, w.rng.next()%2 == 0)
		w.connect(a, b)
	}
}

func (w *network) calm() {
	for _, id := range w.ids {
		if !w.hosts[id].alive {
			w.start(id)
		}
	}
	clear(w.cut)
	for i, a := range w.ids {
		for _, b := range w.ids[:i] {
			w.connect(a, b)
		}
	}
}

// empty directories found an ensemble whatever the order in which servers start; nobody has to be re-admitted.
func TestFounding(t *testing.T) {
	each(t, 40, func(t *testing.T, n int, seed uint64) {
		var servers []server
		for _, id := range ids(n) {
			servers = append(servers, server{self: id, voters: ids(n), fresh: true})
		}
		w := newNetwork(t, seed, lan, servers...)
		for _, id := range w.ids {
			w.run(time.Duration(w.rng.next()%400) * time.Millisecond)
			require.Zero(t, w.moves, "an ensemble was founded without everybody")
			w.start(id)
		}
		w.settle(1500*time.Millisecond, func() bool { return w.leader(w.ids...) != 0 }, "an established leader")
		for _, id := range w.ids {
			require.False(t, w.hosts[id].disk.Recovering, "server %d missed the founding", id)
		}
	})
}

// K32: a wiped server and a stale one are no quorum.
func TestWipedServerDoesNotVote(t *testing.T) {
	for seed := range uint64(20) {
		w := newNetwork(t, seed, lan,
			server{self: 1, voters: ids(3), current: 1, end: txn.MakeZxid(1, 9)},
			server{self: 2, voters: ids(3), fresh: true},
			server{self: 3, voters: ids(3), current: 1, end: txn.MakeZxid(1, 1)})
		w.start(2)
		w.start(3)
		w.run(30 * time.Second)
		require.Zero(t, w.moves)
		w.start(1)
		w.settle(2*time.Second, func() bool { return w.leader(w.ids...) == 1 }, "the one with the history leads")
		require.True(t, w.hosts[2].disk.Recovering)
	}
}

// §5.7: all followers lose their connections to a healthy leader at once: no election under it.
func TestFollowersRejoinTogether(t *testing.T) {
	each(t, 30, func(t *testing.T, n int, seed uint64) {
		servers, _ := ensemble(n, seed)
		w := newNetwork(t, seed, lan, servers...)
		for _, id := range w.ids {
			w.start(id)
		}
		w.settle(300*time.Millisecond, func() bool { return w.leader(w.ids...) != 0 }, "an established leader")
		l := w.leader(w.ids...)
		// The leader does not mind: its side of the connections stays as if it had not noticed.
		for c := zab.ConnID(1); c <= w.conn; c++ {
			if x := w.conns[c]; x.open && x.to == l {
				w.event(x.from, zab.ConnDown{Conn: c})
			}
		}
		w.run(2 * time.Millisecond)
		w.settle(200*time.Millisecond, func() bool { return w.leader(w.ids...) == l }, "all back under the leader")
		require.Equal(t, 1, w.moves)
	})
}
