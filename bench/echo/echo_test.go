package echo_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/bench/echo"
	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves on a free port until the test ends.
func start(t *testing.T, size int) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&echo.Server{Size: size}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return ln.Addr().String()
}

func TestARealClientIsAnsweredInTheRightSizes(t *testing.T) {
	addr := start(t, 1024)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, addr)
	require.NoError(t, err)
	defer c.Close()
	data, stat, err := c.Get(ctx, "/a")
	require.NoError(t, err)
	require.Len(t, data, 1024)
	require.EqualValues(t, 1024, stat.DataLength)
	names, _, err := c.Children(ctx, "/a")
	require.NoError(t, err)
	require.Len(t, names, 10)
	_, err = c.Set(ctx, "/a", make([]byte, 200_000), -1)
	require.NoError(t, err, "a request longer than the buffer")
}

func TestNonsenseEndsTheConnection(t *testing.T) {
	for name, frames := range map[string][]byte{
		"a length beyond the limit": {0x7f, 0, 0, 0},
		"a negative length":         {0xff, 0, 0, 0},
		"a request without an op":   append(hello(), 0, 0, 0, 4, 0, 0, 0, 1),
		"a create without a path":   append(hello(), 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 1),
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", start(t, 1))
			require.NoError(t, err)
			defer nc.Close()
			require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
			_, err = nc.Write(frames)
			require.NoError(t, err)
			for err == nil {
				_, err = nc.Read(make([]byte, 100))
			}
			var timeout net.Error
			require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the connection stays open: %v", err)
		})
	}
}

func hello() []byte {
	return proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 1000, Passwd: make([]byte, 16)})
}
