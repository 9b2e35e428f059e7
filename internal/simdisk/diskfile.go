package simdisk

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
)

// sector is immutable once it is in a map, so that cache and platter can share it. A sector that is missing reads as zeros.
type sector [SectorBytes]byte

// inode is one file: what is read now (cache, size) and what is on the platter.
type inode struct {
	cache, platter         map[int64]*sector
	size, platterSize      int64
	dirty                  map[int64]bool // written since the last Sync
	lost                   map[int64]bool // a Sync that should have covered it failed; it may have reached the platter or not
	sizeUnsynced, sizeLost bool
	reserved               int64 // bytes from the start that Allocate has set aside
}

func newInode() *inode {
	return &inode{cache: map[int64]*sector{}, platter: map[int64]*sector{}, dirty: map[int64]bool{}, lost: map[int64]bool{}}
}

func sectors(bytes int64) int64 { return (bytes + SectorBytes - 1) / SectorBytes }

// space is what the file takes on the disk, in bytes.
func (n *inode) space() int64 {
	held := sectors(n.reserved)
	sum := held
	for i := range n.cache {
		if i >= held {
			sum++
		}
	}
	return sum * SectorBytes
}

// needs is how much space a write of length bytes at off would add.
func (n *inode) needs(off, length int64) int64 {
	var sum int64
	for i := max(off/SectorBytes, sectors(n.reserved)); i < sectors(off+length); i++ {
		if n.cache[i] == nil {
			sum += SectorBytes
		}
	}
	return sum
}

func (n *inode) resize(size int64) {
	if size == n.size {
		return
	}
	if size < n.size {
		n.reserved = min(n.reserved, size)
		for i := range n.cache {
			if i >= sectors(size) {
				delete(n.cache, i)
				n.dirty[i] = true
			}
		}
		if in := size % SectorBytes; in > 0 && n.cache[size/SectorBytes] != nil {
			s := *n.cache[size/SectorBytes]
			clear(s[in:])
			n.put(size/SectorBytes, &s)
		}
	}
	n.size = size
	n.sizeUnsynced = true
}

func (n *inode) put(i int64, s *sector) {
	n.cache[i] = s
	n.dirty[i] = true
}

func (n *inode) write(b []byte, off int64) {
	if end := off + int64(len(b)); end > n.size {
		n.size = end
		n.sizeUnsynced = true
	}
	for len(b) > 0 {
		i, in := off/SectorBytes, off%SectorBytes
		var s sector
		if old := n.cache[i]; old != nil {
			s = *old
		}
		done := copy(s[in:], b)
		n.put(i, &s)
		b, off = b[done:], off+int64(done)
	}
}

func (n *inode) read(b []byte, off int64) int {
	b = b[:max(0, min(int64(len(b)), n.size-off))]
	total := len(b)
	for len(b) > 0 {
		i, in := off/SectorBytes, off%SectorBytes
		var done int
		if s := n.cache[i]; s != nil {
			done = copy(b, s[in:])
		} else {
			done = int(min(int64(len(b)), SectorBytes-in))
			clear(b[:done])
		}
		b, off = b[done:], off+int64(done)
	}
	return total
}

// toPlatter makes one sector as durable as it is in the cache.
func (n *inode) toPlatter(i int64) {
	if s := n.cache[i]; s != nil {
		n.platter[i] = s
	} else {
		delete(n.platter, i)
	}
}

func (n *inode) sync() {
	for i := range n.dirty {
		n.toPlatter(i)
		delete(n.lost, i)
	}
	clear(n.dirty)
	if n.sizeUnsynced {
		n.platterSize, n.sizeUnsynced, n.sizeLost = n.size, false, false
	}
}

// failSync is what a kernel does after an error: the pages are clean, so that no later Sync writes them.
func (n *inode) failSync() {
	maps.Copy(n.lost, n.dirty)
	clear(n.dirty)
	n.sizeLost = n.sizeLost || n.sizeUnsynced
	n.sizeUnsynced = false
}

