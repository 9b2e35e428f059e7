package tour

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that accepts and says nothing must make the tour fail in time, not hang.
func TestRunFailsOnASilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()

	var names, details []string
	c := &checker{
		log: func(ok bool, name, detail string) {
			require.False(t, ok, name)
			names, details = append(names, name), append(details, detail)
		},
		stepTimeout:    5 * time.Second,
		connectTimeout: 100 * time.Millisecond,
	}
	c.run([]string{listener.Addr().String()})
	require.Equal(t, []string{"setup"}, names)
	require.Contains(t, details[0], "no session through")
}

func TestStepEndsABodyThatHangs(t *testing.T) {
	var detail string
	c := &checker{log: func(_ bool, _, d string) { detail = d }, stepTimeout: time.Millisecond}
	hang := make(chan struct{})
	defer close(hang)
	require.False(t, c.step("hangs", func() error { <-hang; return nil }))
	require.Equal(t, "took too long", detail)
}
