package load

import (
	"bytes"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// readCounter is a connection with everything already there.
type readCounter struct {
	net.Conn
	in    *bytes.Reader
	reads int
}

func (c *readCounter) Read(b []byte) (int, error) {
	c.reads++
	return c.in.Read(b)
}

// What costs a system call per reply measures system calls. The first read has the room for a handshake, the second room for all the others.
func TestManyShortRepliesAreReadAtOnce(t *testing.T) {
	for _, size := range []int{replyHeaderBytes, 100, handshakeBytes - proto.FrameHeaderBytes, handshakeBytes, 900} {
		reply, mark := proto.BeginFrame(nil)
		reply = proto.EndFrame(append(reply, make([]byte, size)...), mark)
		nc := &readCounter{in: bytes.NewReader(bytes.Repeat(reply, 64))}
		c := &conn{nc: nc, in: make([]byte, handshakeBytes)}
		for range 64 {
			f, err := c.frame()
			require.NoError(t, err)
			require.Len(t, f, size)
		}
		require.Equal(t, 2, nc.reads, "replies of %d bytes", size)
	}
}

func TestAConnectionWithoutManyRepliesStaysSmall(t *testing.T) {
	reply, mark := proto.BeginFrame(nil)
	reply = proto.EndFrame(append(reply, make([]byte, 20)...), mark)
	nc := &readCounter{in: bytes.NewReader(nil)}
	c := &conn{nc: nc, in: make([]byte, handshakeBytes)}
	for range 1000 {
		nc.in.Reset(reply)
		_, err := c.frame()
		require.NoError(t, err)
	}
	require.Len(t, c.in, handshakeBytes)
}
