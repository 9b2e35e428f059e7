package proto

import "encoding/binary"

// AppendInt32 appends the four bytes of v, big-endian like every integer of the protocol.
func AppendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

// AppendInt64 appends the eight bytes of v.
func AppendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// AppendBool appends one byte, 1 for true.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendBuffer appends the length of b and its bytes; a nil b is written as null, an empty one with length 0.
func AppendBuffer(dst, b []byte) []byte {
	if b == nil {
		return AppendInt32(dst, -1)
	}
	return append(AppendInt32(dst, int32(len(b))), b...)
}

// AppendString appends the length of s in bytes and its bytes, which should be UTF-8.
func AppendString(dst []byte, s string) []byte {
	return append(AppendInt32(dst, int32(len(s))), s...)
}

// AppendNullString appends s, or null if isNull, whatever s is then.
func AppendNullString(dst []byte, s string, isNull bool) []byte {
	if isNull {
		return AppendInt32(dst, -1)
	}
	return AppendString(dst, s)
}

// AppendStrings appends the number of strings and the strings; a nil slice is written as null, an empty one with count 0.
func AppendStrings(dst []byte, ss []string) []byte {
	if ss == nil {
		return AppendInt32(dst, -1)
	}
	dst = AppendInt32(dst, int32(len(ss)))
	for _, s := range ss {
		dst = AppendString(dst, s)
	}
	return dst
}

// AppendACLs appends an access control list; a nil slice is written as null, an empty one with count 0.
func AppendACLs(dst []byte, acls []ACL) []byte {
	if acls == nil {
		return AppendInt32(dst, -1)
	}
	dst = AppendInt32(dst, int32(len(acls)))
	for i := range acls {
		dst = AppendInt32(dst, int32(acls[i].Perms))
		dst = AppendNullString(dst, acls[i].ID.Scheme, acls[i].ID.SchemeNull)
		dst = AppendNullString(dst, acls[i].ID.ID, acls[i].ID.IDNull)
	}
	return dst
}
