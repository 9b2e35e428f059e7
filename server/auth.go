package server

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// firstIDs is what a connection has proven by being there: its address.
func firstIDs(remote netip.AddrPort) []proto.ID {
	if !remote.IsValid() {
		return nil
	}
	return []proto.ID{{Scheme: "ip", ID: addressText(remote.Addr())}}
}

// addressText writes an address as ZooKeeper does: all eight groups of an IPv6 one, without leading zeros.
func addressText(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	var b strings.Builder
	for i, raw := 0, a.As16(); i < len(raw); i += 2 {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%x", binary.BigEndian.Uint16(raw[i:]))
	}
	return b.String()
}

// authenticate handles an auth packet at once, before what waits; requests that came before it keep the ids of then. An error, for one that
// does not decode, ends the connection.
func (c *conn) authenticate(xid int32, body []byte) error {
	var q proto.AuthPacket
	if err := q.Decode(proto.NewReader(body)); err != nil {
		return err
	}
	code := c.prove(&q)
	c.reply(xid, 0, code, nil)
	if code != proto.OK {
		c.rep.stats.authFailed.Add(1)
		c.shut("authentication failed")
	}
	return nil
}

// maxIDs and maxIDBytes bound what a connection can prove. Every write carries its ids to the leader, and every check of an access list
// runs through them.
const (
	maxIDs     = 256
	maxIDBytes = 64 << 10
)

func (c *conn) prove(q *proto.AuthPacket) proto.ErrCode {
	switch {
	case q.Scheme == "ip":
		return proto.OK // it has that id already
	case q.Scheme == "digest" && q.Auth != nil:
		digest := proto.DigestID(q.Auth)
		if super := c.srv.cfg.SuperDigest; super != "" && digest == super && c.addID(proto.ID{Scheme: "super"}) != proto.OK {
			return proto.ErrAuthFailed
		}
		return c.addID(proto.ID{Scheme: "digest", ID: digest})
	}
	return proto.ErrAuthFailed
}

// addID replaces ids: earlier requests and the leader hold the old list. ErrAuthFailed if there are too many.
func (c *conn) addID(id proto.ID) proto.ErrCode {
	if slices.Contains(c.ids, id) {
		return proto.OK
	}
	bytes := len(id.ID)
	for i := range c.ids {
		bytes += len(c.ids[i].ID)
	}
	if len(c.ids) >= maxIDs || bytes > maxIDBytes {
		return proto.ErrAuthFailed
	}
	c.ids = append(slices.Clip(slices.Clone(c.ids)), id)
	return proto.OK
}
