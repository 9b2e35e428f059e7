package datatree

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// A large node is summed piece by piece, and the sum is that of the whole.
func TestDigestOfLargeNodes(t *testing.T) {
	for _, size := range []int{0, scratchBytes - 3, scratchBytes - 2, scratchBytes - 1, scratchBytes, 2*scratchBytes - 2, 2*scratchBytes + 1, 1 << 20} {
		w := newWorld(t)
		before := w.Digest() - w.nodeDigest(w.Get("/"))
		data := bytes.Repeat([]byte{1, 7, 0}, size/3+1)[:size]
		w.create("/n", 0, data...)
		whole := append([]byte("/n"), data...)
		n := w.Get("/n")
		for _, field := range []any{n.czxid, n.mzxid, n.pzxid, n.ctime.millis(), n.mtime.millis(), n.version, n.cversion, n.aversion, n.owner} {
			var err error
			whole, err = binary.Append(whole, binary.BigEndian, field)
			require.NoError(t, err)
		}
		require.EqualValues(t, crc32.ChecksumIEEE(whole), w.Digest()-before-w.nodeDigest(w.Get("/")), "%d bytes", size)
	}
}
