package client

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// Client is one session with an ensemble. Its methods may be called from any goroutine; those that ask a server wait for
// a connection if there is none, until their context ends or the session does. Data they return belongs to the caller,
// data they take may be reused when they return. Failures are *OpError.
type Client struct {
	opts     options
	chroot   string             // "" or a valid path that does not end in "/"
	hosts    *hosts             // the session loop's
	wake     chan struct{}      // capacity 1, full if the queue may hold something for the writer
	stop     context.CancelFunc // ends the session loop
	finished chan struct{}      // closed when the session loop has ended
	closing  sync.Once
	closeErr error // written inside closing

	mu       sync.Mutex
	state    State
	err      error         // why the session ended, nil while it lives
	done     chan struct{} // closed together with setting err
	leaving  bool          // Close was called: do not reconnect
	session  session
	real     bool    // a server that writes knows the session
	lastZxid int64   // highest that a reply carried
	conn     *conn   // that requests go to, nil if there is none
	queue    []*call // not sent yet, in the order of their calls
	creds    []credential
	watches  watches
	streams  streams
	counts   counters
	subs     []chan State
}

// Dial connects to one of the servers of connect, "host1:2181,host2:2181/chroot", and opens a session. Servers are tried
// in random order, again and again, until one gives a session or ctx ends; the error is then a *ConnectError. It wraps
// ErrBadArguments if connect or an option makes no sense, and is ErrSessionExpired if the session of WithSession is over. Ports default to 2181. With a chroot all paths of the client
// are below that node, which the caller has to create. ctx has no influence on the Client once Dial has returned.
func Dial(ctx context.Context, connect string, opts ...Option) (*Client, error) {
	addrs, chroot, err := parseConnectString(connect)
	if err != nil {
		return nil, err
	}
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	if ms := o.sessionTimeout.Milliseconds(); ms <= 0 || ms > math.MaxInt32 {
		return nil, fmt.Errorf("session timeout %v: %w", o.sessionTimeout, ErrBadArguments)
	}
	c := &Client{
		opts: o, chroot: chroot, hosts: newHosts(addrs), creds: o.creds,
		session:  session{id: o.sessionID, timeout: o.sessionTimeout, passwd: o.password},
		real:     o.sessionID != 0,
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		finished: make(chan struct{}),
	}
	cn, err := c.connect(ctx, new(backoff))
	if err != nil {
		return nil, err
	}
	var loop context.Context
	loop, c.stop = context.WithCancel(context.Background())
	go c.run(loop, cn)
	return c, nil
}

// Close ends the session, so that its ephemeral nodes go at once, and releases everything. Calls that still wait for
// their answer get it first, or fail with ErrClosed. An error means that no server confirmed the end, within five
// seconds: the session then expires by itself. Later calls return the same.
func (c *Client) Close() error {
	c.closing.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Client) close() error {
	c.mu.Lock()
	c.leaving = true
	state := c.state
	c.mu.Unlock()

	var err error
	k := newCall(proto.OpCloseSession, "", nil)
	switch {
	case state == StateConnected, state == StateReadOnly:
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_, err = c.do(ctx, k)
	case !state.Final():
		err = k.fault(ErrConnectionLoss)
	}
	c.end(ErrClosed)
	c.stop()
	<-c.finished
	return err
}

// State returns the present state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Done is closed when the session has ended: by expiry, by refused credentials or by Close.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns nil until Done is closed, then ErrSessionExpired, ErrAuthFailed or ErrClosed.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// SessionID returns the number that servers know the session by.
func (c *Client) SessionID() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.id
}

// SessionPassword returns what proves to servers, together with SessionID, that a session is one's own, see WithSession.
func (c *Client) SessionPassword() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.session.passwd)
}

// SessionTimeout returns the timeout that the servers granted at the last connect.
func (c *Client) SessionTimeout() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.timeout
}

// Server returns the address of the server that the client is connected to, "" if it is not.
func (c *Client) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return ""
	}
	return c.conn.addr
}

// LastZxid returns the highest transaction number that an answer carried.
func (c *Client) LastZxid() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastZxid
}
