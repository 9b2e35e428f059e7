package session

import (
	"slices"

	"github.com/zkd-project/zkd/txn"
)

// shardCount splits the table so that a change after Clone copies 1/256 of it: a few hundred entries at 10^5 sessions.
// Consecutive ids fall into different shards.
const shardCount = 256

// Table is the replicated part: session ids with their timeouts, and the secret. One goroutine changes it; a Clone may be read
// by another at the same time. The zero value is not usable: see NewTable.
type Table struct {
	shards [shardCount]shard
	count  int
	secret []byte
	// highest is the largest id that each server ever opened, whether it is open or not, ascending. Clones share it, so it is replaced and
	// never changed in place.
	highest []txn.SessionID
}

// shard is shared with a clone until one of the two changes it.
type shard struct {
	timeouts map[txn.SessionID]int32
	shared   bool
}

// NewTable returns a table without sessions and without a secret.
func NewTable() *Table { return &Table{} }

func (t *Table) shard(id txn.SessionID) *shard { return &t.shards[uint8(id)] }

// own makes the shard of id the table's alone.
func (t *Table) own(id txn.SessionID) *shard {
	s := t.shard(id)
	if s.timeouts == nil {
		s.timeouts = map[txn.SessionID]int32{}
	} else if s.shared {
		fresh := make(map[txn.SessionID]int32, len(s.timeouts))
		for k, v := range s.timeouts {
			fresh[k] = v
		}
		s.timeouts = fresh
	}
	s.shared = false
	return s
}

// Add enters a session, or changes its timeout.
func (t *Table) Add(id txn.SessionID, timeoutMillis int32) {
	t.Raise(id)
	s := t.own(id)
	if _, there := s.timeouts[id]; !there {
		t.count++
	}
	s.timeouts[id] = timeoutMillis
}

// Remove forgets a session and reports whether it was there.
func (t *Table) Remove(id txn.SessionID) bool {
	if _, there := t.shard(id).timeouts[id]; !there {
		return false
	}
	delete(t.own(id).timeouts, id)
	t.count--
	return true
}

// Timeout returns a session's timeout in milliseconds; ok is false if there is no such session.
func (t *Table) Timeout(id txn.SessionID) (millis int32, ok bool) {
	millis, ok = t.shard(id).timeouts[id]
	return millis, ok
}

// Raise remembers that an id was given out.
func (t *Table) Raise(id txn.SessionID) {
	i, known := t.ofServer(serverOf(id))
	if known && t.highest[i] >= id {
		return
	}
	fresh := slices.Clone(t.highest)
	if known {
		fresh[i] = id
	} else {
		fresh = slices.Insert(fresh, i, id)
	}
	t.highest = fresh
}

// ofServer finds a server's place in highest. The ids of one server have the same sign, so they compare as they are.
func (t *Table) ofServer(server txn.ServerID) (int, bool) {
	return slices.BinarySearchFunc(t.highest, server, func(id txn.SessionID, server txn.ServerID) int {
		return int(serverOf(id)) - int(server)
	})
}

// Highest is the largest id that a server ever opened, 0 if it opened none.
func (t *Table) Highest(server txn.ServerID) txn.SessionID {
	if i, known := t.ofServer(server); known {
		return t.highest[i]
	}
	return 0
}

// AllHighest is Highest of every server that opened one, by server. The slice is the table's.
func (t *Table) AllHighest() []txn.SessionID { return t.highest }

// Len is the number of sessions.
func (t *Table) Len() int { return t.count }

// IDs returns all sessions in ascending order.
func (t *Table) IDs() []txn.SessionID {
	ids := make([]txn.SessionID, 0, t.count)
	for i := range t.shards {
		for id := range t.shards[i].timeouts {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Secret is the ensemble's secret, nil until it was set. It is shared: do not change it.
func (t *Table) Secret() []byte { return t.secret }

// SetSecret keeps a copy of the secret.
func (t *Table) SetSecret(secret []byte) { t.secret = slices.Clone(secret) }

// Clone returns the table as it is now, in constant time. The goroutine that changes t calls it; reads may go on beside it.
func (t *Table) Clone() *Table {
	for i := range t.shards {
		t.shards[i].shared = true
	}
	c := *t
	return &c
}
