package leader

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// bench is a leader of three or more whose learners are the test; its disk is done at once.
type bench struct {
	l     *Leader
	local *zab.Local
	fx    *zab.Effects
	now   zab.Instant
}

func newBench(servers int, change func(*zab.Config, *zab.History)) *bench {
	cfg := zab.DefaultConfig()
	cfg.Self, cfg.GatherLimit = 1, 0
	for i := range servers {
		cfg.Members.Servers = append(cfg.Members.Servers, zab.Server{ID: zab.ServerID(i + 1)})
	}
	hist := zab.NewHistory(zab.Position{}, zab.Position{}, 0, zab.EpochTable{Whole: true}, nil, cfg.TailBytes)
	if change != nil {
		change(&cfg, hist)
	}
	b := &bench{fx: &zab.Effects{}}
	b.local = zab.NewLocal(&cfg, zab.HardState{}, hist, b.fx)
	b.l = New(b.local, b.fx, 0)
	return b
}

// step gives events, completes the disk and answers prepare until nothing more follows.
func (b *bench) step(evs ...zab.Event) (all []zab.Effect) {
	for {
		for _, ev := range evs {
			if d, ok := ev.(zab.DiskDone); ok {
				b.local.Done(d)
			}
		}
		b.l.Step(b.now, evs)
		fx := b.fx.Take()
		all = append(all, fx...)
		evs = nil
		for _, e := range fx {
			switch e := e.(type) {
			case zab.Append:
				evs = append(evs, zab.DiskDone{ID: e.ID})
			case zab.SaveHardState:
				evs = append(evs, zab.DiskDone{ID: e.ID})
			case zab.Initialize:
				evs = append(evs, zab.DiskDone{ID: e.ID})
			case zab.Prepare:
				var drafts []txn.Draft
				for i := range e.Requests {
					drafts = append(drafts, txn.NewDraft(&txn.Txn{Body: &txn.CloseSession{}}, &e.Requests[i]))
				}
				evs = append(evs, zab.Prepared{Drafts: drafts})
			}
		}
		if len(evs) == 0 {
			return all
		}
	}
}

func (b *bench) hear(id int, p zab.Packet) []zab.Effect {
	return b.step(zab.Received{Conn: zab.ConnID(id), Packet: p})
}

// join brings learner id as far as ACKEPOCH with an empty history.
func (b *bench) join(id int) []zab.Effect {
	b.step(zab.Accepted{Conn: zab.ConnID(id), Peer: zab.ServerID(id)})
	b.hear(id, &zab.FollowerInfo{Votable: true})
	return b.hear(id, &zab.AckEpoch{Epoch: b.l.epoch, Vote: true})
}

// TestNonsenseCostsTheConnectionOnly: a learner may say what it likes, and the leader neither breaks nor counts what was not sent.
func TestNonsenseCostsTheConnectionOnly(t *testing.T) {
	for seed := range uint64(4000) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		b := newBench(3, nil)
		for range 60 {
			id := 2 + rnd.IntN(2)
			var fx []zab.Effect
			if b.l.byConn[zab.ConnID(id)] == nil {
				fx = b.step(zab.Accepted{Conn: zab.ConnID(id), Peer: zab.ServerID(id)})
			} else {
				fx = b.hear(id, nonsense(rnd, zab.ServerID(id), b.l))
			}
			for _, e := range fx {
				_, fatal := e.(zab.Fatal)
				require.False(t, fatal, "seed %d: %+v", seed, e)
			}
			h := b.local.Hist
			require.LessOrEqual(t, h.Commit, h.End.Zxid, "seed %d", seed)
			for _, x := range b.l.learners {
				require.LessOrEqual(t, x.match, x.sent, "seed %d", seed)
			}
		}
	}
}

func nonsense(rnd *rand.Rand, id zab.ServerID, l *Leader) zab.Packet {
	z := txn.MakeZxid(txn.Epoch(rnd.IntN(3)), uint32(rnd.IntN(4)))
	e := txn.Epoch(rnd.IntN(3))
	switch rnd.IntN(12) {
	case 0, 1:
		return &zab.FollowerInfo{Votable: rnd.IntN(4) > 0, RecoveryID: 9, Accepted: e, Current: min(e, 1)}
	case 2, 3:
		a := &zab.AckEpoch{Epoch: l.epoch, Vote: rnd.IntN(4) > 0, Current: e, Table: zab.EpochTable{Whole: rnd.IntN(4) > 0}, MinRestorable: z}
		if rnd.IntN(2) == 0 {
			a.Last = zab.Position{Zxid: z, Chain: uint64(rnd.IntN(2))}
			a.Table.Extend(z, a.Last.Chain)
		}
		return a
	case 4:
		return &zab.Ack{Kind: zab.AckNewLeader, Epoch: l.epoch, Durable: z, Votable: true}
	case 5:
		return &zab.Ack{Kind: zab.AckNewLeader, Epoch: l.epoch, Votable: true}
	case 6:
		return &zab.Ack{Kind: zab.AckPropose, Epoch: l.epoch, Durable: z, Votable: true}
	case 7:
		return &zab.Pong{Nonce: uint64(rnd.IntN(3)), Durable: z}
	case 8:
		return &zab.Requests{Requests: []txn.Request{{Origin: id, Conn: 3}}}
	case 9:
		return &zab.Sync{ID: 1}
	case 10:
		return &zab.SyncReject{Reason: "no", Last: zab.Position{Zxid: z}}
	}
	return &zab.Revalidate{ID: 1}
}

