// Package datatree is the tree of znodes that all servers agree on: committed transactions only, in memory, pure.
//
//	index   path ──▶ *Node           point lookups: one hash
//	order   B-tree of *Node          key (parent, name): the children of a znode lie side by side, parents before children
//	owned   session ──▶ paths        ephemerals
//	lists   ACL ──▶ *aclList         equal ACLs are stored once
//
// A clone of the order is an exact image of the tree at one zxid, taken in constant time and read without a lock while the tree goes
// on. A Node that an image may hold is never changed: a change makes a new one that takes its place in index and order. A Node that is
// younger than the newest image changes in place, which its own zxids tell; so between two snapshots a znode is copied once. A Node
// owns one string, its path and then its data; changes of anything but the data share it. Data that is set again at the same length takes the place of
// the old, unless an image has that (ADR 0024): strings of data are good until the next change, those of paths for ever. Nothing here aliases a transaction's data,
// so a znode does not keep the frame alive that it came in.
//
// While a start replays its log the order is postponed: new nodes lie aside until Settle, or whoever needs the order first, puts them in (ADR 0016).
// Settle may have the B-tree filled on the side, while the tree serves; lists and images wait for it (ADR 0023).
//
// Invariants:
//
//   - index and order hold the same nodes, unless the order is postponed, and every node but the root has its parent in the tree.
//   - numChildren of a node = the number of nodes whose parent it is; an ephemeral has none.
//   - owned holds exactly the nodes for which Ephemeral is true.
//   - digest = the sum of the digests of all nodes that are not below /zookeeper, modulo 2^64.
//   - pzxid and the raw cversion of a node never sink.
//
// A Tree has no lock. One goroutine changes it; reads may run side by side with each other, not with a change.
// What the fields of a Stat mean, and the digest, follow Apache ZooKeeper.
package datatree
