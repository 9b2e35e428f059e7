package sim

import (
	"time"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// What people do to data folders: put back an old copy, start a server on another cluster's.

// folderVerbs are the words for it.
var folderVerbs = map[string]verb{
	"backup":  {"SERVER…", 1, onEach((*World).backup)},
	"restore": {"SERVER…", 1, onEach((*World).restore)},
	"swap":    {"SERVER…", 1, onEach((*World).swap)},
	"return":  {"SERVER…", 1, onEach((*World).giveBack)},
}

// backup copies a server's folder as it can be read now; not one whose snapshots may hold a wrong state, which would come back with it.
func (w *World) backup(n *node) {
	if lies := w.checks.book(n).lied || n.edge != nil && n.edge.lies; !n.off && n.own == nil && !lies {
		w.backups[n.id] = n.disk.Copy()
	}
}

// restore puts the copy into the place of the folder, behind zkd's back. That is a disk that lost what it acknowledged: zkd promises
// nothing (§18.5) but that it says so if a leader notices, and all is well as long as everybody else has what was lost.
func (w *World) restore(n *node) {
	old := w.backups[n.id]
	if old == nil || n.own != nil || !w.mayRestore(n) {
		return
	}
	n.kill()
	n.setDisk(old.Copy())
	w.checks.damage(n, true)
	w.checks.book(n).restored = true
	w.count("restored")
	n.start()
}

// mayRestore: this server has all that it ever acknowledged, and every other voter has on its disk what this one has and has promised as much.
func (w *World) mayRestore(n *node) bool {
	b := w.checks.book(n)
	if !w.mayDamage(n) || b.damaged || b.rotten || b.hard.Recovering {
		return false
	}
	for _, o := range w.nodes {
		ob := w.checks.book(o)
		if o == n || w.observer(o.id) {
			continue
		}
		if o.own != nil || ob.damaged || ob.rotten || ob.hard.Recovering || ob.hard.Accepted < w.checks.maxEpoch || !w.checks.holds(ob.log, tip(b.log)) {
			return false
		}
	}
	return true
}

// swapGap is how long after the end of one swap the next may begin: a server to which a majority seems foreign ends, and one that was may seem
// so until it has been heard of again.
const swapGap = 10 * time.Second

// swap starts a server on the folder of another cluster's member; its own one is kept aside. No more than one at a time, and only when
// everybody knows which cluster it is of.
func (w *World) swap(n *node) {
	if w.swapEnd > 0 && w.now-w.swapEnd < swapGap {
		return
	}
	for _, o := range w.nodes {
		if o.own != nil || !o.up || o.clusterID == 0 {
			return
		}
	}
	d, err := foreignFolder(n.id, w.sc.Limits.Segment)
	if err != nil {
		w.violate("SCHEDULE", n.id, 0, "another cluster's folder: %v", err)
		return
	}
	n.kill()
	n.own, n.ownBook = n.disk, w.checks.books[n.id]
	n.setDisk(d)
	b := newBook()
	b.damaged = true
	b.newLead, b.lastAt, b.hasLast, b.unacked = n.ownBook.newLead, n.ownBook.lastAt, n.ownBook.hasLast, n.ownBook.unacked // of connections
	w.checks.books[n.id] = b
	w.count("swapped")
	n.start()
}

// giveBack puts a server's own folder back.
func (w *World) giveBack(n *node) {
	if n.own == nil {
		return
	}
	w.swapEnd = w.now
	n.kill()
	n.off = false
	n.setDisk(n.own)
	w.checks.books[n.id], n.own, n.ownBook = n.ownBook, nil, nil
	n.start()
}

// foreignFolder is the folder of a server with this id in another cluster, with a history of its own.
func foreignFolder(self zab.ServerID, segment int64) (*simdisk.Disk, error) {
	const cluster = 0xfeed
	d := simdisk.NewDisk(0)
	_ = d.MkdirAll("/data")
	id := uint64(cluster)
	store, _, err := peer.OpenStorage(peer.StorageConfig{Disk: d, DataDir: "/data", Self: self, SegmentBytes: segment, RetainSnaps: 2,
		NewID: func() uint64 { id++; return id }, Wall: func() time.Time { return epoch0 }}, &ghost{machine: newMachine()})
	if err != nil {
		return nil, err
	}
	h := zab.HardState{ClusterID: cluster, Accepted: 900, AcceptedLeader: self, Current: 900}
	if err := store.SaveHardState(h); err != nil {
		return nil, err
	}
	draft := txn.NewDraft(&txn.Txn{Header: txn.Header{}, Body: &txn.SetData{Path: "/", Data: []byte("foreign")}}, &txn.Request{})
	if err := store.Append([]txn.Record{draft.Seal(txn.MakeZxid(900, 1), 0, 0)}, 0); err != nil {
		return nil, err
	}
	if err := store.Initialize(cluster); err != nil {
		return nil, err
	}
	err = store.Close(true)
	d.Kill()
	return d, err
}

// onForeign: what the member of another cluster says to one of ours is hello and goodbye.
func (c *checks) onForeign(e *end, pk zab.Packet) {
	switch pk.(type) {
	case *zab.Hello, *zab.Bye:
		return
	}
	if e.c.settled {
		c.w.violate("R-15", e.n.id, 0, "a member of another cluster says %T to server %d", pk, e.peer.id)
	}
}
