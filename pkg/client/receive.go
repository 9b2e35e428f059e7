package client

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/proto"
)

// read takes frames until the connection ends or one makes no sense, which it returns.
func (c *Client) read(cn *conn) error {
	want := int32(1) // xid of the next reply
	for {
		frame, err := cn.readFrame()
		if err != nil {
			return err
		}
		c.counts.taken.Add(int64(proto.FrameHeaderBytes + len(frame)))
		var h proto.ReplyHeader
		r := proto.NewReader(frame)
		if err := h.Decode(r); err != nil {
			return err
		}
		body := frame[len(frame)-r.Len():]
		switch h.Xid {
		case proto.XidPing:
		case proto.XidNotification:
			err = c.onEvent(h.Zxid, r)
		case proto.XidAuth:
			err = c.onAuth(cn, h.Err)
		case proto.XidSetWatches:
			err = c.onRearmed(cn, h.Err)
		default:
			if h.Xid != want {
				return fmt.Errorf("%w: xid %d, want %d", ErrMarshalling, h.Xid, want)
			}
			want = nextAfter(want)
			err = c.onReply(cn, &h, body)
		}
		if err != nil {
			return err
		}
	}
}

// onReply hands a reply to the oldest request. The watch is registered here and not by the caller, because the event may
// be the very next frame.
func (c *Client) onReply(cn *conn, h *proto.ReplyHeader, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(cn.pending) == 0 {
		return fmt.Errorf("%w: a reply that nobody asked for", ErrMarshalling)
	}
	k := cn.pending[0]
	cn.pending[0] = nil
	cn.pending = cn.pending[1:]
	cn.useful = true
	c.counts.replies.Add(1)
	c.lastZxid = max(c.lastZxid, h.Zxid)
	if k.watch != nil {
		c.watches.add(k.watch, h.Err)
		if c.err != nil {
			c.watches.end(c.endEventLocked())
		}
	}
	if k.stream != nil && h.Err == proto.OK {
		c.streams.put(k.stream)
		if c.err != nil {
			c.streams.end(c.endEventLocked())
		}
	}
	k.finishLocked(body, h.Err.Err())
	return nil
}

// onRearmed takes the answer to a setWatches or setWatches2. When the last of the latter is there, the streams hear
// everything again.
func (c *Client) onRearmed(cn *conn, code proto.ErrCode) error {
	if code != proto.OK {
		return fmt.Errorf("watches refused: %w", code)
	}
	if cn.rearming == 0 {
		return nil
	}
	if cn.rearming--; cn.rearming == 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.streams.missed(c.state)
	}
	return nil
}

func (c *Client) onEvent(zxid int64, r *proto.Reader) error {
	var e proto.WatcherEvent
	if err := e.Decode(r); err != nil {
		return err
	}
	c.counts.events.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	event := Event{Type: e.Type, State: c.state, Path: c.stripChroot(e.Path), Zxid: max(zxid, 0)}
	c.watches.fire(e.Path, event)
	c.streams.fire(e.Path, event)
	return nil
}

// onAuth takes the answer to the oldest credentials. Refused ones that were good on an earlier connection end the client:
// it would go on with fewer rights than its user knows of.
func (c *Client) onAuth(cn *conn, code proto.ErrCode) error {
	c.mu.Lock()
	if len(cn.auths) == 0 {
		defer c.mu.Unlock()
		return fmt.Errorf("%w: an answer to credentials that were not given", ErrMarshalling)
	}
	k := cn.auths[0]
	cn.auths = cn.auths[1:]
	if code == proto.OK && k.cred != nil && !slices.ContainsFunc(c.creds, k.cred.equal) {
		c.creds = append(c.creds, *k.cred)
	}
	if code != proto.OK {
		c.conn = nil // the server will cut it: what the caller asks next has to wait for another
	}
	k.finishLocked(nil, code.Err())
	c.mu.Unlock()
	if code != proto.OK && k.again {
		c.end(ErrAuthFailed)
	}
	return code.Err()
}
