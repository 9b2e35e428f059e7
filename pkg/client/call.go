package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/proto"
)

// call is one request on its way. The caller makes it and waits for done; from enqueue to done everything but op, path
// and frame is guarded by Client.mu.
type call struct {
	op     proto.Op
	path   string  // as the caller gave it
	frame  []byte  // whole, its xid set when it is sent
	watch  *Watch  // to register when the reply says so
	stream *Stream // likewise
	cred   *credential
	again  bool          // credentials given before: nobody waits, refusal ends the client
	conn   *conn         // that it was sent on, nil before
	done   chan struct{} // closed when body and err are set
	body   []byte        // of the reply, behind its header
	err    error
}

// newCall makes the frame of a request; record is nil for an op without one.
func newCall(op proto.Op, path string, record proto.Record) *call {
	h := proto.RequestHeader{Op: op}
	k := &call{op: op, path: path, done: make(chan struct{})}
	if record == nil {
		k.frame = proto.AppendFrame(nil, &h)
	} else {
		k.frame = proto.AppendFrame(nil, &h, record)
	}
	return k
}

func (k *call) setXid(xid int32) {
	binary.BigEndian.PutUint32(k.frame[proto.FrameHeaderBytes:], uint32(xid))
}

func (k *call) finishLocked(body []byte, err error) {
	k.body, k.err = body, err
	close(k.done)
}

// fault wraps err for the caller; the request certainly changed nothing.
func (k *call) fault(err error) error { return &OpError{Op: k.op, Path: k.path, Err: err} }

// unknown wraps err for the caller of a request that may have been carried out.
func (k *call) unknown(err error) error {
	return &OpError{Op: k.op, Path: k.path, Err: err, MaybeApplied: k.conn != nil && k.op.IsWrite()}
}

// do sends k and waits for its reply. The error is an *OpError.
func (c *Client) do(ctx context.Context, k *call) (*proto.Reader, error) {
	if err := c.begin(ctx, k); err != nil {
		return nil, err
	}
	return c.await(ctx, k)
}

// begin puts k into the queue, unless it cannot succeed.
func (c *Client) begin(ctx context.Context, k *call) error {
	if err := ctx.Err(); err != nil {
		return k.fault(err)
	}
	if n := len(k.frame) - proto.FrameHeaderBytes; n > c.opts.maxFrame {
		return k.fault(fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, n, c.opts.maxFrame))
	}
	if err := c.enqueue(k); err != nil {
		return k.fault(err)
	}
	return nil
}

// await waits for the reply of a call that was begun.
func (c *Client) await(ctx context.Context, k *call) (*proto.Reader, error) {
	select {
	case <-k.done:
	case <-ctx.Done():
		if c.abandon(k) {
			return nil, k.unknown(ctx.Err())
		}
	}
	switch k.err {
	case nil:
		return proto.NewReader(k.body), nil
	case ErrConnectionLoss, ErrClosed:
		return nil, k.unknown(k.err)
	}
	return nil, k.fault(k.err)
}

// decode reads the reply of k. One that makes no sense costs the connection, because nothing behind it can be trusted.
func (c *Client) decode(k *call, r *proto.Reader, record proto.Record) error {
	if err := record.Decode(r); err != nil {
		c.disarm(k) // before another connection can take it over
		k.conn.fail(fmt.Errorf("reply of %v: %w", k.op, err))
		return k.unknown(err)
	}
	return nil
}

// disarm takes back what the reply of k registered: the caller gets no Watch or Stream that it could stop.
func (c *Client) disarm(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.watch != nil {
		c.watches.remove(k.watch)
	}
	if k.stream != nil && !k.stream.over {
		c.streams.remove(k.stream)
		k.stream.endLocked()
	}
}

// ask is do and decode for the requests that are no more than that.
func (c *Client) ask(ctx context.Context, k *call, record proto.Record) error {
	r, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	return c.decode(k, r, record)
}

func (c *Client) enqueue(k *call) error {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.queue = append(c.queue, k)
	c.mu.Unlock()
	c.wakeWriter()
	return nil
}

func (c *Client) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look at the queue anyway
	}
}

// abandon gives up a call whose context has ended, unless its reply is already there. A late reply keeps its place in the
// order and is dropped.
func (c *Client) abandon(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-k.done:
		return false
	default:
	}
	if k.conn == nil {
		if i := slices.Index(c.queue, k); i >= 0 {
			c.queue = slices.Delete(c.queue, i, i+1)
		}
	}
	k.watch, k.stream = nil, nil
	return true
}
