package server

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/zab"
)

// Found by the simulator (seed 0x459): a server that has not applied the ensemble's secret yet cannot check a password. It closes, and the
// client tries another server; the answer for a wrong password would end the client's session.
func TestAServerWithoutTheSecretRefusesNoSession(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := newSolo(t, testConfig(), ln)
	t.Cleanup(s.stop)
	s.do(func() {
		s.rep.Established(s.now())
		s.srv.Serve(zab.Leading, 1, s.epoch)
	})
	c := s.dial()
	c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, SessionID: 77, Passwd: make([]byte, 16), HasReadOnly: true}))
	b, err := io.ReadAll(c.nc)
	require.NoError(t, err)
	require.Empty(t, b)
}
