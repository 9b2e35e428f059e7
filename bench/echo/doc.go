// Package echo is the floor that bench compares servers with: it speaks the framing of the client protocol, answers every request
// with a reply of the right size, and keeps nothing. What it costs is what the sockets cost; no server that does more can cost less.
//
// A connection is one goroutine: read what has come, append a reply for each frame, write once. Data is always Size bytes, a znode
// always has ten children, writes succeed, and a watch never fires.
package echo
