package sim

import "strings"

// forget makes one slot of a server's promises unreadable, both of its copies.
func (w *World) forget(n *node) {
	if !w.mayDamage(n) || n.off || n.boots == 0 {
		return
	}
	n.kill()
	const slotBytes, copyBytes = 8192, 4096
	slot := n.diskRng.Int64N(2)
	for i := range int64(2) {
		if err := n.disk.Corrupt("/data/zkd/hardstate", slot*slotBytes+i*copyBytes+n.diskRng.Int64N(84), 1); err != nil {
			return
		}
	}
	w.trace(n.id, "forget", uint64(slot), nil)
	w.checks.damage(n, false)
	w.count("forgotten")
}

// lose takes the newest segment of a server's log away.
func (w *World) lose(n *node) {
	if !w.mayDamage(n) || n.off || n.boots == 0 {
		return
	}
	n.kill()
	const dir = "/data/zkd/"
	entries, err := n.disk.List(dir)
	if err != nil {
		return
	}
	newest := ""
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "log.") && !strings.HasSuffix(e.Name, ".tmp") {
			newest = max(newest, e.Name)
		}
	}
	if newest == "" {
		return
	}
	if n.disk.Remove(dir+newest) == nil { // if it fails because the power does, it may have happened all the same
		_ = n.disk.SyncDir(dir) // if that fails a power cut brings it back
	}
	w.trace(n.id, "lose", 0, newest)
	w.checks.damage(n, false)
	w.count("lost")
}