func (n *inode) crash(keep func() bool) {
	maps.Copy(n.dirty, n.lost)
	for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
		if keep() {
			n.toPlatter(i)
		}
	}
	if (n.sizeUnsynced || n.sizeLost) && keep() {
		n.platterSize = n.size
	}
	for i := range n.platter {
		if i >= sectors(n.platterSize) {
			delete(n.platter, i)
		}
	}
	if in := n.platterSize % SectorBytes; in > 0 && n.platter[n.platterSize/SectorBytes] != nil {
		s := *n.platter[n.platterSize/SectorBytes]
		clear(s[in:])
		n.platter[n.platterSize/SectorBytes] = &s
	}
	n.cache, n.size = maps.Clone(n.platter), n.platterSize
	n.reserved = min(n.reserved, n.size)
	n.sizeUnsynced, n.sizeLost = false, false
	clear(n.dirty)
	clear(n.lost)
}

// survivor is the file as crash leaves it at the least.
func (n *inode) survivor() *inode {
	out := newInode()
	for i, s := range n.platter {
		if i < sectors(n.platterSize) {
			out.platter[i], out.cache[i] = s, s
		}
	}
	out.size, out.platterSize = n.platterSize, n.platterSize
	out.reserved = min(n.reserved, out.size)
	return out
}

func (n *inode) flip(off int64, mask byte) {
	i, in := off/SectorBytes, off%SectorBytes
	for _, m := range []map[int64]*sector{n.cache, n.platter} {
		var s sector
		if old := m[i]; old != nil {
			s = *old
		}
		s[in] ^= mask
		m[i] = &s
	}
}

// file is one open file; it dies with the process or the power.
type file struct {
	d      *Disk
	n      *inode
	path   string
	life   int
	closed bool
}

// usable is called with the disk's lock held.
func (f *file) usable() error {
	switch {
	case f.d.off || f.life != f.d.life:
		return ErrPowerCut
	case f.closed:
		return pathError("use", f.path, fs.ErrClosed)
	}
	return nil
}

// mutate runs one step: do changes the cache; before an injected error it is not run, at a power cut it is.
func (f *file) mutate(op string, do func()) error {
	cut, err := f.d.step()
	if err == nil || cut {
		do()
	}
	if err != nil && !cut {
		return f.d.failed(op, f.path, err)
	}
	return err
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	n := f.n.read(b, off)
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	if need := f.n.needs(off, int64(len(b))); need > 0 && !f.d.room(need) {
		return 0, f.d.failed("write", f.path, syscall.ENOSPC)
	}
	err := f.mutate("write", func() { f.n.write(b, off) })
	if err == nil {
		return len(b), nil
	}
	if !f.d.off {
		half := int(sectors(int64(len(b))) / 2 * SectorBytes)
		f.n.write(b[:half], off)
		return half, err
	}
	return 0, err
}

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.usable(); err != nil {
		return 0, err
	}
	return f.n.size, nil
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	return f.mutate("truncate", func() { f.n.resize(size) })
}

func (f *file) Allocate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	before := f.n.space()
	after := sectors(max(size, f.n.reserved)) * SectorBytes
	if after > before && !f.d.room(after-before) {
		return f.d.failed("allocate", f.path, syscall.ENOSPC)
	}
	return f.mutate("allocate", func() {
		f.n.resize(max(size, f.n.size))
		f.n.reserved = max(size, f.n.reserved)
	})
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	cut, err := f.d.syncStep()
	switch {
	case cut:
		return err
	case err != nil:
		f.n.failSync()
		return f.d.failed("sync", f.path, err)
	}
	f.n.sync()
	return nil
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.life == f.d.life && f.closed {
		return pathError("close", f.path, fs.ErrClosed)
	}
	f.closed = true
	return nil
}
