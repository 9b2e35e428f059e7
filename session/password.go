package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"

	"github.com/zkd-project/zkd/txn"
)

// PasswordBytes is the length of a password.
const PasswordBytes = 16

// Password is what a client must show to take up its session again: the first 16 bytes of HMAC-SHA256 under the ensemble's
// secret of the id's eight bytes, big-endian.
func Password(secret []byte, id txn.SessionID) [PasswordBytes]byte {
	h := hmac.New(sha256.New, secret)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(id)))
	return [PasswordBytes]byte(h.Sum(nil)[:PasswordBytes])
}

// CheckPassword reports whether password is the one of id, in a time that does not depend on how much of it is right. Without a
// secret no password is right.
func CheckPassword(secret []byte, id txn.SessionID, password []byte) bool {
	want := Password(secret, id)
	return len(secret) > 0 && subtle.ConstantTimeCompare(want[:], password) == 1
}
