package sim

import (
	"slices"
	"time"

	"github.com/zkd-project/zkd/txn"
)

// lie has a server come to another state than the others, once: what a fault of its memory or of its code would do. The next data that it
// applies is another than what was written. Nothing but the digests can show it.
func (w *World) lie(n *node) {
	if n.core == nil || !w.mayDamage(n) {
		return
	}
	n.edge.lies = true
	w.lies++
	w.count("lied")
}

// twisted is the record with other data of the same length, so that no reply to the writer tells; ok is false if it carries none.
func twisted(rec *txn.Record, t *txn.Txn) (txn.Record, bool) {
	other := *t
	switch b := t.Body.(type) {
	case *txn.SetData:
		if len(b.Data) == 0 {
			return txn.Record{}, false
		}
		c := *b
		c.Data = slices.Clone(b.Data)
		c.Data[0] ^= 1
		other.Body = &c
	case *txn.Create:
		if len(b.Data) == 0 {
			return txn.Record{}, false
		}
		c := *b
		c.Data = slices.Clone(b.Data)
		c.Data[0] ^= 1
		other.Body = &c
	default:
		return txn.Record{}, false
	}
	d := txn.NewDraft(&other, &txn.Request{})
	return d.Seal(rec.Zxid, rec.Prev, 0), true
}

// lieLimit is how long a server may serve a state that is not the ensemble's (I-17): a wave of pings or two, what an undecided case may take, and
// the way to the next leader.
const lieLimit = 8 * time.Second

// onLie: from here on this server's state, and what it writes to its disk, is in doubt until a leader's snapshot has replaced it.
func (c *checks) onLie(n *node) { c.book(n).lied = true }

// doubtful holds a digest of a server that may lie against the others'.
func (c *checks) doubtful(b *book, z txn.Zxid, digest uint64) {
	if have, ok := c.digests[z]; ok {
		b.wrong = have != digest
	}
}

// settleLie: a leader's snapshot has replaced state and files, so both may be right again.
func (c *checks) settleLie(n *node) {
	b := c.book(n)
	if have, ok := c.digests[b.applied]; b.lied && ok && have == n.edge.machine.Digest() {
		b.lied, b.wrong = false, false
	}
}

// liars is how many voters' states are in doubt.
func (c *checks) liars() int {
	count := 0
	for _, n := range c.w.nodes {
		if !c.w.observer(n.id) && c.book(n).lied {
			count++
		}
	}
	return count
}

// checkLie: a server with a wrong state is found out in time.
func (c *checks) checkLie(n *node) {
	b := c.book(n)
	switch {
	case !b.wrong || !n.edge.serving || c.liars()*2 > c.w.voters(): // a wrong state of a majority is the state
		b.wrongAt = -1
	case b.wrongAt < 0:
		b.wrongAt = c.w.now
	case c.w.now-b.wrongAt > lieLimit:
		c.w.violate("I-17", n.id, b.applied, "serves a state that is not the ensemble's for %v", c.w.now-b.wrongAt)
	}
}
