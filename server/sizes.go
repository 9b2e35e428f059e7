package server

import (
	"encoding/binary"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
)

// oversized is the error of a request that was refused by its length alone, with what had come of it.
type oversized struct {
	op   proto.Op
	path string // "" if it is not known
	err  error
}

func (e *oversized) Error() string { return e.err.Error() }
func (e *oversized) Unwrap() error { return e.err }

// nameOversized looks into the first bytes of a frame that was refused.
func nameOversized(waiting []byte, err error) error {
	e := &oversized{err: err}
	if rest := waiting[min(len(waiting), proto.FrameHeaderBytes):]; len(rest) >= requestHeaderBytes {
		e.op = proto.Op(binary.BigEndian.Uint32(rest[4:]))
		e.path = pathOf(e.op, rest[requestHeaderBytes:])
	}
	return e
}

// pathOf returns the path that a request is about, "" if it has none or it is not all there.
func pathOf(op proto.Op, body []byte) string {
	switch op {
	case proto.OpMulti, proto.OpMultiRead:
		body = body[min(len(body), 9):] // the first operation's header
	case proto.OpSetWatches, proto.OpSetWatches2, proto.OpAuth, proto.OpSASL, proto.OpReconfig:
		return ""
	}
	r := proto.NewReader(body)
	path := r.String()
	if r.Err() != nil {
		return ""
	}
	return path
}

// largeReply is a reply that a client with the same jute.maxbuffer will not take.
type largeReply struct {
	op    proto.Op
	path  string
	bytes int
}

// noteLarge remembers it for the log. The caller holds mu, under which nothing is logged.
func (c *conn) noteLarge(e *entry, bytes int) {
	c.large.Store(&largeReply{op: e.op, path: pathOf(e.op, e.body), bytes: bytes})
}

// tellLarge logs it.
func (c *conn) tellLarge() {
	if l := c.large.Swap(nil); l != nil {
		c.srv.complain(c, "reply is larger than clients may take", zap.Stringer("session", c.session), zap.Stringer("op", l.op), zap.String("path", l.path),
			zap.Int("bytes", l.bytes), zap.Int("jute.maxbuffer", c.srv.cfg.MaxFrame))
	}
}
