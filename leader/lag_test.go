package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// TestLagIsReported: in records, bytes and time; and a learner that falls far behind is named once, and again when it is back.
func TestLagIsReported(t *testing.T) {
	b := ledBench(t, 3, 3)
	b.l.cfg.FallBehind = 100
	status := func() zab.LearnerStatus {
		var s zab.Status
		b.l.Status(&s)
		return s.Learners[0]
	}
	require.Zero(t, status().LagTxns+status().LagNanos+status().LagBytes)
	require.True(t, status().InStep)
	for range 5 {
		b.step(zab.Submit{Requests: []txn.Request{{Op: proto.OpDelete, Origin: 1, Conn: 7, Session: 5}}})
	}
	b.now = b.now.Add(150 * time.Millisecond)
	notes := func(message string) (n int) {
		for _, e := range ofType[zab.Note](b.step(zab.Tick{})) {
			if e.Message == message {
				require.EqualValues(t, 2, e.Peer)
				n++
			}
		}
		return n
	}
	b.hear(3, &zab.Ack{Kind: zab.AckPropose, Epoch: b.l.epoch, Durable: b.local.Hist.End.Zxid, Votable: true})
	x := status()
	require.EqualValues(t, 5, x.LagTxns)
	require.Greater(t, x.LagBytes, int64(100))
	require.False(t, x.InStep)
	require.EqualValues(t, 150*time.Millisecond, x.LagNanos)
	b.now = b.l.Deadline()
	require.Zero(t, notes(zab.NoteBehind), "told once")
	b.hear(2, &zab.Ack{Kind: zab.AckPropose, Epoch: b.l.epoch, Durable: b.local.Hist.End.Zxid, Votable: true})
	b.now = b.l.Deadline()
	require.Equal(t, 1, notes(zab.NoteInStep))
	require.True(t, status().InStep)
}
