package live

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// secureFront puts TLS before the server at addr and returns its own address and who vouches for it.
func secureFront(t *testing.T, addr string) (front string, roots *x509.CertPool) {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate, which is for 127.0.0.1
	certified.Close()
	roots = x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certified.TLS.Certificates})
	require.NoError(t, err)
	var copies sync.WaitGroup
	copies.Go(func() {
		for {
			outer, err := ln.Accept()
			if err != nil {
				return
			}
			copies.Go(func() { join(outer, addr) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		copies.Wait()
	})
	return ln.Addr().String(), roots
}

// join copies both ways until either side ends.
func join(outer net.Conn, addr string) {
	defer outer.Close()
	inner, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer inner.Close()
	var back sync.WaitGroup
	back.Go(func() {
		defer outer.Close()
		io.Copy(outer, inner)
	})
	io.Copy(inner, outer)
	inner.Close()
	back.Wait()
}

func TestTLS(t *testing.T) {
	ctx := guard(t)
	first, _, _ := strings.Cut(servers(), ",")
	front, roots := secureFront(t, first)
	dial(ctx, t) // makes the chroot
	var w wire
	c, err := client.Dial(ctx, front+root(t), client.WithDialer(w.dial), client.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.Sync(ctx, "/"))
	create(ctx, t, c, "/big", strings.Repeat("x", 500_000)) // many records of TLS
	_, _, watch, err := c.GetW(ctx, "/big")
	require.NoError(t, err)
	w.set(true)
	w.set(false)
	require.Eventually(t, func() bool { _, _, err := c.Get(ctx, "/big"); return err == nil }, patience, time.Millisecond)
	_, err = c.Set(ctx, "/big", nil, client.AnyVersion)
	require.NoError(t, err)
	e, err := watch.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, client.EventNodeDataChanged, e.Type)

	refused := func(cfg *tls.Config) error {
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := client.Dial(limited, front, client.WithTLS(cfg),
			client.WithHooks(client.Hooks{Failed: func(string, error) { cancel() }}))
		require.Error(t, err)
		return err
	}
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, refused(&tls.Config{MinVersion: tls.VersionTLS12}), &unknown)
	var wrong x509.HostnameError
	require.ErrorAs(t, refused(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "elsewhere.test"}), &wrong)
	limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = client.Dial(limited, front) // plain words to a TLS server
	require.Error(t, err)
}
