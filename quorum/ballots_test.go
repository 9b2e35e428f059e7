package quorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func TestAdoptFollowsTheOrderOfVotes(t *testing.T) {
	z := txn.MakeZxid
	for _, c := range []struct {
		why   string
		heard zab.Vote
		want  zab.ServerID
	}{
		{"a larger currentEpoch beats a longer history (K25)", zab.Vote{Leader: 1, Epoch: 3, Zxid: z(1, 1)}, 1},
		{"a smaller one loses with any history (K68)", zab.Vote{Leader: 3, Epoch: 1, Zxid: z(1, 99)}, 2},
		{"then the history counts", zab.Vote{Leader: 1, Epoch: 2, Zxid: z(2, 6)}, 1},
		{"shorter", zab.Vote{Leader: 3, Epoch: 2, Zxid: z(2, 4)}, 2},
		{"then room on the disk", zab.Vote{Leader: 3, Epoch: 2, Zxid: z(2, 5), DiskLow: true}, 2},
		{"then the id", zab.Vote{Leader: 3, Epoch: 2, Zxid: z(2, 5)}, 3},
		{"a smaller id", zab.Vote{Leader: 1, Epoch: 2, Zxid: z(2, 5)}, 2},
		{"no vote", zab.Vote{}, 2},
		{"an observer is no candidate (K36)", zab.Vote{Leader: 4, Epoch: 9, Zxid: z(9, 9)}, 2},
		{"a stranger neither", zab.Vote{Leader: 77, Epoch: 9, Zxid: z(9, 9)}, 2},
	} {
		n, _ := server{self: 2, voters: ids(3), observers: []zab.ServerID{4}, current: 2, end: z(2, 5)}.node()
		n.Step(0, []zab.Event{zab.MeshUp{Peer: 1}, zab.MeshUp{Peer: 3}})
		n.Step(0, []zab.Event{zab.Heard{From: 1, Notification: zab.Notification{Round: n.round, Vote: c.heard, Votable: true, Seq: 1}}})
		require.Equal(t, c.want, n.voteNow(), c.why)
	}
}

// voteNow is whom n votes for, or has just elected.
func (n *Node) voteNow() zab.ServerID { return n.vote.Leader }

// muddle puts random words of others into a voting node.
func muddle(seed uint64) (*Node, zab.Instant) {
	r := newRandom(seed)
	pick := func(k uint64) uint64 { return r.next() % k }
	n, _ := server{self: 1, voters: ids(3 + 2*int(pick(2))), observers: []zab.ServerID{9}, current: 1, end: txn.MakeZxid(1, 5)}.node()
	n.Step(0, nil)
	now := zab.Instant(2 * time.Second)
	n.since = now.Add(-time.Duration(pick(3)) * time.Second)
	n.round = 3
	vote := func() zab.Vote {
		return zab.Vote{Leader: zab.ServerID(1 + pick(3)), Epoch: 1, Zxid: txn.MakeZxid(1, uint32(4+pick(3)))}
	}
	if n.vote = vote(); pick(8) == 0 {
		n.vote = zab.Vote{}
	}
	for _, p := range n.peers {
		p.connected, p.active, p.downAt = pick(3) > 0, pick(2) == 0, zab.Instant(pick(3))*zab.Instant(time.Second)
		p.own, p.hasOwn = vote(), pick(2) == 0
		switch pick(4) {
		case 0:
			p.voted, p.ballot = true, vote()
			p.last, p.hasLast = zab.Notification{Votable: true, Vote: p.ballot, Round: 3}, true
		case 1:
			p.hasSaid, p.hasLast = true, true
			p.said = zab.Notification{State: zab.Following, Leader: zab.ServerID(1 + pick(3)), Round: 2 + pick(2), Votable: true,
				EstablishedEpoch: txn.Epoch(pick(3))}
			if pick(2) == 0 {
				p.said.State, p.said.Leader = zab.Leading, p.id
			}
			p.last = p.said
		case 2:
			p.last, p.hasLast = zab.Notification{Votable: pick(2) == 0, Fresh: pick(2) == 0, Round: 3}, true
		}
	}
	return n, now
}

// The twins say the rules of the spec in the plainest way.

func twinDecided(n *Node) (quorumNow, ahead bool) {
	votes, more := 0, 0
	for _, s := range n.cfg.Members.Servers {
		if s.Observer {
			continue
		}
		if s.ID == n.cfg.Self {
			votes++
			continue
		}
		p := n.peer(s.ID)
		if p.voted && p.ballot.Leader == n.vote.Leader {
			votes++
		} else if !p.voted && p.hasSaid && p.said.Leader == n.vote.Leader && p.said.Round == n.round && p.said.EstablishedEpoch == 0 {
			more++
		}
	}
	need := len(n.cfg.Members.Voters())/2 + 1
	return votes >= need, votes+more >= need
}

