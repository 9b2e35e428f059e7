package msgpack

import (
	"encoding/binary"
	"math"
)

// The functions below write exactly the bytes that the library writes for the same value, and Reader reads those and no others. They serve
// the few types that every write passes through, where the library's reflection costs more than the rest of the work (ADR 0011).
// Whatever Reader does not accept is left to Decode, which is the judge of what is valid.

const (
	fixArray = 0x90
	fixStr   = 0xa0
	codeNil  = 0xc0
	codeNo   = 0xc2
	codeYes  = 0xc3
	bin8     = 0xc4
	bin16    = 0xc5
	bin32    = 0xc6
	uint8c   = 0xcc
	uint16c  = 0xcd
	uint32c  = 0xce
	uint64c  = 0xcf
	int8c    = 0xd0
	int16c   = 0xd1
	int32c   = 0xd2
	int64c   = 0xd3
	str8     = 0xd9
	str16    = 0xda
	str32    = 0xdb
	array16  = 0xdc
	array32  = 0xdd

	minFixInt = -32
)

// AppendNil writes what a nil slice is.
func AppendNil(dst []byte) []byte { return append(dst, codeNil) }

// AppendArray writes the head of an array of n elements.
func AppendArray(dst []byte, n int) []byte {
	switch {
	case n < 16:
		return append(dst, fixArray|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, array16), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(dst, array32), uint32(n))
	}
}

// AppendBool writes a bool.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, codeYes)
	}
	return append(dst, codeNo)
}

// AppendInt writes a signed integer of any width.
func AppendInt(dst []byte, v int64) []byte {
	switch {
	case v >= minFixInt && v <= math.MaxInt8:
		return append(dst, byte(v))
	case v >= math.MinInt8 && v <= math.MaxInt8:
		return append(dst, int8c, byte(v))
	case v >= math.MinInt16 && v <= math.MaxInt16:
		return binary.BigEndian.AppendUint16(append(dst, int16c), uint16(v))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		return binary.BigEndian.AppendUint32(append(dst, int32c), uint32(v))
	default:
		return binary.BigEndian.AppendUint64(append(dst, int64c), uint64(v))
	}
}

// AppendUint writes an unsigned integer of any width.
func AppendUint(dst []byte, v uint64) []byte {
	switch {
	case v <= math.MaxInt8:
		return append(dst, byte(v))
	case v <= math.MaxUint8:
		return append(dst, uint8c, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, uint16c), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, uint32c), uint32(v))
	default:
		return binary.BigEndian.AppendUint64(append(dst, uint64c), v)
	}
}

// AppendString writes a string.
func AppendString(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		dst = append(dst, fixStr|byte(n))
	case n <= math.MaxUint8:
		dst = append(dst, str8, byte(n))
	case n <= math.MaxUint16:
		dst = binary.BigEndian.AppendUint16(append(dst, str16), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, str32), uint32(n))
	}
	return append(dst, s...)
}

// AppendBytes writes bytes; nil stays nil.
func AppendBytes(dst, b []byte) []byte {
	switch n := len(b); {
	case b == nil:
		return append(dst, codeNil)
	case n <= math.MaxUint8:
		dst = append(dst, bin8, byte(n))
	case n <= math.MaxUint16:
		dst = binary.BigEndian.AppendUint16(append(dst, bin16), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, bin32), uint32(n))
	}
	return append(dst, b...)
}
