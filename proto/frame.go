package proto

import (
	"encoding/binary"
	"fmt"
)

const (
	// FrameHeaderBytes is the size of the length in front of every frame.
	FrameHeaderBytes = 4
	// DefaultMaxFrame is the longest frame, without its length, that a server takes unless it is told otherwise.
	DefaultMaxFrame = 0xFFFFF
)

// FrameSizeError reports the length of a frame that is negative or beyond the limit. There is no way to find the next
// frame: the connection must be closed. It wraps ErrMarshalling.
type FrameSizeError struct {
	Size int // as claimed by the sender, in bytes
	Max  int // the limit it was held against
}

func (e *FrameSizeError) Error() string {
	return fmt.Sprintf("frame of %d bytes, limit %d", e.Size, e.Max)
}

// Unwrap returns ErrMarshalling.
func (e *FrameSizeError) Unwrap() error { return ErrMarshalling }

// ReadFrameHeader returns the length of the frame whose first FrameHeaderBytes bytes are header, which must have that
// many. The error is a *FrameSizeError if the length is negative or above max. Length 0 is returned as it is; no message
// is that short, so its decoder refuses it.
func ReadFrameHeader(header []byte, max int) (int, error) {
	n := int(int32(binary.BigEndian.Uint32(header)))
	if n < 0 || n > max {
		return 0, &FrameSizeError{Size: n, Max: max}
	}
	return n, nil
}

// BeginFrame appends room for a frame's length. The mark is for EndFrame, when everything that belongs to the frame has
// been appended to the result. Several frames may follow each other in one slice.
func BeginFrame(dst []byte) (_ []byte, mark int) {
	return append(dst, 0, 0, 0, 0), len(dst)
}

// EndFrame writes the length of the frame that began at mark, and returns dst.
func EndFrame(dst []byte, mark int) []byte {
	binary.BigEndian.PutUint32(dst[mark:], uint32(len(dst)-mark-FrameHeaderBytes))
	return dst
}

// AppendFrame appends a frame that holds the records one after the other.
func AppendFrame(dst []byte, records ...Record) []byte {
	dst, mark := BeginFrame(dst)
	for _, m := range records {
		dst = m.Append(dst)
	}
	return EndFrame(dst, mark)
}
