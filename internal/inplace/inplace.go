// Package inplace changes the bytes of strings (ADR 0024).
//
// A string does not change: Go promises it, and what keeps one relies on it. That is a promise about memory which others may have. Whoever made
// the string of memory of its own, and knows that nobody else keeps the part which is to change or reads it meanwhile, may use that
// memory again. Nothing but this package gives such memory up.
package inplace

import "unsafe"

// Overwrite puts b in the place of len(b) bytes of s from at on. s must have been made while the program ran, by whoever calls: a constant
// lies in memory that cannot be written. It panics if s is too short.
func Overwrite(s string, at int, b []byte) {
	copy(unsafe.Slice(unsafe.StringData(s), len(s))[at:at+len(b)], b)
}
