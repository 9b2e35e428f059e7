package statemachine

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/proto"
)

// fixACL checks a list that a client wants to set and returns what is to be stored: without exact duplicates, and with auth
// entries replaced by the ids that the connection has proven. Since that multiplies what the client sent, the bytes of the result come off
// room; tooLarge if there is too little of it.
func fixACL(acl []proto.ACL, ids []proto.ID, room *int) ([]proto.ACL, proto.ErrCode) {
	if len(acl) == 0 {
		return nil, proto.ErrInvalidACL
	}
	fixed := make([]proto.ACL, 0, len(acl))
	seen := map[proto.ACL]struct{}{}
	if nullMeetsTwin(acl) {
		return nil, proto.ErrMarshalling
	}
	for _, a := range acl {
		if len(acl) > 1 {
			if _, again := seen[a]; again {
				continue
			}
			seen[a] = struct{}{}
		}
		if a.ID.Scheme == "auth" && !a.ID.SchemeNull {
			before := len(fixed)
			for _, id := range ids {
				if !authenticates(id.Scheme) {
					continue
				}
				if *room -= len(id.ID); *room < 0 {
					return nil, tooLarge
				}
				fixed = append(fixed, proto.ACL{Perms: a.Perms, ID: id})
			}
			if len(fixed) == before {
				return nil, proto.ErrInvalidACL
			}
			continue
		}
		if code := checkEntry(&a.ID); code != proto.OK {
			return nil, code
		}
		fixed = append(fixed, a)
	}
	return slices.Clip(fixed), proto.OK
}

// nullMeetsTwin reports whether an entry with a null would have to be compared with an earlier one to see that it is no
// duplicate. The original answers that with ErrMarshalling, before it looks at any entry.
func nullMeetsTwin(acl []proto.ACL) bool {
	if !slices.ContainsFunc(acl, func(a proto.ACL) bool { return a.ID.SchemeNull || a.ID.IDNull }) {
		return false
	}
	type kind struct {
		perms  proto.Perm
		scheme string
	}
	perms := map[proto.Perm]struct{}{}
	kinds := map[kind]struct{}{}
	for _, a := range acl {
		_, samePerms := perms[a.Perms]
		_, sameKind := kinds[kind{a.Perms, a.ID.Scheme}]
		if a.ID.SchemeNull && samePerms || a.ID.IDNull && !a.ID.SchemeNull && sameKind {
			return true
		}
		perms[a.Perms] = struct{}{}
		if !a.ID.SchemeNull {
			kinds[kind{a.Perms, a.ID.Scheme}] = struct{}{}
		}
	}
	return false
}

// authenticates reports whether having an id of the scheme means that the client has proven something.
func authenticates(scheme string) bool {
	return scheme == "digest" || scheme == "sasl" || scheme == "x509"
}

func checkEntry(id *proto.ID) proto.ErrCode {
	var valid func(string) bool
	switch id.Scheme {
	case "world":
		valid = func(s string) bool { return s == "anyone" }
	case "digest":
		valid = validDigest
	case "ip":
		valid = datatree.ValidIPEntry
	default:
		return proto.ErrInvalidACL
	}
	if id.IDNull {
		return proto.ErrMarshalling
	}
	if !valid(id.ID) {
		return proto.ErrInvalidACL
	}
	return proto.OK
}

// validDigest wants two parts around one colon; colons at the end do not count, and the first part may be empty.
func validDigest(id string) bool {
	return strings.Count(strings.TrimRight(id, ":"), ":") == 1
}

// maskACL hides what follows the user name in digest ids from those who may not change the list.
func maskACL(acl []proto.ACL) []proto.ACL {
	masked := slices.Clone(acl)
	for i := range masked {
		if id := &masked[i].ID; id.Scheme == "digest" {
			if user, _, ok := strings.Cut(id.ID, ":"); ok {
				id.ID = user + ":x"
			}
		}
	}
	return masked
}
