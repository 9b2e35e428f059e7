package datatree

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

const (
	systemPrefix = "/zookeeper/"
	scratchBytes = 8 << 10 // how much of a payload is summed at a time
)

// Digest is the running digest of the tree, equal on all servers at the same zxid. It changes a tree that is not settled.
func (t *Tree) Digest() uint64 {
	t.sumUp(oneByOne)
	return t.digest
}

// nodeDigest is what a node adds to the tree's digest: CRC-32 over path (the root's is empty), data and the stored fields,
// and nothing for a node below /zookeeper.
func (t *Tree) nodeDigest(n *Node) (sum uint64) {
	sum, t.scratch = nodeDigest(n, t.scratch)
	return sum
}

// nodeDigest copies the node into scratch, because the checksum wants bytes; a large one piece by piece, for a copy of a megabyte costs more than
// its checksum. It returns the buffer for the next call.
func nodeDigest(n *Node, scratch []byte) (uint64, []byte) {
	if strings.HasPrefix(n.Path(), systemPrefix) {
		return 0, scratch
	}
	payload := n.payload
	if n.at() == 0 {
		payload = payload[n.pathLen:]
	}
	sum, b := uint32(0), scratch[:0]
	for len(payload) > scratchBytes {
		b = append(b[:0], payload[:scratchBytes]...)
		sum, payload = crc32.Update(sum, crc32.IEEETable, b), payload[scratchBytes:]
		b = b[:0]
	}
	b = append(b, payload...)
	b = binary.BigEndian.AppendUint64(b, uint64(n.czxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.mzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.pzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.ctime))
	b = binary.BigEndian.AppendUint64(b, uint64(n.mtime))
	b = binary.BigEndian.AppendUint32(b, uint32(n.version))
	b = binary.BigEndian.AppendUint32(b, uint32(n.cversion))
	b = binary.BigEndian.AppendUint32(b, uint32(n.aversion))
	b = binary.BigEndian.AppendUint64(b, uint64(n.owner))
	return uint64(crc32.Update(sum, crc32.IEEETable, b)), b
}
