package proto

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// The fewest bytes that one element of a vector takes on the wire. A count that asks for more than the bytes left is
// refused before anything is allocated.
const (
	minStringBytes     = 4
	minACLBytes        = 12
	minClientInfoBytes = 8
)

// Reader takes values off the front of a byte slice. The first error sticks: every later call returns a zero value, so
// a decoder reads all its fields and looks at Err once. Errors wrap ErrMarshalling. What a Reader allocates is bounded by
// a small multiple of its input, whatever lengths and counts the input claims. A Reader belongs to one goroutine.
type Reader struct {
	buf []byte // what is left
	err error
}

// NewReader returns a Reader over b, which it never writes to.
func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Err returns the first error, nil if there was none.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes that are left, 0 after an error.
func (r *Reader) Len() int { return len(r.buf) }

// fail records what was wrong, unless something was before.
func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrMarshalling}, args...)...)
	}
	r.buf = nil
}

// take returns the next n bytes, or nil if there are fewer.
func (r *Reader) take(n int) []byte {
	if n > len(r.buf) {
		r.short(n)
		return nil
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b
}

func (r *Reader) short(n int) { r.fail("%d bytes wanted, %d left", n, len(r.buf)) }

// Int32 reads four bytes.
func (r *Reader) Int32() int32 {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

// Int64 reads eight bytes.
func (r *Reader) Int64() int64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// Bool reads one byte; any value but 0 is true.
func (r *Reader) Bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

// Buffer reads a length and that many bytes. The result aliases the Reader's input; it is nil for null (and after an
// error), and empty but not nil for length 0.
func (r *Reader) Buffer() []byte {
	n := r.Int32()
	if n < 0 {
		if n != -1 {
			r.fail("length %d", n)
		}
		return nil
	}
	return r.take(int(n))
}

// NullString reads a string and says whether it was null, in which case it is "". The result is a copy, in which every
// malformed UTF-8 sequence has become U+FFFD.
func (r *Reader) NullString() (s string, isNull bool) {
	b := r.Buffer()
	if b == nil {
		return "", r.err == nil
	}
	return toUTF8(b), false
}

// nullWord is NullString for what is likely to be a Word.
func (r *Reader) nullWord() (s string, isNull bool) {
	b := r.Buffer()
	switch {
	case b == nil:
		return "", r.err == nil
	case utf8.Valid(b):
		return Word(b), false
	}
	return toUTF8(b), false
}

// String reads a string, null as "". See NullString.
func (r *Reader) String() string {
	s, _ := r.NullString()
	return s
}

// count reads the number of elements of a vector, each of which takes at least min bytes. isNull is true for null and
// after an error; other negative counts are 0.
func (r *Reader) count(min int) (n int, isNull bool) {
	n = int(r.Int32())
	switch {
	case r.err != nil || n == -1:
		return 0, true
	case n < 0:
		return 0, false
	case n > len(r.buf)/min:
		r.fail("%d elements in %d bytes", n, len(r.buf))
		return 0, true
	}
	return n, false
}

// Strings reads a vector of strings: nil for null, empty but not nil for a count of 0. A null element becomes "".
func (r *Reader) Strings() []string {
	n, isNull := r.count(minStringBytes)
	if isNull {
		return nil
	}
	ss := make([]string, n)
	for i := range ss {
		ss[i] = r.String()
	}
	return ss
}

// ACLs reads an access control list: nil for null, empty but not nil for a count of 0.
func (r *Reader) ACLs() []ACL {
	n, isNull := r.count(minACLBytes)
	if isNull {
		return nil
	}
	acls := make([]ACL, n)
	for i := range acls {
		a := &acls[i]
		a.Perms = Perm(r.Int32())
		a.ID.Scheme, a.ID.SchemeNull = r.nullWord()
		a.ID.ID, a.ID.IDNull = r.nullWord()
	}
	return acls
}

// toUTF8 returns b as a string with U+FFFD for each malformed sequence, cut into sequences as the original's decoder does.
func toUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b)+2*utf8.UTFMax)
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		if c == utf8.RuneError && n == 1 {
			n = malformedLen(b)
		}
		out = utf8.AppendRune(out, c)
		b = b[n:]
	}
	return string(out)
}

// malformedLen returns the length of the malformed sequence that b starts with: the longest part that could begin a
// character. An encoded surrogate counts as one sequence of three bytes.
func malformedLen(b []byte) int {
	lo, hi, want := byte(0x80), byte(0xBF), 0
	switch b0 := b[0]; {
	case b0 >= 0xC2 && b0 <= 0xDF:
		want = 2
	case b0 >= 0xE0 && b0 <= 0xEF:
		want = 3
		if b0 == 0xE0 {
			lo = 0xA0
		}
	case b0 >= 0xF0 && b0 <= 0xF4:
		want = 4
		switch b0 {
		case 0xF0:
			lo = 0x90
		case 0xF4:
			hi = 0x8F
		}
	}
	n := 1
	for n < want && n < len(b) && b[n] >= lo && b[n] <= hi {
		lo, hi = 0x80, 0xBF
		n++
	}
	return n
}
