package difftest

import (
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/proto"
)

// What a frame is called.
const (
	event   = "event"
	reply   = "reply"
	connect = "connect"
	words   = "words"
)

// fields takes the values off a message and names them.
type fields struct {
	r   *proto.Reader
	out []field
}

func (f *fields) int(name string) int32 {
	v := f.r.Int32()
	f.out = append(f.out, field{name: name, num: int64(v)})
	return v
}

func (f *fields) long(name string, k kind) int64 {
	v := f.r.Int64()
	f.out = append(f.out, field{name: name, kind: k, num: v})
	return v
}

func (f *fields) text(name, v string) { f.out = append(f.out, field{name: name, text: v}) }

func quote(s string, null bool) string {
	if null {
		return "null"
	}
	return strconv.Quote(s)
}

func (f *fields) string(name string) { f.text(name, quote(f.r.NullString())) }

func (f *fields) buffer(name string) {
	b := f.r.Buffer()
	if b == nil {
		f.text(name, "null")
		return
	}
	f.text(name, strconv.Quote(string(b)))
}

// set is a list whose order means nothing.
func (f *fields) set(name string, null bool, items []string) {
	if null {
		f.text(name, "null")
		return
	}
	slices.Sort(items)
	f.out = append(f.out, field{name: name + ".count", num: int64(len(items))})
	for _, s := range items {
		f.text(name, s)
	}
}

func (f *fields) strings(name string) {
	list := f.r.Strings()
	items := make([]string, len(list))
	for i, s := range list {
		items[i] = strconv.Quote(s)
	}
	f.set(name, list == nil, items)
}

func (f *fields) acl() {
	list := f.r.ACLs()
	items := make([]string, len(list))
	for i, a := range list {
		items[i] = a.Perms.String() + "(" + strconv.Itoa(int(a.Perms)) + ")" + quote(a.ID.Scheme, a.ID.SchemeNull) + ":" + quote(a.ID.ID, a.ID.IDNull)
	}
	f.set("acl", list == nil, items)
}

func (f *fields) stat() {
	f.long("czxid", zxid)
	f.long("mzxid", zxid)
	f.long("ctime", moment)
	f.long("mtime", moment)
	f.int("version")
	f.int("cversion")
	f.int("aversion")
	f.long("ephemeralOwner", session)
	f.int("dataLength")
	f.int("numChildren")
	f.long("pzxid", zxid)
}

// done ends the message: what did not decode, and what was left over, counts too.
func (f *fields) done(what string) frame {
	if f.r.Err() != nil {
		f.text("undecodable", f.r.Err().Error())
	}
	if n := f.r.Len(); n > 0 {
		rest := make([]byte, n)
		for i := range rest {
			if f.r.Bool() {
				rest[i] = 1
			}
		}
		f.text("rest", hex.EncodeToString(rest))
	}
	return frame{what: what, fields: f.out}
}

// decodeConnect reads the answer to a handshake.
func decodeConnect(b []byte) (frame, sessionKey) {
	f := fields{r: proto.NewReader(b)}
	var key sessionKey
	f.int("protocolVersion")
	f.int("timeOut")
	key.id = f.long("sessionId", session)
	key.password = slices.Clone(f.r.Buffer())
	f.out = append(f.out, field{name: "passwd", kind: secret, num: int64(len(key.password))})
	if f.r.Len() > 0 {
		readOnly := int64(0)
		if f.r.Bool() {
			readOnly = 1
		}
		f.out = append(f.out, field{name: "readOnly", num: readOnly})
	}
	return f.done(connect), key
}

// xidOf returns the first number of a frame after the handshake.
func xidOf(b []byte) int32 { return proto.NewReader(b).Int32() }

func decodeEvent(b []byte) frame {
	f := fields{r: proto.NewReader(b)}
	f.r.Int32()
	f.long("zxid", zxid)
	f.int("err")
	f.text("type", proto.EventType(f.r.Int32()).String())
	f.int("state")
	f.string("path")
	return f.done(event)
}

// decodeReply reads the reply to a request with that code.
func decodeReply(op proto.Op, b []byte) frame {
	f := fields{r: proto.NewReader(b)}
	f.int("xid")
	f.long("zxid", zxid)
	f.text("err", proto.ErrCode(f.r.Int32()).Name())
	if f.r.Len() > 0 {
		f.body(op)
	}
	return f.done(reply)
}

// body reads the record of a reply.
func (f *fields) body(op proto.Op) {
	switch op {
	case proto.OpCreate, proto.OpSync:
		f.string("path")
	case proto.OpCreate2, proto.OpCreateContainer, proto.OpCreateTTL:
		f.string("path")
		f.stat()
	case proto.OpExists, proto.OpSetData, proto.OpSetACL:
		f.stat()
	case proto.OpGetData, proto.OpReconfig:
		f.buffer("data")
		f.stat()
	case proto.OpGetACL:
		f.acl()
		f.stat()
	case proto.OpGetChildren:
		f.strings("children")
	case proto.OpGetChildren2:
		f.strings("children")
		f.stat()
	case proto.OpGetEphemerals:
		f.strings("ephemerals")
	case proto.OpGetAllChildrenNumber:
		f.int("totalNumber")
	case proto.OpAddWatch, proto.OpError:
		f.int("error")
	case proto.OpSASL:
		f.buffer("token")
	case proto.OpWhoAmI:
		f.whoAmI()
	case proto.OpMulti, proto.OpMultiRead:
		f.multi()
	}
}

func (f *fields) whoAmI() {
	n := f.r.Int32()
	var items []string
	for range n {
		if f.r.Err() != nil {
			break
		}
		scheme := quote(f.r.NullString())
		items = append(items, scheme+":"+quote(f.r.NullString()))
	}
	f.set("clientInfo", n < 0, items)
}

func (f *fields) multi() {
	for f.r.Err() == nil {
		op := proto.Op(f.r.Int32())
		done := f.r.Bool()
		f.text("op", op.String())
		f.int("op.err")
		if done {
			return
		}
		if op != proto.OpDelete && op != proto.OpCheck {
			f.body(op)
		}
	}
}
