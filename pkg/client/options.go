package client

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// DefaultSessionTimeout is what Dial asks for unless WithSessionTimeout is given.
const DefaultSessionTimeout = 30 * time.Second

const (
	minBackoff     = 20 * time.Millisecond // after every server was tried once
	maxBackoff     = time.Second
	maxReplyBytes  = 64 << 20  // longest frame taken from a server
	maxBatchBytes  = 256 << 10 // a write that holds more than one request stops growing here
	maxWatchBytes  = 128 << 10 // path text in one setWatches
	closeTimeout   = 5 * time.Second
	minDialTimeout = 50 * time.Millisecond
	stateBacklog   = 16 // states that a subscriber may lag behind
)

// Option changes how Dial sets up a Client.
type Option func(*options)

type options struct {
	sessionTimeout time.Duration
	maxFrame       int
	dial           func(ctx context.Context, network, addr string) (net.Conn, error)
	log            *slog.Logger
	creds          []credential
	readOnly       bool
	hooks          Hooks
	sessionID      int64
	password       []byte
}

func defaults() options {
	return options{
		sessionTimeout: DefaultSessionTimeout,
		maxFrame:       proto.DefaultMaxFrame,
		dial:           new(net.Dialer).DialContext,
		log:            slog.New(slog.DiscardHandler),
		password:       make([]byte, proto.PasswordBytes),
	}
}

// WithSessionTimeout asks for a session timeout; servers move it into their bounds, see Client.SessionTimeout. Whole
// milliseconds count, at most 2^31-1 of them.
func WithSessionTimeout(d time.Duration) Option { return func(o *options) { o.sessionTimeout = d } }

// WithSession takes over a session that exists, with Client.SessionID and SessionPassword of the one who opened it: a
// process that has been started anew keeps its ephemeral nodes so. Dial fails with ErrSessionExpired if the session is
// over, or the password is not its. Watches and credentials do not come along, and a client that still has the session
// loses its connection to this one.
func WithSession(id int64, password []byte) Option {
	return func(o *options) { o.sessionID, o.password = id, append([]byte{}, password...) }
}

// WithMaxFrame sets the longest request in bytes, which should be the servers' jute.maxbuffer; the default is theirs too,
// 1 MiB less one byte. Longer ones fail with ErrTooLarge. A server that gets a longer one anyway breaks the connection.
func WithMaxFrame(bytes int) Option { return func(o *options) { o.maxFrame = bytes } }

// WithDialer replaces the net.Dialer, for tests, tunnels or TLS. network is always "tcp"; ctx bounds the attempt.
func WithDialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// WithLogger makes the client log connects, losses and the session's end at Info, fruitless attempts at Debug. It never
// logs data or credentials.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithReadOnly accepts servers that are cut off from the majority and only read, while there is no other. The state is
// then StateReadOnly and writes fail with ErrNotReadOnly; the client keeps looking for a server that writes.
func WithReadOnly() Option { return func(o *options) { o.readOnly = true } }

// WithAuth gives credentials from the first connection on, see Client.AddAuth. If they are refused the client ends with
// ErrAuthFailed.
func WithAuth(scheme string, auth []byte) Option {
	return func(o *options) { o.creds = append(o.creds, credential{scheme, append([]byte{}, auth...)}) }
}
