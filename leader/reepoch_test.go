package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// knock: voter 3 comes, and leaves because it has promised a later epoch.
func (b *bench) knock(conn zab.ConnID, accepted txn.Epoch) []zab.Effect {
	b.step(zab.Accepted{Conn: conn, Peer: 3})
	b.step(zab.Received{Conn: conn, Packet: &zab.FollowerInfo{Votable: true, Accepted: accepted}})
	return b.step(zab.Received{Conn: conn, Packet: &zab.Bye{Code: zab.ByeEpochTooOld, Accepted: accepted}})
}

// live lets time pass, with learner 2 answering, and voter 3 knocking every 500 ms; it ends after so long or when the role is over.
func (b *bench) live(d time.Duration, accepted txn.Epoch) {
	conn := zab.ConnID(100)
	knocked := b.now
	for until := b.now.Add(d); b.now < until && b.l.Leave() == nil; {
		b.now = b.l.Deadline()
		b.step(zab.Tick{})
		b.hear(2, &zab.Pong{Nonce: b.l.pulse.nonce})
		if b.now.Sub(knocked) >= 500*time.Millisecond {
			knocked = b.now
			conn++
			b.knock(conn, accepted)
		}
	}
}

// TestAStuckVoterGetsItsEpochOncePerGap.
func TestAStuckVoterGetsItsEpochOncePerGap(t *testing.T) {
	b := ledBench(t, 3, 2)
	began := b.now
	b.live(10*time.Second, 9)
	require.NotNil(t, b.l.Leave())
	require.EqualValues(t, 1, b.l.Leave().Designated, "a handover to itself")
	require.GreaterOrEqual(t, b.now.Sub(began), reepochDelay)
	require.EqualValues(t, 9, b.local.Hard.Accepted, "the next epoch is above that")

	again := func() {
		b.l = New(b.local, b.fx, b.now)
		last := b.local.Hist.End
		b.step(zab.Accepted{Conn: 2, Peer: 2})
		b.hear(2, &zab.FollowerInfo{Votable: true, Accepted: b.local.Hard.Accepted})
		ack := &zab.AckEpoch{Epoch: b.l.epoch, Vote: true, Current: b.local.Hard.Current, Last: last, Table: b.local.Hist.Table.Clone()}
		b.hear(2, ack)
		b.hear(2, &zab.Ack{Kind: zab.AckNewLeader, Epoch: b.l.epoch, Durable: last.Zxid, Chain: last.Chain, Votable: true})
		require.Equal(t, zab.Broadcast, b.l.phase)
	}
	again()
	require.EqualValues(t, 10, b.l.epoch)
	since := b.now
	b.live(b.l.cfg.ReepochGap+10*time.Second, 20)
	require.NotNil(t, b.l.Leave())
	require.GreaterOrEqual(t, b.now.Sub(since), b.l.cfg.ReepochGap-time.Second, "not sooner: what was said of a voter once does not open the door to it")
	again()
	require.EqualValues(t, 21, b.l.epoch)
}
