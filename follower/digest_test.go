package follower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// pinged has the leader name digest d at 1:2 before that is applied, and then commits it.
func pinged(t *testing.T, d uint64) *rig {
	r := newRig(t, zab.HardState{}, nil, 0).serving(1)
	r.recs = history(zab.Position{}, 1, 2)
	r.hear(&zab.Propose{Records: r.recs, Commit: txn.MakeZxid(1, 1)})
	r.hear(&zab.Ping{Nonce: 1, DigestZxid: txn.MakeZxid(1, 2), Digest: d})
	r.settle()
	require.Empty(t, the[zab.AskDigest](r.all), "not applied")
	fx := r.hear(&zab.Commit{Commit: txn.MakeZxid(1, 2)})
	require.Equal(t, []zab.AskDigest{{At: txn.MakeZxid(1, 2)}}, the[zab.AskDigest](fx))
	require.IsType(t, zab.Apply{}, fx[0], "the state has come so far")
	return r
}

func TestEqualDigestsAreSaidInTheNextAnswer(t *testing.T) {
	r := pinged(t, 77)
	fx := r.step(zab.StateDigest{At: txn.MakeZxid(1, 2), Digest: 77, Known: true})
	require.Empty(t, fx)
	pong := sent[*zab.Pong](r.hear(&zab.Ping{Nonce: 2, DigestZxid: txn.MakeZxid(1, 2), Digest: 77}))[0]
	require.Equal(t, txn.MakeZxid(1, 2), pong.DigestZxid)
	require.EqualValues(t, 77, pong.Digest)
	var s zab.Status
	r.f.Status(&s)
	require.Equal(t, txn.MakeZxid(1, 2), s.DigestAgreed)

	r = pinged(t, 77)
	r.step(zab.StateDigest{At: txn.MakeZxid(1, 2)})
	require.Zero(t, sent[*zab.Pong](r.hear(&zab.Ping{Nonce: 2}))[0].DigestZxid, "not remembered any more: no word")
}

func TestAnotherDigestFencesAtOnce(t *testing.T) {
	r := pinged(t, 77)
	fx := r.step(zab.StateDigest{At: txn.MakeZxid(1, 2), Digest: 78, Known: true})
	require.Len(t, the[zab.Freeze](fx), 1)
	require.EqualValues(t, 78, sent[*zab.Pong](fx)[0].Digest, "the leader hears of it without a ping")
	note := the[zab.Note](fx)[0]
	require.Equal(t, zab.NoteDiverged, note.Message)
	require.Contains(t, note.Reason, "0x4e here, 0x4d at leader 1, both at 1:2")

	fx = r.step(zab.Submit{Requests: []txn.Request{{Conn: 7}}}, zab.SyncAsked{ID: 1}, zab.RevalidateAsked{Revalidate: zab.Revalidate{ID: 2}})
	require.Equal(t, txn.RefusedNotLeader, the[zab.Refuse](fx)[0].Refusals[0].Code)
	require.False(t, the[zab.SyncAnswer](fx)[0].Synced.OK)
	require.Empty(t, r.hear(&zab.Synced{ID: 9, OK: true}), "an answer that was on its way")

	more := history(end(r.recs), 1, 1)
	r.hear(&zab.Propose{Records: more})
	r.all = nil
	r.settle()
	require.Len(t, sent[*zab.Ack](r.all), 1, "the log is not in doubt")
	require.Nil(t, r.f.Leave())
}

func fenced(t *testing.T) *rig {
	r := pinged(t, 77)
	r.step(zab.StateDigest{At: txn.MakeZxid(1, 2), Digest: 78, Known: true})
	return r
}

func TestVerdicts(t *testing.T) {
	r := fenced(t) // it is this one: the disk knows before the process ends
	fx := r.hear(&zab.Bye{Code: zab.ByeDiverged})
	require.Empty(t, the[zab.Fatal](fx))
	h := the[zab.SaveHardState](fx)[0].State
	require.True(t, h.Diverged && h.Recovering && h.RecoveryID != 0)
	require.Equal(t, zab.ExitBrokenInvariant, the[zab.Fatal](r.disk())[0].Code)

	r = fenced(t) // it is the leader
	fx = r.hear(&zab.Bye{Code: zab.ByeOddOut})
	require.Empty(t, the[zab.Fatal](fx))
	require.Empty(t, the[zab.SaveHardState](fx))
	require.True(t, r.f.Leave().Lost)

	r = fenced(t) // nobody will say: memory is made anew, and nothing is marked
	fx = r.step(zab.ConnDown{Conn: 9})
	require.Equal(t, zab.ExitBrokenInvariant, the[zab.Fatal](fx)[0].Code)
	require.Empty(t, the[zab.SaveHardState](fx))

	r = fenced(t)
	require.Empty(t, the[zab.Fatal](r.step(zab.Stop{})))
}

func TestACondemnedObserverIsNotRecovering(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0)
	r.f.observer = true
	r.serving(1)
	h := the[zab.SaveHardState](r.hear(&zab.Bye{Code: zab.ByeDiverged}))[0].State
	require.True(t, h.Diverged)
	require.False(t, h.Recovering, "nobody would readmit it")
}
