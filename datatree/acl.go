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
	a, ok := parseIP(addr)
	if !ok || len(a) != len(base) {
		return false
	}
	for i := 0; bits > 0; i, bits = i+1, bits-8 {
		if (a[i]^base[i])>>max(0, 8-bits) != 0 {
			return false
		}
	}
	return true
}

// ValidIPEntry reports whether s may be the id of an ACL entry of scheme ip: an address, and perhaps a slash and how many bits of
// it count.
func ValidIPEntry(s string) bool {
	_, _, ok := parseIPEntry(s)
	return ok
}

func parseIPEntry(s string) (addr []byte, bits int, ok bool) {
	base, rest, slash := strings.Cut(s, "/")
	if addr, ok = parseIP(base); !ok {
		return nil, 0, false
	}
	bits = 8 * len(addr)
	if slash {
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > bits {
			return nil, 0, false
		}
		bits = n
	}
	return addr, bits, true
}

// parseIP reads an address into its 4 or 16 bytes.
func parseIP(s string) ([]byte, bool) {
	if strings.IndexByte(s, ':') >= 0 {
		return parseIPv6(s)
	}
	return parseIPv4(s)
}

// parseIPv4 reads a dotted quad and, like ZooKeeper, does not mind leading zeros.
func parseIPv4(s string) ([]byte, bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 {
		return nil, false
	}
	addr := make([]byte, 0, 4)
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 255 {
			return nil, false
		}
		addr = append(addr, byte(n))
	}
	return addr, true
}

// parseIPv6 reads eight groups of up to four hexadecimal digits, of which one run may be left out; no zones, no dotted ending.
func parseIPv6(s string) ([]byte, bool) {
	const groups = 8
	head, tail, short := strings.Cut(s, "::")
	front, ok := parseGroups(head)
	back, ok2 := parseGroups(tail)
	left := groups - (len(front)+len(back))/2
	if !ok || !ok2 || short && left < 1 || !short && left != 0 {
		return nil, false
	}
	return append(append(front, make([]byte, 2*left)...), back...), true
}

func parseGroups(s string) ([]byte, bool) {
	var b []byte
	if s == "" {
		return b, true
	}
	for _, g := range strings.Split(s, ":") {
		n, err := strconv.ParseUint(g, 16, 16)
		if err != nil || len(g) > 4 {
			return nil, false
		}
		b = append(b, byte(n>>8), byte(n))
	}
	return b, true
}
