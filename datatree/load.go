package datatree

import (
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// Loader builds a tree from blocks in the order in which Encode made them. Take sees each block in that order; the work on a block, Batch's
// Decode, needs nothing but that, so that blocks may be decoded side by side; Tree joins the parts.
type Loader struct {
	tree    *Tree
	lists   []*aclList
	batches []*Batch
	run     func(n int, do func(i int))
}

// NewLoader returns a Loader for an empty tree. run calls its second argument for 0 to n-1, perhaps side by side; nil: one after the other.
func NewLoader(run func(n int, do func(i int))) *Loader {
	if run == nil {
		run = oneByOne
	}
	return &Loader{tree: empty(), run: run}
}

// Batch is one block on its way into a tree.
type Batch struct {
	raw   []byte // the block's nodes
	lists []*aclList
	err   error

	nodes   []*Node
	hashes  []uint64
	index   *index // for hashes alone
	runs    []run
	uses    []use
	owned   []*Node
	newest  txn.Zxid
	bytes   int64
	digest  uint64
	scratch []byte
}

// run is siblings next to each other.
type run struct{ first, count int }

// use is how many nodes in a row have one access control list.
type use struct {
	list  *aclList
	count int
}

// Take takes in the next block. b must not change before Decode has returned, which copies what it keeps. Errors wrap ErrEncoding; the Loader is
// of no use after one.
func (l *Loader) Take(b []byte) (*Batch, error) {
	acls, raw, err := parseBlock(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	for _, acl := range acls {
		s := l.tree.lists.intern(acl)
		if len(l.tree.lists) == len(l.lists) {
			return nil, fmt.Errorf("%w: an access control list twice", ErrEncoding)
		}
		s.refs = 0 // its nodes count themselves
		l.lists = append(l.lists, s)
	}
	batch := &Batch{raw: raw, lists: l.lists, index: l.tree.nodes}
	l.batches = append(l.batches, batch)
	return batch, nil
}

// parseBlock takes a block apart. Nodes alias b if the block has no list, as nearly all.
func parseBlock(b []byte) (acls [][]proto.ACL, nodes []byte, err error) {
	r := msgpack.NewReader(b)
	r.Struct(2)
	if n, _ := r.List(); n < 0 {
		if nodes = r.Bytes(); r.Whole() {
			return nil, nodes, nil
		}
	}
	var blk block
	err = msgpack.Decode(b, &blk)
	return blk.ACLs, blk.Nodes, err
}

// Add is Take and Decode.
func (l *Loader) Add(b []byte) error {
	batch, err := l.Take(b)
	if err != nil {
		return err
	}
	batch.Decode()
	return batch.err
}

// Decode does what can be done without the other blocks. Any goroutine; what is wrong with the block is Tree's to tell.
func (t *Batch) Decode() {
	const likely = 128 // bytes of a node
	t.nodes = make([]*Node, 0, len(t.raw)/likely)
	t.hashes = make([]uint64, 0, len(t.raw)/likely)
	for rest := t.raw; len(rest) > 0 && t.err == nil; {
		var length int
		if length, t.err = t.decode(rest); t.err == nil {
			rest = rest[length:]
		}
	}
	t.raw, t.scratch = nil, nil
}

// decode reads the first node of b and returns how many bytes it took.
func (t *Batch) decode(b []byte) (int, error) {
	if len(b) < nodeHead {
		return 0, fmt.Errorf("%w: a node is cut short", ErrEncoding)
	}
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	acl, pathLen, dataLen := u32(0), int(u32(64)), int(u32(68))
	null := u32(68) == nullLength
	if null {
		dataLen = 0
	}
	body := b[nodeHead:]
	if pathLen == 0 || pathLen > len(body) || dataLen > len(body)-pathLen || int(acl) >= len(t.lists) {
		return 0, fmt.Errorf("%w: a node without a path, or one that points outside", ErrEncoding)
	}
	n := nodeOf(string(body[:pathLen+dataLen]), pathLen, null, t.lists[acl])
	n.czxid, n.mzxid, n.pzxid = txn.Zxid(u64(4)), txn.Zxid(u64(12)), txn.Zxid(u64(20))
	n.ctime, n.mtime, n.owner = momentOf(int64(u64(28))), momentOf(int64(u64(36))), txn.SessionID(u64(44))
	n.version, n.cversion, n.aversion = int32(u32(52)), int32(u32(56)), int32(u32(60))
	return nodeHead + pathLen + dataLen, t.add(n)
}

// add enters a node behind the block's last one.
func (t *Batch) add(n *Node) error {
	sibling := false
	if len(t.nodes) > 0 {
		last := t.nodes[len(t.nodes)-1]
		if !before(last, n) {
			return disorder(last, n)
		}
		sibling = last.parent() == n.parent()
	}
	if !validPath(n, sibling) {
		return fmt.Errorf("%w: path %q", ErrEncoding, n.Path())
	}
	if sibling {
		t.runs[len(t.runs)-1].count++
	} else {
		t.runs = append(t.runs, run{len(t.nodes), 1})
	}
	if k := len(t.uses); k > 0 && t.uses[k-1].list == n.acl {
		t.uses[k-1].count++
	} else {
		t.uses = append(t.uses, use{n.acl, 1})
	}
	if n.owner != 0 {
		t.owned = append(t.owned, n)
	}
	t.nodes, t.hashes = append(t.nodes, n), append(t.hashes, t.index.hash(n.Path()))
	t.newest, t.bytes = max(t.newest, n.newest()), t.bytes+int64(len(n.payload))
	var sum uint64
	t.scratch = sumPayload(n, t.scratch)
	sum, t.scratch = nodeDigest(n, t.scratch)
	t.digest += sum
	return nil
}

// validPath checks the path, or of the sibling of a node that has a valid one its name.
func validPath(n *Node, sibling bool) bool {
	path := n.Path()
	if at := n.at(); sibling && at > 1 {
		path = path[at:]
	}
	return proto.ValidatePath(path) == nil
}

func disorder(last, n *Node) error {
	return fmt.Errorf("%w: %s after %s", ErrEncoding, n.Path(), last.Path())
}

// Tree returns what was built, not settled; the figures of quotas are counted anew. Errors wrap ErrEncoding: one of a block, or that the blocks
// make no tree.
func (l *Loader) Tree() (*Tree, error) {
	if err := l.join(); err != nil {
		return nil, err
	}
	for _, b := range l.batches {
		if err := l.countChildren(b); err != nil {
			return nil, err
		}
	}
	t := l.tree
	t.loadQuotas()
	t.Postpone() // counting may have settled it
	return t, nil
}

// join puts the blocks' nodes into the index and behind each other.
func (l *Loader) join() error {
	var last *Node
	count := 0
	starts := make([]int, len(l.batches))
	t := l.tree
	for i, b := range l.batches {
		if b.err != nil {
			return b.err
		}
		starts[i] = count
		if len(b.nodes) == 0 {
			continue
		}
		if last != nil && !before(last, b.nodes[0]) {
			return disorder(last, b.nodes[0])
		}
		last = b.nodes[len(b.nodes)-1]
		count += len(b.nodes)
		t.changed, t.bytes, t.digest = max(t.changed, b.newest), t.bytes+b.bytes, t.digest+b.digest
		for _, u := range b.uses {
			u.list.refs += u.count
		}
		for _, n := range b.owned {
			t.enlist(n)
		}
	}
	if last == nil {
		return fmt.Errorf("%w: no root", ErrEncoding)
	}
	t.later = postponed{on: true, base: make([]*Node, count)}
	l.run(len(l.batches), func(i int) { copy(t.later.base[starts[i]:], l.batches[i].nodes) })
	t.nodes.load(l.batches, count, l.run)
	return nil
}

// countChildren gives the parents of a block's nodes their numbers of children. Nobody else sees the nodes yet, so it does so in place.
func (l *Loader) countChildren(b *Batch) error {
	for _, r := range b.runs {
		n := b.nodes[r.first]
		if n.Path() == rootPath {
			continue
		}
		up := l.tree.parentOf(n.Path())
		if up == nil || up.Ephemeral() {
			return fmt.Errorf("%w: %s without a parent", ErrEncoding, n.Path())
		}
		up.numChildren += int32(r.count)
	}
	return nil
}
