package sim

import (
	"time"

	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/zab"
)

// spaceEvery is how often a server looks at its free space, as in peer.
const spaceEvery = time.Second

// watchSpace tells the core when the disk gets low or full and when there is space again.
func (n *node) watchSpace(was peer.Space) {
	n.soon(spaceEvery, func() {
		now := was
		if free, err := n.disk.Free("/data"); err == nil && n.store != nil {
			_, snap, _ := n.store.Newest()
			now = was.Judge(free, peer.SpaceBounds(0, 0, n.w.sc.Limits.Segment, snap))
		}
		if now != was {
			n.w.count(map[bool]string{true: "full-disk", false: "low-disk"}[now.Full])
			n.put(zab.Disk{Low: now.Low, Full: now.Full})
		}
		n.watchSpace(now)
	})
}

// squeeze leaves a disk so many bytes of room.
func (n *node) squeeze(room int64) {
	n.disk.SetCapacity(n.disk.Used() + max(room, 1))
}