func twinComplete(n *Node) bool {
	for _, p := range n.peers {
		if !p.voter {
			continue
		}
		answered := p.voted
		if p.hasSaid && p.said.State == zab.Leading {
			answered = true
		}
		if p.hasSaid && p.said.State == zab.Following {
			l := n.peer(p.said.Leader)
			answered = answered || l != nil && l.hasSaid && l.said.State == zab.Leading
			if p.said.Leader == n.cfg.Self && n.vote.Leader == n.cfg.Self && p.said.Round == n.round && p.said.EstablishedEpoch == 0 {
				answered = true // it has elected this server
			}
		}
		if !p.hasSaid && p.hasLast && !p.last.Votable {
			answered = true // supports nobody; this node's Ec is not 0
		}
		down := p.active && p.downAt.Add(n.cfg.HbTimeout) >= n.since
		worse := p.hasOwn && (p.own.Epoch < n.vote.Epoch || p.own.Epoch == n.vote.Epoch && p.own.Zxid <= n.vote.Zxid)
		if p.connected && !answered || !p.connected && !p.voted && !down && !worse {
			return false
		}
	}
	return true
}

func twinJoin(n *Node, now zab.Instant) (zab.ServerID, bool) {
	var found []*peer
	for _, l := range n.peers {
		if !l.voter || !l.hasSaid || l.said.State != zab.Leading {
			continue
		}
		same, round := 0, 0
		for _, p := range n.peers {
			if !p.voter {
				continue
			}
			if p.hasSaid && p.said.Leader == l.id && p.said.EstablishedEpoch == l.said.EstablishedEpoch {
				same++
			}
			if p.voted && p.ballot.Leader == l.id ||
				!p.voted && p.hasSaid && p.said.Leader == l.id && p.said.EstablishedEpoch == 0 && p.said.Round == n.round {
				round++
			}
		}
		if n.vote.Leader == l.id {
			round++
		}
		need := len(n.cfg.Members.Voters())/2 + 1
		e := l.said.EstablishedEpoch
		if e > 0 && (same >= need || now.Sub(l.leadingAt) >= n.cfg.JoinProbe) || e == 0 && l.said.Round == n.round && round >= need {
			found = append(found, l)
		}
	}
	var best *peer
	for _, l := range found {
		if best == nil || l.said.EstablishedEpoch > best.said.EstablishedEpoch {
			best = l
		}
	}
	if best == nil {
		return 0, false
	}
	return best.id, true
}

func TestCountingAgainstTwins(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(20_000) {
		n, now := muddle(seed)
		for _, p := range n.peers {
			if p.hasSaid && p.said.State == zab.Leading && p.said.EstablishedEpoch > 0 {
				p.leadingAt = now.Add(-time.Duration(seed%2) * n.cfg.JoinProbe)
			}
		}
		wantLeader, want := twinJoin(n, now)
		a, got := n.joinable(now)
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, wantLeader, a.leader, "seed %d", seed)
		require.Equal(t, twinComplete(n), n.complete(), "seed %d", seed)

		n.quorumAt = zab.Never
		quorumNow, ahead := twinDecided(n)
		decided := n.vote.Leader != 0 && (quorumNow && twinComplete(n) || !quorumNow && ahead && n.vote.Leader == n.cfg.Self)
		require.Equal(t, decided, n.decided(now), "seed %d", seed)
		if n.vote.Leader != 0 && quorumNow && !decided {
			require.False(t, n.decided(now.Add(n.cfg.FinalizeWait-1)), "seed %d", seed)
			require.True(t, n.decided(now.Add(n.cfg.FinalizeWait)), "seed %d", seed)
			seen["waited"]++
		}
		seen[fmt.Sprintf("decided %t", decided)]++
		seen[fmt.Sprintf("join %t", got)]++
		seen[fmt.Sprintf("complete %t", n.complete())]++
	}
	for _, k := range []string{"decided true", "decided false", "join true", "join false", "complete true", "complete false", "waited"} {
		require.Greater(t, seen[k], 100, k)
	}
}

func TestJitterStaysInBounds(t *testing.T) {
	r := newRandom(3)
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := r.around(200 * time.Millisecond)
		low, high = min(low, d), max(high, d)
	}
	require.GreaterOrEqual(t, low, 150*time.Millisecond)
	require.LessOrEqual(t, high, 250*time.Millisecond)
	require.Greater(t, high-low, 90*time.Millisecond)
}
