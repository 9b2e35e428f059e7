package difftest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// superUser is the identity that every rule lets through; the servers know its digest.
const superUser = "super:secret"

// cleaner is a client of one server that puts the tree back to how it began.
type cleaner struct {
	c   *conn
	err error
}

// call makes one request and returns the reader of its reply, behind the header.
func (c *cleaner) call(op proto.Op, rec proto.Record) (*proto.Reader, proto.ErrCode) {
	if c.err != nil {
		return proto.NewReader(nil), proto.ErrConnectionLoss
	}
	records := []proto.Record{&proto.RequestHeader{Xid: 1, Op: op}}
	if rec != nil {
		records = append(records, rec)
	}
	c.c.send(proto.AppendFrame(nil, records...))
	b, err := c.c.next()
	if err != nil {
		c.err = fmt.Errorf("clean, %s: %w", op, err)
		return proto.NewReader(nil), proto.ErrConnectionLoss
	}
	var head proto.ReplyHeader
	r := proto.NewReader(b)
	c.err = head.Decode(r)
	return r, head.Err
}

// must is call for what cannot be refused.
func (c *cleaner) must(op proto.Op, rec proto.Record) *proto.Reader {
	r, code := c.call(op, rec)
	if c.err == nil && code != proto.OK {
		c.err = fmt.Errorf("clean, %s %+v: %w", op, rec, code)
	}
	return r
}

// empty deletes everything below path but the nodes that every tree has.
func (c *cleaner) empty(path string) {
	r := c.must(proto.OpGetChildren, &proto.PathWatchRequest{Path: path})
	names := r.Strings()
	slices.Sort(names)
	for _, name := range names {
		child := strings.TrimSuffix(path, "/") + "/" + name
		c.empty(child)
		if !proto.IsReserved(child) {
			c.must(proto.OpDelete, &proto.DeleteRequest{Path: child, Version: -1})
		}
	}
}

// clean ends the sessions and empties the tree of one server.
func clean(addr string, sessions []sessionKey) error {
	for _, key := range sessions {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		c.send(proto.AppendFrame(nil, &proto.ConnectRequest{SessionID: key.id, Passwd: key.password, TimeOut: 30000, HasReadOnly: true}))
		if a, got := c.shake(); !a.closed && got.id != 0 {
			k := cleaner{c: c}
			k.call(proto.OpCloseSession, nil)
		}
		c.close()
	}
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	c.send(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 30000, Passwd: make([]byte, proto.PasswordBytes), HasReadOnly: true}))
	c.shake()
	k := cleaner{c: c}
	k.must(proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: []byte(superUser)})
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota"} {
		k.must(proto.OpSetACL, &proto.SetACLRequest{Path: path, ACL: proto.OpenACL(), Version: -1})
		k.must(proto.OpSetData, &proto.SetDataRequest{Path: path, Data: []byte{}, Version: -1})
	}
	readable := proto.OpenACL()
	readable[0].Perms = proto.PermRead
	k.must(proto.OpSetACL, &proto.SetACLRequest{Path: "/zookeeper/config", ACL: readable, Version: -1})
	// Quotas first, so that none is charged for the rest.
	k.empty("/zookeeper/quota")
	k.empty("/")
	k.must(proto.OpCloseSession, nil)
	return k.err
}
