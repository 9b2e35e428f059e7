package client

import (
	"bytes"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// AnyVersion matches every version of a node's data or ACL.
const AnyVersion int32 = -1

// CreateMode is the kind of node that Create makes.
type CreateMode = proto.CreateFlags

// The kinds of node. Sequential ones get a ten-digit number, unique below their parent, at the end of their path.
// Ephemeral ones are deleted when the session ends, containers some time after their last child was.
const (
	Persistent           = proto.FlagPersistent
	Ephemeral            = proto.FlagEphemeral
	PersistentSequential = proto.FlagPersistentSequential
	EphemeralSequential  = proto.FlagEphemeralSequential
	Container            = proto.FlagContainer

	PersistentTTL           = proto.FlagPersistentTTL           // for CreateTTL
	PersistentSequentialTTL = proto.FlagPersistentSequentialTTL // likewise
)

// Perm is a set of permissions.
type Perm = proto.Perm

// The permissions. PermCreate and PermDelete speak of children; PermAdmin is the right to change the ACL.
const (
	PermRead   = proto.PermRead
	PermWrite  = proto.PermWrite
	PermCreate = proto.PermCreate
	PermDelete = proto.PermDelete
	PermAdmin  = proto.PermAdmin
	PermAll    = proto.PermAll
)

// ACL is one entry of an access control list.
type ACL = proto.ACL

// WorldACL grants perm to everyone.
func WorldACL(perm Perm) []ACL { return []ACL{{Perms: perm, ID: proto.AnyoneID}} }

// DigestACL grants perm to whoever gives AddAuth("digest", "user:password"). The list holds a hash, not the password.
func DigestACL(user, password string, perm Perm) []ACL {
	id := proto.DigestID([]byte(user + ":" + password))
	return []ACL{{Perms: perm, ID: proto.ID{Scheme: "digest", ID: id}}}
}

// AuthACL grants perm to every identity that this client has given with AddAuth; without one it is refused with
// ErrInvalidACL.
func AuthACL(perm Perm) []ACL { return []ACL{{Perms: perm, ID: proto.ID{Scheme: "auth"}}} }

// Stat is what a server tells about a node.
type Stat struct {
	Czxid          int64 // transaction that created the node
	Mzxid          int64 // transaction that last set its data
	Pzxid          int64 // transaction that last changed the set of children
	Ctime          time.Time
	Mtime          time.Time
	Version        int32 // of the data
	Cversion       int32 // of the set of children
	Aversion       int32 // of the ACL
	EphemeralOwner int64 // session id, 0 if the node is not ephemeral
	DataLength     int32 // bytes
	NumChildren    int32
}

func statFrom(s *proto.Stat) Stat {
	return Stat{
		Czxid: s.Czxid, Mzxid: s.Mzxid, Pzxid: s.Pzxid,
		Ctime: time.UnixMilli(s.Ctime), Mtime: time.UnixMilli(s.Mtime),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		EphemeralOwner: s.EphemeralOwner, DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
}

// credential is what AddAuth was given. The client keeps it, to give it again on every new connection.
type credential struct {
	scheme string
	auth   []byte
}

func (a credential) equal(b credential) bool {
	return a.scheme == b.scheme && bytes.Equal(a.auth, b.auth)
}

func (a credential) frame() []byte {
	return proto.AppendFrame(nil,
		&proto.RequestHeader{Xid: proto.XidAuth, Op: proto.OpAuth},
		&proto.AuthPacket{Scheme: a.scheme, Auth: a.auth})
}
