package proto

import (
	"crypto/sha1"
	"encoding/base64"
	"strconv"
)

// Record is a message or a part of one. Append adds its encoding to dst and returns the extended slice; Decode reads it
// from r and returns r.Err(), after which the record's content means something only if the error is nil. Byte slices of
// a decoded record alias the Reader's input; strings are copies.
type Record interface {
	Append(dst []byte) []byte
	Decode(r *Reader) error
}

// Stat is what the protocol tells about a znode: 68 bytes on the wire. Times are milliseconds since 1970, zxids are the
// wire's int64.
type Stat struct {
	Czxid          int64 // txn that created the node
	Mzxid          int64 // txn that last set its data
	Ctime          int64
	Mtime          int64
	Version        int32 // number of changes of the data
	Cversion       int32 // number of changes of the set of children
	Aversion       int32 // number of changes of the ACL
	EphemeralOwner int64 // owning session, 0 if the node is not ephemeral
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // txn that last changed the set of children
}

// Append adds the encoding of s to dst.
func (s *Stat) Append(dst []byte) []byte {
	dst = AppendInt64(dst, s.Czxid)
	dst = AppendInt64(dst, s.Mzxid)
	dst = AppendInt64(dst, s.Ctime)
	dst = AppendInt64(dst, s.Mtime)
	dst = AppendInt32(dst, s.Version)
	dst = AppendInt32(dst, s.Cversion)
	dst = AppendInt32(dst, s.Aversion)
	dst = AppendInt64(dst, s.EphemeralOwner)
	dst = AppendInt32(dst, s.DataLength)
	dst = AppendInt32(dst, s.NumChildren)
	return AppendInt64(dst, s.Pzxid)
}

// Decode reads s from r.
func (s *Stat) Decode(r *Reader) error {
	s.Czxid = r.Int64()
	s.Mzxid = r.Int64()
	s.Ctime = r.Int64()
	s.Mtime = r.Int64()
	s.Version = r.Int32()
	s.Cversion = r.Int32()
	s.Aversion = r.Int32()
	s.EphemeralOwner = r.Int64()
	s.DataLength = r.Int32()
	s.NumChildren = r.Int32()
	s.Pzxid = r.Int64()
	return r.Err()
}

// ID names somebody: an authentication scheme and a name within it. SchemeNull and IDNull say that the string was null on
// the wire (it is then ""): servers refuse a null scheme and an empty one with different codes. IDs are comparable.
type ID struct {
	Scheme     string
	ID         string
	SchemeNull bool
	IDNull     bool
}

// AnyoneID is the id that matches every client.
var AnyoneID = ID{Scheme: "world", ID: "anyone"}

// Perm is a set of permission bits. Bits beyond PermAll are stored and returned untouched.
type Perm int32

// The permission bits.
const (
	PermRead   Perm = 1
	PermWrite  Perm = 2
	PermCreate Perm = 4
	PermDelete Perm = 8
	PermAdmin  Perm = 16
	PermAll    Perm = 31
)

// String returns the letters of the bits in the order c, d, r, w, a.
func (p Perm) String() string {
	letters := [...]struct {
		bit    Perm
		letter byte
	}{{PermCreate, 'c'}, {PermDelete, 'd'}, {PermRead, 'r'}, {PermWrite, 'w'}, {PermAdmin, 'a'}}
	s := make([]byte, 0, len(letters))
	for _, l := range letters {
		if p&l.bit != 0 {
			s = append(s, l.letter)
		}
	}
	return string(s)
}

// ACL is one entry of an access control list: it grants Perms to ID.
type ACL struct {
	Perms Perm
	ID    ID
}

// OpenACL returns a fresh list that grants everything to everyone.
func OpenACL() []ACL { return []ACL{{Perms: PermAll, ID: AnyoneID}} }

// DigestID returns the id that scheme digest derives from the bytes "user:password": the part before the first colon (all
// of it if there is none), a colon, and the standard base64 form of the SHA-1 of the whole.
func DigestID(userPassword []byte) string {
	userPassword = []byte(toUTF8(userPassword))
	user := len(userPassword)
	for i, b := range userPassword {
		if b == ':' {
			user = i
			break
		}
	}
	sum := sha1.Sum(userPassword)
	var id []byte
	id = append(id, userPassword[:user]...)
	id = append(id, ':')
	id = base64.StdEncoding.AppendEncode(id, sum[:])
	return toUTF8(id)
}

// CreateFlags is the kind of node that a create asks for.
type CreateFlags int32

// The seven kinds of node.
const (
	FlagPersistent              CreateFlags = 0
	FlagEphemeral               CreateFlags = 1
	FlagPersistentSequential    CreateFlags = 2
	FlagEphemeralSequential     CreateFlags = 3
	FlagContainer               CreateFlags = 4
	FlagPersistentTTL           CreateFlags = 5
	FlagPersistentSequentialTTL CreateFlags = 6
)

