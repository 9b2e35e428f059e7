package difftest

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// action is what a step does.
type action uint8

const (
	doOpen   action = iota // a new session on a new connection
	doAttach               // a known session on a new connection
	doCut                  // the client closes its connection; the session lives
	doBurst                // requests, pipelined
	doRaw                  // bytes that are no request; the server should close
	doGreet                // bytes instead of a handshake
	doWord                 // a four-letter word
	doExpire               // the client falls silent until its session has expired
	doSweep                // everybody waits until a node is gone by itself
	doFlush                // a ping on every connection, to bring out what waits
)

// password says what an attach presents.
type password uint8

const (
	rightPassword password = iota
	wrongPassword
	shortPassword
	nullPassword
)

// seen says which zxid a handshake claims to have seen.
type seen uint8

const (
	seenNothing seen = iota
	seenLatest
	seenFuture
	seenNegative
)

// request is one request of a burst.
type request struct {
	xid  int32
	op   proto.Op
	body []byte
	back int // if > 0, the body's first eight bytes become the zxid so many places before the latest, plus one
}

// step is one move of the clients. Which of its fields count depends on the action.
type step struct {
	act  action
	slot int // the client

	of          int // attach: the client whose session it is
	timeout     int32
	pass        password
	seen        seen
	readOnly    bool
	hasReadOnly bool

	requests []request
	bytes    []byte // raw, greet
	word     string
	path     string // sweep
	cut      bool   // expire: the connection is closed first
}

func (s step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %d: ", s.slot)
	switch s.act {
	case doOpen:
		fmt.Fprintf(&b, "open timeOut=%d seen=%d readOnly=%t/%t password=%d", s.timeout, s.seen, s.readOnly, s.hasReadOnly, s.pass)
	case doAttach:
		fmt.Fprintf(&b, "attach to the session of %d timeOut=%d seen=%d readOnly=%t/%t password=%d", s.of, s.timeout, s.seen, s.readOnly, s.hasReadOnly, s.pass)
	case doCut:
		b.WriteString("cut")
	case doRaw:
		fmt.Fprintf(&b, "raw %s", hex.EncodeToString(s.bytes))
	case doGreet:
		fmt.Fprintf(&b, "greet %s", hex.EncodeToString(s.bytes))
	case doWord:
		fmt.Fprintf(&b, "word %q", s.word)
	case doExpire:
		fmt.Fprintf(&b, "expire cut=%t", s.cut)
	case doSweep:
		fmt.Fprintf(&b, "wait for the sweep of %s", s.path)
	case doFlush:
		b.WriteString("everyone: ping")
	}
	for i, q := range s.requests {
		if i > 0 {
			b.WriteString("\n          + ")
		}
		b.WriteString(q.String())
	}
	return b.String()
}

func (q request) String() string {
	head := fmt.Sprintf("%d %s", q.xid, q.op)
	if q.back > 0 {
		head += fmt.Sprintf(" (zxid %d back)", q.back)
	}
	if len(q.body) == 0 {
		return head
	}
	rec, text := proto.NewRequest(q.op), ""
	if q.op == proto.OpMulti || q.op == proto.OpMultiRead {
		if ops, err := proto.DecodeMulti(proto.NewReader(q.body)); err == nil {
			for _, op := range ops {
				text += fmt.Sprintf(" [%s %+v]", op.Op, op.Request)
			}
			return head + text
		}
	} else if rec != nil {
		if err := rec.Decode(proto.NewReader(q.body)); err == nil {
			return head + " " + fmt.Sprintf("%+v", rec)
		}
	}
	return head + " undecodable " + hex.EncodeToString(q.body)
}

// frame returns the bytes of the request, with its length; latest is the zxid that stands for back.
func (q request) frame(dst []byte, seen int64) []byte {
	dst, mark := proto.BeginFrame(dst)
	head := proto.RequestHeader{Xid: q.xid, Op: q.op}
	dst = head.Append(dst)
	if q.back > 0 && len(q.body) >= 8 {
		dst = proto.AppendInt64(dst, seen)
		dst = append(dst, q.body[8:]...)
	} else {
		dst = append(dst, q.body...)
	}
	return proto.EndFrame(dst, mark)
}
