// Package msgpack is the one door to hashicorp/go-msgpack: one handle, structs as arrays, the new wire format.
//
// Structs are written as arrays of their exported fields in declaration order, so that a field is never renamed on the wire and
// a new field goes at the end. Decoding is strict about what it can be strict about: a body must be one complete value and
// nothing may follow it. Lengths inside are checked by the decoder against the bytes that are there.
package msgpack

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// ErrTrailing is returned when bytes follow the decoded value.
var ErrTrailing = errors.New("msgpack: bytes after the value")

var handle = newHandle()

func newHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.StructToArray = true
	h.RawToString = false
	h.MapType = reflect.TypeOf(map[string]any(nil))
	return h
}

type encoder struct {
	buf []byte
	enc *codec.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.enc = codec.NewEncoderBytes(&e.buf, handle)
	return e
}}

// Append encodes v behind dst and returns the longer slice. v is a struct or a pointer to one.
// It panics only where v holds a type that msgpack cannot express, which is a programming error.
func Append(dst []byte, v any) []byte {
	e := encoders.Get().(*encoder)
	e.buf = e.buf[:0]
	e.enc.ResetBytes(&e.buf)
	if err := e.enc.Encode(v); err != nil {
		panic(fmt.Sprintf("msgpack: encode %T: %v", v, err))
	}
	dst = append(dst, e.buf...)
	if cap(e.buf) <= 64<<10 {
		encoders.Put(e)
	}
	return dst
}

var decoders = sync.Pool{New: func() any { return codec.NewDecoderBytes(nil, handle) }}

// Decode reads one value from b into v, a pointer. Byte slices in v are copies of b's bytes.
// It returns ErrTrailing when something follows the value, and never panics on foreign bytes.
func Decode(b []byte, v any) (err error) {
	d := decoders.Get().(*codec.Decoder)
	defer decoders.Put(d)
	d.ResetBytes(b)
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("msgpack: %w", err)
	}
	if n := d.NumBytesRead(); n != len(b) {
		return fmt.Errorf("%w: %d of %d read", ErrTrailing, n, len(b))
	}
	return nil
}
