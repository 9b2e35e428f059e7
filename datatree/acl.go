package datatree

import (
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// aclList is an access control list that nodes share.
type aclList struct {
	acl  []proto.ACL
	key  string
	refs int // nodes of the tree; clones need not be counted, they hold the pointer
}

// aclLists finds the shared list for an ACL. A list leaves with its last node.
type aclLists map[string]*aclList

// intern returns the shared list that equals acl, with one more reference.
func (l aclLists) intern(acl []proto.ACL) *aclList {
	var scratch [128]byte
	key := proto.AppendACLs(scratch[:0], acl)
	if s := l[string(key)]; s != nil {
		s.refs++
		return s
	}
	s := &aclList{acl: append([]proto.ACL(nil), acl...), key: string(key), refs: 1}
	l[s.key] = s
	return s
}

func (l aclLists) release(s *aclList) {
	if s.refs--; s.refs == 0 {
		delete(l, s.key)
	}
}

// Allowed reports whether a connection with the given ids has any of the wanted permissions under acl. An empty list allows
// everything, and so does an id of scheme super.
func Allowed(acl []proto.ACL, want proto.Perm, ids []proto.ID) bool {
	if len(acl) == 0 {
		return true
	}
	for i := range acl {
		if acl[i].Perms&want != 0 && matches(&acl[i].ID, ids) {
			return true
		}
	}
	for i := range ids {
		if ids[i].Scheme == "super" {
			return true
		}
	}
	return false
}

func matches(want *proto.ID, ids []proto.ID) bool {
	if want.Scheme == "world" {
		return want.ID == "anyone"
	}
	for i := range ids {
		if ids[i].Scheme != want.Scheme {
			continue
		}
		if ids[i].ID == want.ID || want.Scheme == "ip" && ipMatches(want.ID, ids[i].ID) {
			return true
		}
	}
	return false
}

// ipMatches compares the first bits of an address with an entry such as 10.0.0.0/8.
func ipMatches(entry, addr string) bool {
	base, bits, ok := parseIPEntry(entry)
	if !ok {
		return false
	}
	a, ok := parseIPv4(addr)
	return ok && uint64(a^base)>>(32-bits) == 0
}

// ValidIPEntry reports whether s may be the id of an ACL entry of scheme ip: an IPv4 address, and perhaps a slash and how many
// bits of it count.
func ValidIPEntry(s string) bool {
	_, _, ok := parseIPEntry(s)
	return ok
}

func parseIPEntry(s string) (addr uint32, bits int, ok bool) {
	base, rest, slash := strings.Cut(s, "/")
	bits = 32
	if slash {
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > 32 {
			return 0, 0, false
		}
		bits = n
	}
	addr, ok = parseIPv4(base)
	return addr, bits, ok
}

// parseIPv4 reads a dotted quad and, like ZooKeeper, does not mind leading zeros.
func parseIPv4(s string) (addr uint32, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return 0, false
	}
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 255 {
			return 0, false
		}
		addr = addr<<8 | uint32(n)
	}
	return addr, true
}
