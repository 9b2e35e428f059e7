package msgpack

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Reader reads values one after the other. After the first that is not what was asked for, everything it returns is zero and Whole is
// false: the caller checks once, at the end. The zero Reader has nothing to read.
type Reader struct {
	b      []byte
	failed bool
}

// NewReader reads b. Bytes that it returns alias b.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Whole reports whether all that was asked for was there and nothing is left.
func (r *Reader) Whole() bool { return !r.failed && len(r.b) == 0 }

// Failed reports whether something was not what was asked for.
func (r *Reader) Failed() bool { return r.failed }

// Fail makes Whole false, for a caller that cannot use what it read.
func (r *Reader) Fail() { r.b, r.failed = nil, true }

// Skip reports whether b comes next, and goes behind it if so.
func (r *Reader) Skip(b []byte) bool {
	if !bytes.HasPrefix(r.b, b) {
		return false
	}
	r.b = r.b[len(b):]
	return true
}

func (r *Reader) next(n int) []byte {
	if n > len(r.b) {
		r.Fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *Reader) code() byte {
	if b := r.next(1); b != nil {
		return b[0]
	}
	return 0xc1 // is no code
}

// big reads an unsigned number of n bytes, the highest first.
func (r *Reader) big(n int) uint64 {
	b := r.next(n)
	if b == nil {
		return 0
	}
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	default:
		return binary.BigEndian.Uint64(b)
	}
}

// List reads the head of a list: its length, or -1 if it is nil. room is for how many elements to make room before they are read: a length alone
// is only a claim.
func (r *Reader) List() (n, room int) {
	if len(r.b) > 0 && r.b[0] == codeNil {
		r.b = r.b[1:]
		return -1, 0
	}
	n = r.Array()
	return n, min(n, 1024)
}

// Array reads the head of an array and returns its length, which is not more than the bytes that are left.
func (r *Reader) Array() int {
	var n uint64
	switch c := r.code(); {
	case c&0xf0 == fixArray:
		n = uint64(c & 0x0f)
	case c == array16:
		n = r.big(2)
	case c == array32:
		n = r.big(4)
	default:
		r.Fail()
	}
	if n > uint64(len(r.b)) { // an element has at least one byte
		r.Fail()
		return 0
	}
	return int(n)
}

// Struct reads the head of an array of just n elements.
func (r *Reader) Struct(n int) {
	if r.Array() != n {
		r.Fail()
	}
}

// Bool reads a bool.
func (r *Reader) Bool() bool {
	switch r.code() {
	case codeYes:
		return true
	case codeNo:
	default:
		r.Fail()
	}
	return false
}

// Int reads a signed integer of at most the given number of bits.
func (r *Reader) Int(bits int) int64 {
	var v int64
	switch c := r.code(); {
	case c <= math.MaxInt8 || int8(c) >= minFixInt:
		v = int64(int8(c))
	case c == int8c:
		v = int64(int8(r.big(1)))
	case c == int16c:
		v = int64(int16(r.big(2)))
	case c == int32c:
		v = int64(int32(r.big(4)))
	case c == int64c:
		v = int64(r.big(8))
	default:
		r.Fail()
	}
	if v<<(64-bits)>>(64-bits) != v {
		r.Fail()
		return 0
	}
	return v
}

// Uint reads an unsigned integer of at most the given number of bits.
func (r *Reader) Uint(bits int) uint64 {
	var v uint64
	switch c := r.code(); {
	case c <= math.MaxInt8:
		v = uint64(c)
	case c == uint8c:
		v = r.big(1)
	case c == uint16c:
		v = r.big(2)
	case c == uint32c:
		v = r.big(4)
	case c == uint64c:
		v = r.big(8)
	default:
		r.Fail()
	}
	if v<<(64-bits)>>(64-bits) != v {
		r.Fail()
		return 0
	}
	return v
}

// String reads a string; it is a copy.
func (r *Reader) String() string { return string(r.Text()) }

// Rest is what has not been read yet, nil after a failure.
func (r *Reader) Rest() []byte { return r.b }

// Text reads a string as bytes, which alias what is read.
func (r *Reader) Text() []byte {
	n := uint64(0)
	switch c := r.code(); {
	case c&0xe0 == fixStr:
		n = uint64(c & 0x1f)
	case c == str8:
		n = r.big(1)
	case c == str16:
		n = r.big(2)
	case c == str32:
		n = r.big(4)
	default:
		r.Fail()
	}
	if n > uint64(len(r.b)) {
		r.Fail()
		return nil
	}
	return r.next(int(n))
}

// Bytes reads bytes, nil if that is what was written. They alias what is read.
func (r *Reader) Bytes() []byte {
	n := uint64(0)
	switch r.code() {
	case codeNil:
		return nil
	case bin8:
		n = r.big(1)
	case bin16:
		n = r.big(2)
	case bin32:
		n = r.big(4)
	default:
		r.Fail()
	}
	if r.failed || n > uint64(len(r.b)) {
		r.Fail()
		return nil
	}
	return r.next(int(n))
}
