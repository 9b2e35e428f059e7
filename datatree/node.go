package datatree

import (
	"strings"

	"github.com/zkd-project/zkd/internal/inplace"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// Node is one znode. One that an Image holds never changes again; any other changes in place with the tree, its data too, so whoever got it
// from a Tree reads it only as long as nobody changes the tree, and keeps of it no more than paths and names. It is laid out to fill the
// allocator's class of 96 bytes.
type Node struct {
	payload             string // path, then data
	pathLen             uint32 // beside the payload: who compares paths needs both
	parentLen           uint32 // see at; the top bits say that the data is null, and that the tree's digest lacks the node
	acl                 *aclList
	czxid, mzxid, pzxid txn.Zxid
	owner               txn.SessionID
	sum                 uint32 // CRC-32 of what the digest covers of payload; not kept up to date while the digest lacks the node
	version             int32
	cversion            int32 // number of child creates
	aversion            int32
	numChildren         int32
	ctime, mtime        moment
}

const (
	nullData   uint32 = 1 << 31
	notSummed  uint32 = 1 << 30
	rootPath          = "/"
	configPath        = "/zookeeper/config"
	ttlPrefix         = uint64(0xFF00) << 48
	ttlMask           = uint64(0xFFFF) << 48
)

// newPayload joins path and data in one allocation.
func newPayload(path string, data []byte) string {
	var b strings.Builder
	b.Grow(len(path) + len(data))
	b.WriteString(path)
	b.Write(data)
	return b.String()
}

// newNode copies data and aliases nothing.
func newNode(path string, data []byte, acl *aclList) *Node {
	return nodeOf(newPayload(path, data), len(path), data == nil, acl)
}

// nodeOf keeps payload.
func nodeOf(payload string, pathLen int, null bool, acl *aclList) *Node {
	n := &Node{payload: payload, acl: acl, pathLen: uint32(pathLen)}
	if path := n.Path(); path != rootPath {
		n.parentLen = uint32(max(1, strings.LastIndexByte(path, '/')))
	}
	if null {
		n.parentLen |= nullData
	}
	return n
}

// setData gives n other data: in the place of the old if it is as long and no image has it. An image's data was set before it, which mzxid
// tells.
func (t *Tree) setData(n *Node, data []byte) {
	if len(n.payload)-int(n.pathLen) == len(data) && n.mzxid > t.imaged {
		inplace.Overwrite(n.payload, int(n.pathLen), data)
	} else {
		n.payload = newPayload(n.Path(), data)
	}
	n.parentLen &^= nullData
	if data == nil {
		n.parentLen |= nullData
	}
	if !t.later.on {
		t.sumData(n, data)
	}
}

// newest is the highest zxid in the node: whoever changed it last, but for its ACL.
func (n *Node) newest() txn.Zxid { return max(n.mzxid, n.pzxid) }

// Path is the absolute path. It shares memory with the data: clone it to keep it for long.
func (n *Node) Path() string { return n.payload[:n.pathLen] }

// Name is the last component of the path, "" for the root.
func (n *Node) Name() string {
	at := n.at()
	if at > 1 {
		at++
	}
	return n.payload[max(at, 1):n.pathLen]
}

// at is the length of the parent's path, 0 for the root.
func (n *Node) at() int { return int(n.parentLen &^ (nullData | notSummed)) }

// parent is the path of the parent, "" for the root.
func (n *Node) parent() string { return n.payload[:n.at()] }

// Data is the data, as long as nobody changes the tree; null data, which clients tell from empty data, is "" and true.
func (n *Node) Data() (data string, null bool) {
	return n.payload[n.pathLen:], n.parentLen&nullData != 0
}

// AppendData appends the data as a buffer of the client protocol.
func (n *Node) AppendData(dst []byte) []byte {
	data, null := n.Data()
	return proto.AppendNullString(dst, data, null)
}

// ACL is the access control list. It is shared: do not change it.
func (n *Node) ACL() []proto.ACL { return n.acl.acl }

// Czxid, Mzxid and Pzxid are the zxids of the creation, of the last setData, and of the last create or delete of a child.
func (n *Node) Czxid() txn.Zxid { return n.czxid }

// Mzxid: see Czxid.
func (n *Node) Mzxid() txn.Zxid { return n.mzxid }

// Pzxid: see Czxid.
func (n *Node) Pzxid() txn.Zxid { return n.pzxid }

// Version counts changes of the data.
func (n *Node) Version() int32 { return n.version }

// RawCversion counts the creates of children, which sequence numbers are made from. What clients see is Stat's Cversion.
func (n *Node) RawCversion() int32 { return n.cversion }

// Aversion counts changes of the ACL.
func (n *Node) Aversion() int32 { return n.aversion }

// NumChildren is the number of children.
func (n *Node) NumChildren() int32 { return n.numChildren }

// Owner is the stored owner: a session, txn.OwnerContainer, a TTL, or 0.
func (n *Node) Owner() txn.SessionID { return n.owner }

// Ephemeral reports whether the node dies with a session.
func (n *Node) Ephemeral() bool { return IsSession(n.owner) }

// IsSession reports whether a stored owner is a session, as opposed to the mark of a container, a TTL, or nobody.
func IsSession(owner txn.SessionID) bool {
	return owner != 0 && owner != txn.OwnerContainer && uint64(owner)&ttlMask != ttlPrefix
}

// Stat is the node's Stat as clients see it.
func (n *Node) Stat() proto.Stat {
	s := proto.Stat{
		Czxid: int64(n.czxid), Mzxid: int64(n.mzxid), Pzxid: int64(n.pzxid), Ctime: n.ctime.millis(), Mtime: n.mtime.millis(),
		Version: n.version, Cversion: 2*n.cversion - n.numChildren, Aversion: n.aversion,
		DataLength: int32(len(n.payload)) - int32(n.pathLen), NumChildren: n.numChildren,
	}
	if n.Ephemeral() {
		s.EphemeralOwner = int64(n.owner)
	}
	return s
}

// before is the order of the tree: by parent, then by name. Siblings have their names at the same place.
func before(a, b *Node) bool {
	at, bt := a.at(), b.at()
	if c := strings.Compare(a.payload[:at], b.payload[:bt]); c != 0 {
		return c < 0
	}
	return a.payload[at:a.pathLen] < b.payload[at:b.pathLen]
}
