package datatree

import (
	"encoding/binary"
	"errors"

	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/proto"
)

// ErrEncoding is returned for bytes that are not an encoded tree.
var ErrEncoding = errors.New("malformed tree")

// blockBytes is how long a block of nodes grows before it is handed out; a node that is larger still is a block of its own.
const blockBytes = 64 << 10

// nodeHead is the length of a node's fixed part:
//
//	acl u32 | czxid mzxid pzxid u64 | ctime mtime i64 | owner i64 | version cversion aversion i32 | path u32 | data u32 | path, data
//
// acl counts the lists in the order in which they appear, from 0. A data length of 2^32-1 is null. The number of children is
// not stored: it is counted again.
const (
	nodeHead   = 4 + 6*8 + 3*4 + 2*4
	nullLength = 1<<32 - 1
)

// block is a run of nodes in ascending order, and the lists that no earlier block had.
type block struct {
	ACLs  [][]proto.ACL
	Nodes []byte
}

// Image is a tree as it was at one moment. Any goroutine may read it while the tree changes.
type Image struct {
	order  order
	digest uint64
}

// Clone takes an image in constant time, unless the tree is not settled or its order still being filled. Nobody may read the tree meanwhile.
func (t *Tree) Clone() *Image {
	t.Settle(nil, nil)
	t.imaged = t.changed
	if mutant.On("D3") {
		return &Image{order: t.order, digest: t.digest}
	}
	return &Image{order: t.order.clone(), digest: t.digest}
}

// Len is the number of nodes.
func (i *Image) Len() int { return i.order.len() }

// Digest is the tree's digest at that moment.
func (i *Image) Digest() uint64 { return i.digest }

// Encode calls emit with one block of bytes after the other, until all nodes are in or emit returns an error, which it returns.
// The bytes depend on the content of the tree only; emit must not keep them.
func (i *Image) Encode(emit func(b []byte) error) error {
	var (
		b     block
		buf   []byte
		err   error
		known = map[*aclList]uint32{}
	)
	flush := func() bool {
		buf = appendBlock(buf[:0], &b)
		b.ACLs, b.Nodes = nil, b.Nodes[:0]
		err = emit(buf)
		return err == nil
	}
	i.order.all(func(n *Node) bool {
		if len(b.Nodes) > 0 && len(b.Nodes)+nodeHead+len(n.payload) > blockBytes && !flush() {
			return false
		}
		id, ok := known[n.acl]
		if !ok {
			id = uint32(len(known))
			known[n.acl] = id
			b.ACLs = append(b.ACLs, n.acl.acl)
		}
		b.Nodes = appendNode(b.Nodes, n, id)
		return true
	})
	if err == nil {
		flush()
	}
	return err
}

func appendBlock(dst []byte, b *block) []byte { return msgpack.Append(dst, b) }

func appendNode(dst []byte, n *Node, acl uint32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, acl)
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.czxid))
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.mzxid))
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.pzxid))
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.ctime.millis()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.mtime.millis()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.owner))
	dst = binary.BigEndian.AppendUint32(dst, uint32(n.version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(n.cversion))
	dst = binary.BigEndian.AppendUint32(dst, uint32(n.aversion))
	dst = binary.BigEndian.AppendUint32(dst, n.pathLen)
	length := uint32(len(n.payload)) - n.pathLen
	if n.parentLen&nullData != 0 {
		length = nullLength
	}
	dst = binary.BigEndian.AppendUint32(dst, length)
	return append(dst, n.payload...)
}