// TestSnapshotsAreSentToAFewAtATime: MaxSnapSends, except to voters that the quorum may need.
func TestSnapshotsAreSentToAFewAtATime(t *testing.T) {
	b := newBench(7, func(_ *zab.Config, h *zab.History) {
		at := zab.Position{Zxid: txn.MakeZxid(1, 5), Chain: 5}
		table := zab.EpochTable{Whole: true}
		table.Extend(at.Zxid, at.Chain)
		h.Rebase(at, 1000, table)
	})
	snaps := map[zab.ConnID]bool{}
	count := func(fx []zab.Effect) {
		for _, e := range fx {
			if s, ok := e.(zab.SendSnapshot); ok {
				snaps[s.Conn] = true
			}
		}
	}
	for id := 2; id <= 4; id++ {
		b.step(zab.Accepted{Conn: zab.ConnID(id), Peer: zab.ServerID(id)})
		b.hear(id, &zab.FollowerInfo{Votable: true})
	}
	for id := 2; id <= 4; id++ {
		count(b.hear(id, &zab.AckEpoch{Epoch: b.l.epoch, Vote: true}))
	}
	require.Len(t, snaps, 3, "a quorum is needed first")
	at := b.local.Hist.End
	for id := 2; id <= 4; id++ {
		b.step(zab.SnapshotSent{Conn: zab.ConnID(id), At: at})
		b.hear(id, &zab.Ack{Kind: zab.AckNewLeader, Epoch: b.l.epoch, Durable: at.Zxid, Chain: at.Chain, Votable: true})
	}
	require.NotZero(t, b.l.Established(), fmt.Sprint(b.l.learners))
	clear(snaps)
	for id := 5; id <= 7; id++ {
		count(b.join(id))
	}
	require.Equal(t, map[zab.ConnID]bool{5: true, 6: true}, snaps)
	count(b.step(zab.SnapshotSent{Conn: 5, At: at}))
	require.True(t, snaps[7], "its turn has come")
}

func TestStatusListsTheLearners(t *testing.T) {
	b := newBench(3, nil)
	var s zab.Status
	b.l.Status(&s)
	require.Equal(t, "waiting for a quorum in discovery", s.Reason)
	b.join(2)
	b.hear(2, &zab.Ack{Kind: zab.AckNewLeader, Epoch: 1, Votable: true})
	s = zab.Status{}
	b.l.Status(&s)
	require.Equal(t, zab.Status{Phase: zab.Broadcast, Leader: 1, Epoch: 1, Pending: 1, PendingBytes: s.PendingBytes, SyncDiff: 1,
		Learners: []zab.LearnerStatus{{ID: 2, Synced: true, Mode: "DIFF", LagBytes: s.PendingBytes, LagTxns: 1, InStep: true}}}, s)
}

// TestARefusedCutIsFollowedByASnapshot: R-30, once per connection.
func TestARefusedCutIsFollowedByASnapshot(t *testing.T) {
	b := newBench(3, func(_ *zab.Config, h *zab.History) {
		at := zab.Position{Zxid: txn.MakeZxid(2, 5), Chain: 5}
		table := zab.EpochTable{Whole: true}
		table.Extend(txn.MakeZxid(1, 2), 12)
		table.Extend(at.Zxid, at.Chain)
		*h = *zab.NewHistory(zab.Position{}, at, at.Zxid, table, nil, 1000)
		h.Snapshot, h.SnapSize = at, 1
	})
	connect := func(conn int) []zab.Effect {
		ack := &zab.AckEpoch{Epoch: b.l.epoch, Vote: true, Table: zab.EpochTable{Whole: true}, Last: zab.Position{Zxid: txn.MakeZxid(1, 3), Chain: 13}}
		ack.Table.Extend(ack.Last.Zxid, ack.Last.Chain)
		b.step(zab.Accepted{Conn: zab.ConnID(conn), Peer: 2})
		b.hear(conn, &zab.FollowerInfo{Votable: true, Accepted: 1, Current: 1})
		ack.Epoch = b.l.epoch
		return b.hear(conn, ack)
	}
	b.local.Hard = zab.HardState{Accepted: 2, AcceptedLeader: 1, Current: 2}
	fx := connect(20)
	require.Equal(t, &zab.Trunc{To: zab.Position{Zxid: txn.MakeZxid(1, 2), Chain: 12}}, the[zab.Send](fx)[0].Packet)
	reject := &zab.SyncReject{Reason: "no", Last: zab.Position{Zxid: txn.MakeZxid(1, 3), Chain: 13}}
	require.Len(t, the[zab.SendSnapshot](b.hear(20, reject)), 1)
	require.Len(t, the[zab.Close](b.hear(20, reject)), 1)

	// A log that cannot be read makes the next connection start with a snapshot (S16).
	fx = connect(21)
	require.IsType(t, &zab.Trunc{}, the[zab.Send](fx)[0].Packet)
	read := the[zab.ReadLog](fx)
	require.Len(t, read, 1)
	fx = b.step(zab.LogRead{Conn: 21, After: read[0].After, Gone: true})
	require.Len(t, the[zab.Close](fx), 1)
	require.Len(t, the[zab.SendSnapshot](connect(22)), 1)
}

