package client

import (
	"context"
	"crypto/tls"
	"net"
)

// WithTLS makes every connection a TLS one. cfg is cloned; without a ServerName and without InsecureSkipVerify each
// server has to prove the host name of the connect string. Give WithDialer before it, if at all.
func WithTLS(cfg *tls.Config) Option {
	return func(o *options) {
		plain := o.dial
		o.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := plain(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			own := cfg.Clone()
			if host, _, err := net.SplitHostPort(addr); err == nil && own.ServerName == "" {
				own.ServerName = host
			}
			secure := tls.Client(nc, own)
			if err := secure.HandshakeContext(ctx); err != nil {
				nc.Close()
				return nil, err
			}
			return secure, nil
		}
	}
}
