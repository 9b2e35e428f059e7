package peer

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

// slowLine gives a thousand bytes a read at most.
type slowLine struct{ r io.Reader }

func (l slowLine) Read(b []byte) (int, error) { return l.r.Read(b[:min(len(b), 1000)]) }

func TestAFrameThatComesInPartsShowsThatItMoves(t *testing.T) {
	chunk := &zab.SnapChunk{N: 3, Data: bytes.Repeat([]byte("x"), 10_000)}
	frame := zab.AppendFrame(nil, 7, chunk)
	parts := 0
	pk, epoch, err := readFrame(bufio.NewReaderSize(slowLine{bytes.NewReader(frame)}, 16), 1<<20, func() { parts++ })
	require.NoError(t, err)
	require.Equal(t, chunk, pk)
	require.EqualValues(t, 7, epoch)
	require.GreaterOrEqual(t, parts, 9)

	_, _, err = readFrame(bufio.NewReader(iotest.DataErrReader(bytes.NewReader(frame))), 1<<20, nil)
	require.NoError(t, err, "the end of the stream right behind the frame is none of its business")
	_, _, err = readFrame(bufio.NewReader(bytes.NewReader(frame[:500])), 1<<20, nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
