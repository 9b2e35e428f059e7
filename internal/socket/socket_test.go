package socket

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair is two ends of a TCP connection.
func pair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	ln, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	a, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	a = Quick(a)
	b, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	require.IsType(t, &Conn{}, a)
	require.IsType(t, &Conn{}, b)
	return a, b
}

// More than the kernel takes at once goes through, in both directions at the same time.
func TestConnCarriesEverything(t *testing.T) {
	a, b := pair(t)
	sent := make([]byte, 16<<20)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	var wg sync.WaitGroup
	for _, c := range []net.Conn{a, b} {
		wg.Go(func() {
			if n, err := c.Write(sent); n != len(sent) || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
		wg.Go(func() {
			got := make([]byte, len(sent))
			if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(sent, got) {
				t.Errorf("read %d: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// Ends, deadlines and losses look as they do with a net.TCPConn.
func TestConnFailsAsTCPConn(t *testing.T) {
	plain := func(t testing.TB) (a, b net.Conn) {
		a, b = pair(t)
		return a.(*Conn).TCPConn, b.(*Conn).TCPConn
	}
	for name, two := range map[string]func(testing.TB) (a, b net.Conn){"plain": plain, "quick": pair} {
		t.Run(name, func(t *testing.T) {
			a, b := two(t)
			require.NoError(t, a.SetReadDeadline(time.Unix(1, 0)))
			_, err := a.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			var ne net.Error
			require.ErrorAs(t, err, &ne)
			require.True(t, ne.Timeout())
			require.NoError(t, a.SetReadDeadline(time.Time{}))

			require.NoError(t, a.SetWriteDeadline(time.Unix(1, 0)))
			_, err = a.Write([]byte("x"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NoError(t, a.SetWriteDeadline(time.Time{}))

			n, err := a.Read(nil)
			require.Zero(t, n)
			require.NoError(t, err)

			_, err = b.Write([]byte("last"))
			require.NoError(t, err)
			require.NoError(t, b.(interface{ CloseWrite() error }).CloseWrite())
			all, err := io.ReadAll(a)
			require.NoError(t, err)
			require.Equal(t, "last", string(all))

			_, err = a.Write([]byte("nobody reads this"))
			require.NoError(t, err)
			require.NoError(t, b.(interface{ SetLinger(int) error }).SetLinger(0))
			require.NoError(t, b.Close()) // a reset
			require.Eventually(t, func() bool {
				_, err = a.Write([]byte("x"))
				return err != nil
			}, time.Minute, time.Millisecond)
			var op *net.OpError
			require.ErrorAs(t, err, &op)
			require.Equal(t, "write", op.Op)
			var errno syscall.Errno
			require.ErrorAs(t, err, &errno)

			require.NoError(t, a.Close())
			_, err = a.Read(make([]byte, 1))
			require.ErrorIs(t, err, net.ErrClosed)
			_, err = a.Write([]byte("x"))
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

func TestQuickLeavesOthersAlone(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	require.Equal(t, a, Quick(a))
}
