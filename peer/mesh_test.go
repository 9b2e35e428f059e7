package peer

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

// Found by the simulator (seed 0x55f): a dial fails after the other side's connection was adopted. A MeshDown behind that MeshUp would
// make the core deaf to the peer for good.
func TestADialThatFailsSaysNothingWhenTheOtherSideConnectedMeanwhile(t *testing.T) {
	p := &Peer{inbox: newInbox()}
	mp := &meshPeer{m: &mesh{p: p}, id: 2}
	mp.downUnlessUp(zab.MeshDown{Peer: 2, Active: true})
	require.Equal(t, []zab.Event{zab.MeshDown{Peer: 2, Active: true}}, p.inbox.take())

	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	require.True(t, mp.adopt(a, &zab.Hello{}))
	mp.downUnlessUp(zab.MeshDown{Peer: 2, Active: true})
	require.Equal(t, []zab.Event{zab.MeshUp{Peer: 2}}, p.inbox.take())
}
