package quorum

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// wholeNetwork starts n empty servers with the real cores and waits for their ensemble.
func wholeNetwork(t *testing.T, n int, seed uint64) *network {
	var servers []server
	for _, id := range ids(n) {
		servers = append(servers, server{self: id, voters: ids(n), fresh: true})
	}
	w := newNetwork(t, seed, lan, servers...)
	w.whole = true
	for _, id := range w.ids {
		w.start(id)
	}
	w.settle(1500*time.Millisecond, func() bool { return w.leader(w.ids...) != 0 }, "an ensemble is founded")
	w.run(100 * time.Millisecond)
	return w
}

// agree requires that all live servers hold the same history.
func (w *network) agree() {
	var first []byte
	for _, id := range w.ids {
		h := w.hosts[id]
		if !h.alive {
			continue
		}
		var all []byte
		for _, r := range h.log {
			all = append(all, r.Bytes...)
		}
		if first == nil {
			first = all
		}
		require.Equal(w.t, first, all, "server %d has another history", id)
	}
	require.NotEmpty(w.t, first, "nothing was ever proposed")
}

// With real leader and follower cores: founding, death of the leader, its return.
func TestWholeFailover(t *testing.T) {
	var worst time.Duration
	each(t, 20, func(t *testing.T, n int, seed uint64) {
		w := wholeNetwork(t, n, seed)
		for range 3 {
			old := w.leader(w.ids...)
			moves := w.moves
			w.kill(old)
			var rest []zab.ServerID
			for _, id := range w.ids {
				if id != old {
					rest = append(rest, id)
				}
			}
			took := w.settle(150*time.Millisecond, func() bool { return w.leader(rest...) != 0 }, "another leader")
			worst = max(worst, took)
			require.Equal(t, moves+1, w.moves)
			w.start(old)
			w.settle(time.Second, func() bool { return w.leader(w.ids...) != 0 }, "the old leader back")
			require.Equal(t, moves+1, w.moves, "its return moved the leadership")
			w.run(200 * time.Millisecond)
		}
		w.agree()
	})
	t.Logf("slowest: %v", worst)
}

// Handover and graceful stop: the designated server leads next, without an election.
func TestWholeHandover(t *testing.T) {
	each(t, 20, func(t *testing.T, n int, seed uint64) {
		w := wholeNetwork(t, n, seed)
		old := w.leader(w.ids...)
		target := old%zab.ServerID(n) + 1
		elections := w.hosts[target].node.Status().Elections
		w.event(old, zab.HandOver{Target: target})
		w.settle(300*time.Millisecond, func() bool { return w.leader(w.ids...) == target }, "the target leads and all follow it")
		require.Equal(t, 2, w.moves)
		require.Equal(t, elections, w.hosts[target].node.Status().Elections)
		w.run(100 * time.Millisecond)

		w.event(target, zab.Stop{})
		w.settle(300*time.Millisecond, func() bool { return w.hosts[target].node.Status().Role == zab.Stopped }, "stopped")
		w.kill(target)
		var rest []zab.ServerID
		for _, id := range w.ids {
			if id != target {
				rest = append(rest, id)
			}
		}
		w.settle(300*time.Millisecond, func() bool { return w.leader(rest...) != 0 }, "a successor")
		w.agree()
	})
}

// a wiped follower comes back, does not count, is re-admitted, and votes again.
func TestWholeWipedIsReadmitted(t *testing.T) {
	each(t, 10, func(t *testing.T, n int, seed uint64) {
		w := wholeNetwork(t, n, seed)
		l := w.leader(w.ids...)
		wiped := l%zab.ServerID(n) + 1
		h := w.hosts[wiped]
		w.kill(wiped)
		w.run(50 * time.Millisecond)
		h.disk, h.log = zab.HardState{}, nil
		w.start(wiped)
		w.settle(time.Second, func() bool { return h.disk.Recovering && h.disk.RecoveryID != 0 }, "it writes down that it is recovering")
		w.settle(2*time.Second, func() bool { return h.node.Status().Votable }, "it counts again")
		require.Equal(t, l, w.leader(w.ids...))
		require.Equal(t, 1, w.moves)
		w.run(100 * time.Millisecond)
		w.agree()
	})
}

// K59: the leader's disk hangs for ever. Another one leads soon after T-diskStall, and the old one, which still answers, is in nobody's way.
func TestWholeHungLeader(t *testing.T) {
	each(t, 10, func(t *testing.T, n int, seed uint64) {
		w := wholeNetwork(t, n, seed)
		old := w.leader(w.ids...)
		w.hosts[old].hung = true
		w.event(old, zab.Submit{Requests: []txn.Request{{Origin: old, Conn: 1, Payload: []byte("x")}}})
		var rest []zab.ServerID
		for _, id := range w.ids {
			if id != old {
				rest = append(rest, id)
			}
		}
		w.run(zabDefaults.DiskStall)
		w.settle(300*time.Millisecond, func() bool { return w.leader(rest...) != 0 }, "another leader")
		w.run(10 * time.Second)
		require.Equal(t, 2, w.moves)
		require.Equal(t, zab.Looking, w.hosts[old].node.Status().Role)
	})
}

var zabDefaults = zab.DefaultConfig()

// Anything breaks at random; once that stops, all are under one leader with one history (I-47).
func TestWholeTrouble(t *testing.T) {
	each(t, 30, func(t *testing.T, n int, seed uint64) {
		w := wholeNetwork(t, n, seed)
		for range 40 {
			w.trouble()
			w.run(time.Duration(w.rng.next()%100) * time.Millisecond)
		}
		w.calm()
		w.settle(15*time.Second, func() bool { return w.leader(w.ids...) != 0 }, "an established leader")
		w.run(4 * time.Second)
		moves := w.moves
		w.run(4 * time.Second)
		require.Equal(t, moves, w.moves, "leadership still moved")
		require.NotZero(t, w.leader(w.ids...))
		w.agree()
	})
}
