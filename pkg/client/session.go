package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// session is what identifies the session to the servers.
type session struct {
	id      int64 // 0 before the first connection
	passwd  []byte
	timeout time.Duration // wanted, after the first connection granted
}

// run is the session loop: it serves the connection, and connects again, until the session ends. Dial starts it, Close
// and the session's end stop it.
func (c *Client) run(ctx context.Context, cn *conn) {
	defer close(c.finished)
	defer c.stop()
	back := new(backoff)
	for {
		began := time.Now()
		err := c.serve(ctx, cn)
		if !c.lost(cn, err) {
			c.end(ErrClosed) // if Close began, and the connection broke before it came to that
			return
		}
		if time.Since(began) >= maxBackoff || c.wasUseful(cn) {
			back.reset() // it was a real connection, not one that is cut as soon as it is made
		}
		if cn, err = c.connect(ctx, back); err != nil {
			if ctx.Err() == nil {
				c.end(err)
			}
			return
		}
	}
}

func (c *Client) wasUseful(cn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cn.useful
}

// connect tries server after server until one takes the session. It returns ErrSessionExpired if one refuses it, or a
// *ConnectError when ctx has ended.
func (c *Client) connect(ctx context.Context, back *backoff) (*conn, error) {
	trouble := new(ConnectError)
	for {
		if err := back.wait(ctx, len(c.hosts.addrs)); err != nil {
			trouble.Err = err
			return nil, trouble
		}
		addr := c.hosts.take()
		cn, err := c.attach(ctx, addr)
		if err == nil {
			return cn, nil
		}
		if errors.Is(err, ErrSessionExpired) {
			return nil, ErrSessionExpired
		}
		trouble.note(addr, err, ctx.Err() == nil)
		c.opts.hooks.failed(addr, err)
		c.opts.log.Debug("connect failed", "addr", addr, "error", err)
	}
}

// attach connects to one server and opens the session there, or attaches the one that is.
func (c *Client) attach(ctx context.Context, addr string) (*conn, error) {
	c.mu.Lock()
	sess, zxid := c.session, c.lastZxid
	if !c.real { // a read-only server's sessions are nothing to the others
		sess.id, sess.passwd = 0, make([]byte, proto.PasswordBytes)
	}
	c.mu.Unlock()

	limit := max(sess.timeout/time.Duration(len(c.hosts.addrs)), minDialTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.counts.attempts.Add(1)
	nc, err := c.opts.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	cn := newConn(nc, addr)
	undo := context.AfterFunc(ctx, func() { nc.Close() })
	granted, err := cn.handshake(sess, zxid, c.opts.readOnly)
	if !undo() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	c.attached(cn, granted)
	c.counts.connects.Add(1)
	c.opts.hooks.connected(addr)
	return cn, nil
}

// attached makes cn the connection of the session and lays out what it has to send first.
func (c *Client) attached(cn *conn, granted session) {
	c.opts.log.Info("connected", "addr", cn.addr, "session", granted.id, "timeout", granted.timeout)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = granted
	c.real = c.real || !cn.reading
	c.conn = cn
	for _, a := range c.creds {
		frame := a.frame()
		cn.first = append(cn.first, frame...)
		cn.auths = append(cn.auths, &call{op: proto.OpAuth, again: true, done: make(chan struct{})})
	}
	cn.first, cn.rearming = c.streams.appendFrames(cn.first, c.lastZxid)
	cn.first = c.watches.appendFrames(cn.first, c.lastZxid)
	if c.err == nil {
		if cn.reading {
			c.setStateLocked(StateReadOnly)
		} else {
			c.setStateLocked(StateConnected)
		}
	}
}

// lost takes back a connection that has ended: what it did not answer fails. It reports whether to look for another.
func (c *Client) lost(cn *conn, cause error) bool {
	c.opts.log.Info("connection lost", "addr", cn.addr, "error", cause)
	defer c.opts.hooks.disconnected(cn.addr, cause) // after the lock is given back
	c.counts.losses.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = nil
	for _, k := range cn.pending {
		k.finishLocked(nil, ErrConnectionLoss)
	}
	for _, k := range cn.auths {
		k.finishLocked(nil, ErrConnectionLoss)
	}
	cn.pending, cn.auths = nil, nil
	if c.err != nil || c.leaving {
		return false
	}
	c.setStateLocked(StateDisconnected)
	return true
}

// end ends the session for the reason err, once: it fails what waits, tells the watches and closes Done. What is on the
// wire fails when its connection does.
func (c *Client) end(err error) {
	if c.endLocking(err) {
		c.opts.log.Info("session ended", "error", err)
	}
}

func (c *Client) endLocking(err error) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	for _, k := range c.queue {
		k.finishLocked(nil, err)
	}
	c.queue = nil
	c.setStateLocked(finalState(err))
	c.watches.end(c.endEventLocked())
	c.streams.end(c.endEventLocked())
	close(c.done)
	return true
}

func (c *Client) endEventLocked() Event { return Event{Type: EventNone, State: c.state, Err: c.err} }

// backoff paces attempts: as many at once as there are servers, then with growing pauses. Jitter keeps the clients of a
// server that died from arriving at the next one together.
type backoff struct{ failed int }

func (b *backoff) reset() { b.failed = 0 }

func (b *backoff) wait(ctx context.Context, servers int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rounds := b.failed - servers
	b.failed++
	if rounds < 0 {
		return nil
	}
	pause := min(minBackoff<<min(rounds/servers, 10), maxBackoff)
	t := time.NewTimer(pause/2 + rand.N(pause/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
