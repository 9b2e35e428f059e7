package datatree

import (
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/txn"
)

// fading has the paths of the nodes that go by themselves: containers, and nodes with a time to live.
type fading map[string]struct{}

// Fading is a node whose time may be over. Mzxid tells it from a later node of the same path, or with other data.
type Fading struct {
	Path  string
	Mzxid txn.Zxid
}

// TTL is how long the node may stay without children after its data was set; 0 if that is not bounded.
func (n *Node) TTL() time.Duration {
	if uint64(n.owner)&ttlMask != ttlPrefix {
		return 0
	}
	return time.Duration(int64(n.owner)&txn.MaxTTL) * time.Millisecond
}

// Faded returns the nodes without children that are to be deleted at nowMillis, in the order of their paths: containers that had
// a child, or were never used for longer than neverUsed if that is not 0, and nodes whose time to live is over. It takes time in
// proportion to the number of containers and such nodes.
func (t *Tree) Faded(nowMillis int64, neverUsed time.Duration) []Fading {
	var due []Fading
	for path := range t.fading {
		n := t.nodes.get(path)
		age := time.Duration(nowMillis-n.mtime.millis()) * time.Millisecond
		switch {
		case n.numChildren > 0:
		case n.owner != txn.OwnerContainer && (n.TTL() == 0 || age <= n.TTL()):
		case n.owner == txn.OwnerContainer && n.cversion == 0 && (neverUsed == 0 || age <= neverUsed):
		default:
			due = append(due, Fading{Path: path, Mzxid: n.mzxid})
		}
	}
	slices.SortFunc(due, func(a, b Fading) int { return strings.Compare(a.Path, b.Path) })
	return due
}
