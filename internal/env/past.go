package env

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// past writes a file past the page cache. For a small write that has to be durable at once the cache is a detour: a copy, a page that
// becomes dirty and is looked for, and a second request that waits. In its place goes one request of the kernel, which also knows
// whether the device still has to be flushed (ADR 0019).
//
// No page of the cache is involved, so there is none that a failed write leaves behind looking clean: what was not written may be
// written through the cache, and its sync tells the truth.
type past struct {
	once sync.Once
	file *os.File // a second descriptor of the file, opened with O_DIRECT; nil if there is no way
	off  bool     // the file system has refused; whoever writes has the file to himself
}

// pageBytes is what O_DIRECT goes by: no device has larger sectors, or the kernel says EINVAL.
const pageBytes = 4096

// write is errNotBegun if b has to be written in another way.
func (p *past) write(f osFile, b []byte, off int64) error {
	if p == nil || p.off || len(b) == 0 || len(b) > directBytes || len(b)%pageBytes != 0 || off%pageBytes != 0 {
		return errNotBegun
	}
	p.once.Do(func() { p.open(f) })
	if p.file == nil {
		return errNotBegun
	}
	err := f.rings.writeDirect(int(p.file.Fd()), b, off)
	p.off = err != nil
	return err
}

func (p *past) open(f osFile) {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil || slices.Contains(copying, int64(st.Type)) {
		return
	}
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY|unix.O_DIRECT, 0)
	if err == nil {
		p.file = file
	}
}

func (p *past) close() {
	if p == nil {
		return
	}
	p.once.Do(func() {})
	if p.file != nil {
		p.file.Close()
	}
}