func the[E zab.Effect](fx []zab.Effect) (found []E) {
	for _, e := range fx {
		if x, ok := e.(E); ok {
			found = append(found, x)
		}
	}
	return found
}

// TestTheSuccessorGoesWhileDraining: another takes its place when this server is to stop; otherwise the handover is over.
func TestTheSuccessorGoesWhileDraining(t *testing.T) {
	for _, stop := range []bool{false, true} {
		b := newBench(3, nil)
		for id := 2; id <= 3; id++ {
			b.join(id)
			x := b.l.byConn[zab.ConnID(id)]
			b.hear(id, &zab.Ack{Kind: zab.AckNewLeader, Epoch: 1, Durable: x.end.Zxid, Chain: x.end.Chain, Votable: true})
		}
		require.NotZero(t, b.l.Established())
		b.step(zab.Submit{Requests: []txn.Request{{Origin: 1, Conn: 1}}}) // keeps both from leaving at once
		if stop {
			b.step(zab.Stop{})
		} else {
			b.step(zab.HandOver{Target: 3})
		}
		require.Equal(t, zab.Draining, b.l.Phase())
		require.Nil(t, b.l.Leave())
		b.step(zab.ConnDown{Conn: 3})
		if stop {
			b.hear(2, &zab.Ack{Kind: zab.AckPropose, Epoch: 1, Durable: b.local.Hist.End.Zxid, Votable: true})
			require.Equal(t, &zab.Leave{Reason: "handed over", Designated: 2, Stopped: true}, b.l.Leave())
			continue
		}
		b.now = b.now.Add(b.l.cfg.HandoverLimit)
		b.step(zab.Tick{})
		require.Nil(t, b.l.Leave())
		require.Equal(t, zab.Broadcast, b.l.Phase())
	}
}

// TestASuccessorThatFallsSilentIsReplacedInTheSameStep: what a deadline makes possible is done at that deadline, not with the next frame
// that happens to come (seed 0xf44f4 of the simulator).
func TestASuccessorThatFallsSilentIsReplacedInTheSameStep(t *testing.T) {
	b := ledBench(t, 3, 3)
	b.hear(2, &zab.Pong{})
	b.hear(3, &zab.Pong{})
	silent := b.now.Add(b.l.cfg.Silence())
	for ; b.now < silent.Add(-100*time.Millisecond); b.now = b.now.Add(10 * time.Millisecond) {
		b.hear(3, &zab.Pong{})
	}
	b.step(zab.Submit{Requests: []txn.Request{{Origin: 1, Conn: 1}}})
	b.step(zab.HandOver{Target: 2})
	b.hear(3, &zab.Ack{Kind: zab.AckPropose, Epoch: 1, Durable: b.local.Hist.End.Zxid, Votable: true})
	require.Equal(t, b.local.Hist.End.Zxid, b.local.Hist.Commit)
	for ; b.now < silent; b.now = b.now.Add(10 * time.Millisecond) {
		b.step(zab.Tick{})
		require.Nil(t, b.l.Leave(), "server 2 has not acknowledged")
	}
	b.step(zab.Tick{})
	require.Equal(t, &zab.Leave{Reason: "handed over", Designated: 3}, b.l.Leave())
}

// A learner whose bytes lie unread is not dropped as silent; one that has sent nothing is.
func TestAnUnreadLearnerIsNotSilent(t *testing.T) {
	b := ledBench(t, 3, 3)
	b.hear(2, &zab.Pong{})
	b.hear(3, &zab.Pong{})
	conn := b.l.byID[2].conn
	for end := b.now.Add(3 * b.l.cfg.Silence()); b.now < end; b.now = b.now.Add(50 * time.Millisecond) {
		b.hear(3, &zab.Pong{})
		b.step(zab.Tick{}, zab.Unread{Conn: conn})
	}
	require.NotNil(t, b.l.byConn[conn])
	for end := b.now.Add(b.l.cfg.Silence()); b.now <= end; b.now = b.now.Add(50 * time.Millisecond) {
		b.hear(3, &zab.Pong{})
		b.step(zab.Tick{})
	}
	require.Nil(t, b.l.byConn[conn])
}
