// Package proto is the vocabulary of the client port: the operation codes, error codes, records and path rules of Apache
// ZooKeeper's protocol, and their bytes. Server and client share it, so every message can be written and read.
//
// A connection carries frames in both directions, all integers big-endian:
//
//	 0        4
//	+--------+----------------------------------+
//	| length | length bytes                     |   length <= DefaultMaxFrame, unless configured
//	+--------+----------------------------------+
//
//	client: ConnectRequest                          server: ConnectResponse               once, first
//	        RequestHeader xid, op | request                 ReplyHeader xid, zxid, err | response
//	                                                        ReplyHeader -1, … | WatcherEvent
//
//	int     4 bytes                    buffer   int length, bytes           length -1 is null
//	long    8 bytes                    string   int length, UTF-8           length -1 is null
//	bool    1 byte, not 0 is true      vector   int count, elements         count -1 is null
//
// The body of a multi is a list closed by a header with done:
//
//	type, done=0, err=-1 | request      type, done=0, err=-1 | request      …      -1, done=1, err=-1
//	type, done=0, err    | result       -1, done=0, err=e    | e            …      -1, done=1, err=-1
//
// Invariants:
//
//   - Null and empty stay distinct: a nil slice is null, an empty one that is not nil has length 0. A null string is ""
//     together with a flag named …Null, where the difference matters.
//   - decode(encode(x)) = x for every x whose strings are UTF-8 and whose …Null strings are "".
//   - Decoding allocates at most a small multiple of its input, whatever the input claims, and never panics.
//   - Decoded []byte fields alias the input: copy them before the input's buffer is used again. Strings are copies.
//   - Bytes after a message are ignored, as the original does.
//   - No reflection, no state: every function may be called from any goroutine, a Reader and a message by one at a time.
//
// Where versions of the original differ, this follows 3.9.5. The source is the behaviour of the original on the wire; the
// transcripts in testdata were recorded from it.
package proto
