package leader

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// ledBench is an established leader of so many servers, learners 2 to up in step, that has named digest 5 at 1:1.
func ledBench(t *testing.T, servers, up int) *bench {
	b := newBench(servers, nil)
	for id := 2; id <= up; id++ {
		b.step(zab.Accepted{Conn: zab.ConnID(id), Peer: zab.ServerID(id)})
		b.hear(id, &zab.FollowerInfo{Votable: true})
	}
	for id := 2; id <= up; id++ {
		b.hear(id, &zab.AckEpoch{Epoch: b.l.epoch, Vote: true})
	}
	for id := 2; id <= up; id++ {
		b.hear(id, &zab.Ack{Kind: zab.AckNewLeader, Epoch: b.l.epoch, Votable: true})
	}
	require.Equal(t, zab.Broadcast, b.l.phase)
	for id := 2; id <= up; id++ { // the secret
		b.hear(id, &zab.Ack{Kind: zab.AckPropose, Epoch: b.l.epoch, Durable: txn.MakeZxid(1, 1), Votable: true})
	}
	b.now = b.l.Deadline()
	require.Equal(t, []zab.AskDigest{{At: txn.MakeZxid(1, 1)}}, ofType[zab.AskDigest](b.step(zab.Tick{})))
	b.step(zab.StateDigest{At: txn.MakeZxid(1, 1), Digest: 5, Known: true})
	b.now = b.l.Deadline()
	ping := b.step(zab.Tick{})
	require.EqualValues(t, 5, ofType[zab.Send](ping)[0].Packet.(*zab.Ping).Digest)
	return b
}

func ofType[T zab.Effect](fx []zab.Effect) (out []T) {
	for _, e := range fx {
		if e, ok := e.(T); ok {
			out = append(out, e)
		}
	}
	return out
}

func (b *bench) found(id int, digest uint64) []zab.Effect {
	return b.hear(id, &zab.Pong{DigestZxid: txn.MakeZxid(1, 1), Digest: digest})
}

func TestAQuorumCondemnsALearner(t *testing.T) {
	b := ledBench(t, 3, 3)
	fx := b.found(2, 6)
	require.Empty(t, ofType[zab.Close](fx), "one against one")
	require.Zero(t, b.l.successor(2), "no successor")
	fx = b.found(3, 5)
	require.Equal(t, []zab.Close{{Conn: 2, Bye: zab.Bye{Code: zab.ByeDiverged, Text: "its digest at 1:1 is 0x6, a quorum has another"}}}, ofType[zab.Close](fx))
	require.Nil(t, b.l.Leave())
	require.Zero(t, b.l.doubts.contested)
}

func TestAQuorumCondemnsTheLeader(t *testing.T) {
	b := ledBench(t, 5, 4)
	b.found(2, 6)
	require.Empty(t, ofType[zab.Freeze](b.found(3, 6)), "two of five")
	fx := b.found(4, 6)
	require.Len(t, ofType[zab.Freeze](fx), 1)
	h := ofType[zab.SaveHardState](fx)[0].State
	require.True(t, h.Diverged && h.Recovering)
	closes := ofType[zab.Close](fx)
	require.Len(t, closes, 3)
	for _, c := range closes {
		require.Equal(t, zab.ByeOddOut, c.Bye.Code)
	}
	require.NotEmpty(t, b.l.Leave().Fatal)
}

// TestNobodyIsCondemnedWithoutAQuorum: two of three, and they differ.
func TestNobodyIsCondemnedWithoutAQuorum(t *testing.T) {
	b := ledBench(t, 3, 2)
	b.found(2, 6)
	for until := b.now.Add(b.l.cfg.ProposalStall); b.now < until; {
		require.Nil(t, b.l.Leave())
		b.now = b.l.Deadline()
		for _, s := range ofType[zab.Send](b.found(2, 6)) {
			if p, ok := s.Packet.(*zab.Ping); ok {
				require.Equal(t, txn.MakeZxid(1, 1), p.DigestZxid, "contested: named again")
			}
		}
	}
	require.NotNil(t, b.l.Leave())
	require.False(t, b.local.Hard.Diverged)
}

func TestWhoDoesNotCountCondemnsNobody(t *testing.T) {
	b := ledBench(t, 3, 3)
	b.l.byID[3].votable = false
	b.found(2, 6)
	require.Empty(t, ofType[zab.Freeze](b.found(3, 6)))
	require.False(t, b.local.Hard.Diverged)
}

// TestNoSnapshotIsSentWhileAStateIsContested: the copy would take its original's side.
func TestNoSnapshotIsSentWhileAStateIsContested(t *testing.T) {
	b := ledBench(t, 5, 4)
	b.local.Hist.Snapshot = zab.Position{Zxid: txn.MakeZxid(1, 1)}
	b.found(2, 6)
	require.Empty(t, ofType[zab.SendSnapshot](b.join(5)))
	b.found(3, 5)
	b.found(4, 5)
	b.now = b.l.Deadline()
	require.Len(t, ofType[zab.SendSnapshot](b.step(zab.Tick{})), 1, "it is clear now")
}

// A claim and the word that the session's time is up may come in one turn: the tracker had spoken before the claim was read (simulator seed
// 0xf4806, I-36).
func TestASessionThatIsClaimedDoesNotExpireInTheSameTurn(t *testing.T) {
	b := ledBench(t, 3, 3)
	fx := b.step(
		zab.Received{Conn: 2, Epoch: b.l.epoch, Packet: &zab.Revalidate{ID: 1, Session: 7, TimeoutMillis: 4000}},
		zab.Expired{Sessions: []txn.SessionID{7, 8}})
	asked := ofType[zab.Prepare](fx)
	require.Len(t, asked, 1)
	require.Len(t, asked[0].Requests, 1)
	require.EqualValues(t, 8, asked[0].Requests[0].Session)
	asked = ofType[zab.Prepare](b.step(zab.Expired{Sessions: []txn.SessionID{7}}))
	require.EqualValues(t, 7, asked[0].Requests[0].Session, "named again")
}
