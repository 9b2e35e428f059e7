package leader

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// TestAFullFollowerThatIsNeededStopsWritesOnly: with another one in step writes go on without it; when it is needed they are refused before
// they have a zxid, and the leader goes on.
func TestAFullFollowerThatIsNeededStopsWritesOnly(t *testing.T) {
	b := ledBench(t, 3, 3)
	write := func() txn.Refusal {
		fx := b.step(zab.Submit{Requests: []txn.Request{{Op: proto.OpDelete, Origin: 1, Conn: 7, Session: 5}}})
		for _, r := range ofType[zab.Refuse](fx) {
			return r.Refusals[0].Code
		}
		return txn.NotRefused
	}
	b.hear(2, &zab.Pong{DiskFull: true})
	require.Equal(t, txn.NotRefused, write())
	b.step(zab.ConnDown{Conn: 3})
	end := b.local.Hist.End
	require.Equal(t, txn.RefusedDiskFull, write())
	require.Empty(t, ofType[zab.Prepare](b.step(zab.Expired{Sessions: []txn.SessionID{5}})), "and nobody expires")
	require.Equal(t, end, b.local.Hist.End)
	require.Nil(t, b.l.Leave())
	b.hear(2, &zab.Pong{})
	require.Equal(t, txn.NotRefused, write())
}
