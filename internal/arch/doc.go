// Package arch holds the tests that keep the house in order: who may import whom, as docs/architecture.md says; what a pure package may
// not touch; formatting, vet and staticcheck. It has no code of its own.
package arch