// Valid reports whether f is one of the seven kinds; any other value is refused with ErrBadArguments.
func (f CreateFlags) Valid() bool { return f >= FlagPersistent && f <= FlagPersistentSequentialTTL }

// Ephemeral reports whether the node dies with its session.
func (f CreateFlags) Ephemeral() bool { return f == FlagEphemeral || f == FlagEphemeralSequential }

// Sequential reports whether the server appends a sequence number to the path.
func (f CreateFlags) Sequential() bool {
	return f == FlagPersistentSequential || f == FlagEphemeralSequential || f == FlagPersistentSequentialTTL
}

// Container reports whether the node is a container: deleted by the servers some time after its last child.
func (f CreateFlags) Container() bool { return f == FlagContainer }

// TTL reports whether the node is deleted by the servers when it is left alone for its time to live.
func (f CreateFlags) TTL() bool { return f == FlagPersistentTTL || f == FlagPersistentSequentialTTL }

// MaxTTL is the longest time to live of a node, in milliseconds; the shortest is 1.
const MaxTTL int64 = 0xFFFFFFFFFF

// EventType says what happened to a watched path.
type EventType int32

// The event types. Servers send NodeCreated to NodeChildrenChanged; a client library makes the others itself.
const (
	EventNone                   EventType = -1 // the session's state changed, see KeeperState
	EventNodeCreated            EventType = 1
	EventNodeDeleted            EventType = 2
	EventNodeDataChanged        EventType = 3
	EventNodeChildrenChanged    EventType = 4
	EventDataWatchRemoved       EventType = 5
	EventChildWatchRemoved      EventType = 6
	EventPersistentWatchRemoved EventType = 7
)

// String returns ZooKeeper's name of the type.
func (t EventType) String() string {
	switch t {
	case EventNone:
		return "None"
	case EventNodeCreated:
		return "NodeCreated"
	case EventNodeDeleted:
		return "NodeDeleted"
	case EventNodeDataChanged:
		return "NodeDataChanged"
	case EventNodeChildrenChanged:
		return "NodeChildrenChanged"
	case EventDataWatchRemoved:
		return "DataWatchRemoved"
	case EventChildWatchRemoved:
		return "ChildWatchRemoved"
	case EventPersistentWatchRemoved:
		return "PersistentWatchRemoved"
	}
	return "event(" + strconv.Itoa(int(t)) + ")"
}

// KeeperState is a session's state as a client sees it. Servers send only StateSyncConnected.
type KeeperState int32

// The states.
const (
	StateExpired           KeeperState = -112
	StateDisconnected      KeeperState = 0
	StateSyncConnected     KeeperState = 3
	StateAuthFailed        KeeperState = 4
	StateConnectedReadOnly KeeperState = 5
	StateSASLAuthenticated KeeperState = 6
	StateClosed            KeeperState = 7
)

// String returns ZooKeeper's name of the state.
func (s KeeperState) String() string {
	switch s {
	case StateExpired:
		return "Expired"
	case StateDisconnected:
		return "Disconnected"
	case StateSyncConnected:
		return "SyncConnected"
	case StateAuthFailed:
		return "AuthFailed"
	case StateConnectedReadOnly:
		return "ConnectedReadOnly"
	case StateSASLAuthenticated:
		return "SaslAuthenticated"
	case StateClosed:
		return "Closed"
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// AddWatchMode is the kind of watch that addWatch registers.
type AddWatchMode int32

// The modes; a server refuses any other with ErrMarshalling.
const (
	WatchPersistent          AddWatchMode = 0
	WatchPersistentRecursive AddWatchMode = 1
)

// Valid reports whether m is one of the two modes.
func (m AddWatchMode) Valid() bool { return m == WatchPersistent || m == WatchPersistentRecursive }

// WatcherType is the kind of watch that checkWatches and removeWatches mean.
type WatcherType int32

// The kinds; a server refuses any other with ErrMarshalling.
const (
	WatcherChildren            WatcherType = 1
	WatcherData                WatcherType = 2
	WatcherAny                 WatcherType = 3
	WatcherPersistent          WatcherType = 4
	WatcherPersistentRecursive WatcherType = 5
)

// Valid reports whether t is one of the five kinds.
func (t WatcherType) Valid() bool { return t >= WatcherChildren && t <= WatcherPersistentRecursive }

// Word is string(b) without an allocation for the words that nearly every ACL and every connection's ids consist of.
func Word(b []byte) string {
	switch string(b) {
	case "world":
		return "world"
	case "anyone":
		return "anyone"
	case "ip":
		return "ip"
	case "digest":
		return "digest"
	case "auth":
		return "auth"
	}
	return string(b)
}
