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
// and nothing for a node below /zookeeper. The part over path and data is in the node, so that its former data need not be read when it
// changes.
func (t *Tree) nodeDigest(n *Node) (sum uint64) {
	sum, t.scratch = nodeDigest(n, t.scratch)
	return sum
}

// nodeDigest uses scratch, which it returns for the next call.
func nodeDigest(n *Node, scratch []byte) (uint64, []byte) {
	if strings.HasPrefix(n.Path(), systemPrefix) {
		return 0, scratch
	}
	b := binary.BigEndian.AppendUint64(scratch[:0], uint64(n.czxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.mzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.pzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(n.ctime.millis()))
	b = binary.BigEndian.AppendUint64(b, uint64(n.mtime.millis()))
	b = binary.BigEndian.AppendUint32(b, uint32(n.version))
	b = binary.BigEndian.AppendUint32(b, uint32(n.cversion))
	b = binary.BigEndian.AppendUint32(b, uint32(n.aversion))
	b = binary.BigEndian.AppendUint64(b, uint64(n.owner))
	return uint64(crc32.Update(n.sum, crc32.IEEETable, b)), b
}

// sumPayload sets the sum of a node whose path or data is new. It copies both into scratch, because the checksum wants bytes; much of it piece
// by piece, for a copy of a megabyte costs more than its checksum. It returns the buffer for the next call.
func sumPayload(n *Node, scratch []byte) []byte {
	left := n.payload
	if n.at() == 0 {
		left = left[n.pathLen:]
	}
	b := scratch
	for n.sum = 0; len(left) > 0; {
		piece := left[:min(scratchBytes, len(left))]
		b = append(b[:0], piece...)
		n.sum, left = crc32.Update(n.sum, crc32.IEEETable, b), left[len(piece):]
	}
	return b
}

// sumData is sumPayload where the data is still at hand as bytes: only the path is copied.
func (t *Tree) sumData(n *Node, data []byte) {
	n.sum = 0
	if n.at() > 0 {
		t.scratch = append(t.scratch[:0], n.Path()...)
		n.sum = crc32.ChecksumIEEE(t.scratch)
	}
	n.sum = crc32.Update(n.sum, crc32.IEEETable, data)
}
