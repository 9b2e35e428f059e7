package session

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// Bits of an id.
const (
	serverShift  = 56
	counterBits  = 16
	clockMask    = 1<<(serverShift-counterBits) - 1
	ownBitsMask  = 1<<serverShift - 1 // below the server's byte
	reservedNone = txn.SessionID(0)
)

// serverOf is the server that opened a session.
func serverOf(id txn.SessionID) txn.ServerID { return txn.ServerID(uint64(id) >> serverShift) }

// Generator hands out session ids of one server. Ids ascend by one within a generator, and start where a clock in milliseconds
// says, so that two lives of a server do not meet unless the first handed out 65536 ids a millisecond or the clock stepped
// back; RaiseAbove closes that gap. It belongs to one goroutine.
type Generator struct {
	server uint64 // shifted to its place
	next   uint64 // within 56 bits
}

// NewGenerator returns the generator of a server at a time in milliseconds since any fixed point.
func NewGenerator(server txn.ServerID, clockMillis int64) *Generator {
	return &Generator{server: uint64(server) << serverShift, next: uint64(clockMillis) & clockMask << counterBits}
}

// Next returns an id that Next never returned before. It is neither 0 nor txn.OwnerContainer.
func (g *Generator) Next() txn.SessionID {
	for {
		id := txn.SessionID(g.server | g.next&ownBitsMask)
		g.next++
		if id != reservedNone && id != txn.OwnerContainer {
			return id
		}
	}
}

// RaiseAbove makes sure that id does not come again. Call it with the largest id that the history knows of this server (I-41); ids of
// other servers change nothing.
func (g *Generator) RaiseAbove(id txn.SessionID) {
	if uint64(id)&^ownBitsMask == g.server && !mutant.On("R-51") {
		g.next = max(g.next&ownBitsMask, uint64(id)&ownBitsMask+1)
	}
}
