package datatree

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/btree"

	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
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
	order  *btree.BTreeG[*Node]
	digest uint64
}

// Clone takes an image in constant time. The goroutine that changes the tree calls it; reads may go on beside it.
func (t *Tree) Clone() *Image {
	t.imaged = t.changed
	if mutant.On("D3") {
		return &Image{order: t.order, digest: t.digest}
	}
	return &Image{order: t.order.Clone(), digest: t.digest}
}

// Len is the number of nodes.
func (i *Image) Len() int { return i.order.Len() }

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
	i.order.Ascend(func(n *Node) bool {
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
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.ctime))
	dst = binary.BigEndian.AppendUint64(dst, uint64(n.mtime))
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

// Loader builds a tree from blocks in the order in which Encode made them. It belongs to one goroutine.
type Loader struct {
	tree  *Tree
	lists []*aclList
	last  *Node
	up    *Node // the parent of last
	blk   block // its buffer is used again
	index staging
}

// NewLoader returns a Loader for an empty tree.
func NewLoader() *Loader {
	t := empty()
	return &Loader{tree: t, index: staging{x: t.nodes}}
}

// Add takes in the next block; it copies what it keeps. Errors wrap ErrEncoding; the Loader is of no use after one.
func (l *Loader) Add(b []byte) error {
	blk := &l.blk
	blk.ACLs, blk.Nodes = nil, blk.Nodes[:0] // a short array must not leave the last block's content
	if err := msgpack.Decode(b, blk); err != nil {
		return fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	for _, acl := range blk.ACLs {
		s := l.tree.lists.intern(acl)
		if len(l.tree.lists) == len(l.lists) {
			return fmt.Errorf("%w: an access control list twice", ErrEncoding)
		}
		s.refs = 0 // its nodes count themselves
		l.lists = append(l.lists, s)
	}
	for rest := blk.Nodes; len(rest) > 0; {
		n, length, err := l.decode(rest)
		if err != nil {
			return err
		}
		if err := l.add(n); err != nil {
			return err
		}
		rest = rest[length:]
	}
	return nil
}

// decode reads the first node of b and returns how many bytes it took.
func (l *Loader) decode(b []byte) (*Node, int, error) {
	if len(b) < nodeHead {
		return nil, 0, fmt.Errorf("%w: a node is cut short", ErrEncoding)
	}
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	acl, pathLen, dataLen := u32(0), int(u32(64)), int(u32(68))
	null := u32(68) == nullLength
	if null {
		dataLen = 0
	}
	body := b[nodeHead:]
	if pathLen > len(body) || dataLen > len(body)-pathLen || int(acl) >= len(l.lists) {
		return nil, 0, fmt.Errorf("%w: a node points outside", ErrEncoding)
	}
	n := nodeOf(string(body[:pathLen+dataLen]), pathLen, null, l.lists[acl])
	if proto.ValidatePath(n.Path()) != nil {
		return nil, 0, fmt.Errorf("%w: path %q", ErrEncoding, n.Path())
	}
	n.czxid, n.mzxid, n.pzxid = txn.Zxid(u64(4)), txn.Zxid(u64(12)), txn.Zxid(u64(20))
	n.ctime, n.mtime, n.owner = int64(u64(28)), int64(u64(36)), txn.SessionID(u64(44))
	n.version, n.cversion, n.aversion = int32(u32(52)), int32(u32(56)), int32(u32(60))
	return n, nodeHead + pathLen + dataLen, nil
}

// add enters a node behind the last one. Nobody else sees the nodes yet, so the parent counts its children in place.
func (l *Loader) add(n *Node) error {
	if l.last != nil && !before(l.last, n) {
		return fmt.Errorf("%w: %s after %s", ErrEncoding, n.Path(), l.last.Path())
	}
	if n.Path() != rootPath {
		if l.up == nil || l.up.Path() != n.parent() {
			l.up = l.index.get(n.parent())
		}
		if l.up == nil || l.up.Ephemeral() {
			return fmt.Errorf("%w: %s without a parent", ErrEncoding, n.Path())
		}
		l.up.numChildren++
	}
	n.acl.refs++
	l.tree.last = n
	l.tree.attach(n)
	l.index.enter(n)
	l.last = n
	return nil
}

// Tree returns what was built; the figures of quotas are counted anew. It is an error, which wraps ErrEncoding, if there is no root.
func (l *Loader) Tree() (*Tree, error) {
	if l.last == nil {
		return nil, fmt.Errorf("%w: no root", ErrEncoding)
	}
	l.tree.last = nil
	l.index.flushAll()
	l.tree.loadQuotas()
	return l.tree, nil
}
