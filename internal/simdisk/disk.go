package simdisk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/zkd-project/zkd/internal/env"
)

// SectorBytes is what a power cut leaves whole: old or new, never a mixture.
const SectorBytes = 512

// ErrPowerCut is returned by every call between a power cut and Reboot, and for ever by files opened before it.
var ErrPowerCut = errors.New("power is cut")

// Disk is an env.Disk in memory that tells apart what was written from what would survive a power cut.
//
// Every call that changes something (Create, Rename, Remove, MkdirAll, SyncDir, WriteAt, Truncate, Allocate, Sync) is one
// step, numbered from 1; FailAt and CrashAt aim at a step. Safe for any goroutine; the zero value is not usable.
type Disk struct {
	mu       sync.Mutex
	capacity int64 // bytes; 0 is no limit
	names    map[string]*inode
	durable  map[string]*inode // what the names would be after a power cut that keeps nothing
	pending  []nameOp          // changes of names that no SyncDir has covered, oldest first
	dirs     map[string]bool
	locks    map[string]bool
	life     int // grows when open files and locks die
	off      bool
	steps    int
	crashAt  int
	failAt   map[int]error
	failSync error // of the next Sync or SyncDir
	onFail   func(path string, err error)
	onCut    func()
}

// nameOp is one change of a folder, atomic: name from goes away, name to becomes node. Either may be empty.
type nameOp struct {
	from, to string
	node     *inode
	lost     bool // a SyncDir that should have covered it failed: no later one will
}

func (op nameOp) touches(dir string) bool {
	return op.from != "" && filepath.Dir(op.from) == dir || op.to != "" && filepath.Dir(op.to) == dir
}

// yield takes the names out of op that a later change has settled.
func (op *nameOp) yield(later nameOp) {
	for _, name := range []string{later.from, later.to} {
		if op.from == name {
			op.from = ""
		}
		if op.to == name {
			op.to = ""
		}
	}
}

func (op nameOp) apply(names map[string]*inode) {
	if op.from != "" {
		delete(names, op.from)
	}
	if op.to != "" {
		names[op.to] = op.node
	}
}

// NewDisk returns an empty disk that holds capacity bytes; 0 is no limit.
func NewDisk(capacity int64) *Disk {
	return &Disk{
		capacity: capacity,
		names:    map[string]*inode{}, durable: map[string]*inode{},
		dirs: map[string]bool{"/": true, ".": true}, locks: map[string]bool{}, failAt: map[int]error{},
	}
}

// Steps returns the number of the last step.
func (d *Disk) Steps() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps
}

// FailAt makes a step return err. A failed WriteAt has written half of its sectors; after a failed Sync the file's pages are
// clean and not durable, and the same goes for names after a failed SyncDir; anything else did not happen.
func (d *Disk) FailAt(step int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failAt[step] = err
}

// CrashAt turns the power off in the middle of a step: what the step wrote is in the cache, what it should have made durable
// is not. Crash decides what of it survived. 0 calls it off.
func (d *Disk) CrashAt(step int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashAt = step
}

// FailSync makes the next Sync or SyncDir return err; nil calls it off.
func (d *Disk) FailSync(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failSync = err
}

// Mend calls off every failure that was to come.
func (d *Disk) Mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failSync = nil
	clear(d.failAt)
}

// OnFail has f called for every change that is refused or fails, but for a power cut, while the disk is locked. nil calls it off.
func (d *Disk) OnFail(f func(path string, err error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onFail = f
}

// OnCut has f called when the step that CrashAt aims at turns the power off, while the disk is locked. nil calls it off.
func (d *Disk) OnCut(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onCut = f
}

// failed tells of a change that failed, and wraps its error.
func (d *Disk) failed(op, path string, err error) error {
	if d.onFail != nil {
		d.onFail(path, err)
	}
	return pathError(op, path, err)
}

// Survivor returns a disk that holds what a power cut now would leave at the least: nothing that was not made durable. d is not
// changed.
func (d *Disk) Survivor() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := NewDisk(0)
	maps.Copy(out.dirs, d.dirs)
	for name, n := range d.durable {
		left := n.survivor()
		out.names[name], out.durable[name] = left, left
	}
	return out
}

// Copy returns a disk that holds what can be read on this one, all of it durable, as after copying the files elsewhere. d is not changed.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := NewDisk(0)
	maps.Copy(out.dirs, d.dirs)
	for name, n := range d.names {
		c := newInode()
		maps.Copy(c.cache, n.cache)
		maps.Copy(c.platter, n.cache)
		c.size, c.platterSize, c.reserved = n.size, n.size, n.reserved
		out.names[name], out.durable[name] = c, c
	}
	return out
}

// Used returns how many bytes the files take.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

// SetCapacity changes the size of the disk in bytes; 0 is no limit.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// Crash cuts the power: of what was not made durable an arbitrary part, chosen by rng, survives. Every call fails until Reboot.
func (d *Disk) Crash(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := survival(rng)
	for _, op := range d.pending {
		if keep() {
			op.apply(d.durable)
		}
	}
	d.pending = nil
	seen := map[*inode]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.durable)) {
		if n := d.durable[name]; !seen[n] {
			seen[n] = true
			n.crash(keep)
		}
	}
	d.names = maps.Clone(d.durable)
	d.off = true
	d.detach()
}

// survival picks the character of one power cut: nothing, everything, or each thing by its own coin.
func survival(rng *rand.Rand) func() bool {
	switch rng.IntN(4) {
	case 0:
		return func() bool { return false }
	case 1:
		return func() bool { return true }
	}
	return func() bool { return rng.IntN(2) == 0 }
}

// Reboot turns the power on again.
func (d *Disk) Reboot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = false
	d.crashAt = 0
}

// Kill ends the process that used the disk: open files and locks die, everything written stays readable.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.detach()
}

func (d *Disk) detach() {
	d.life++
	clear(d.locks)
}

// Corrupt flips the bits of mask in the byte at off, in the cache and on the platter.
func (d *Disk) Corrupt(path string, off int64, mask byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.names[filepath.Clean(path)]
	if !ok {
		return pathError("corrupt", path, fs.ErrNotExist)
	}
	n.flip(off, mask)
	return nil
}

// step counts a call that changes something. fail is its injected error; cut says that the power goes off under it.
func (d *Disk) step() (cut bool, fail error) {
	d.steps++
	if d.crashAt > 0 && d.steps >= d.crashAt {
		d.off = true
		if d.onCut != nil {
			d.onCut()
		}
		return true, ErrPowerCut
	}
	return false, d.failAt[d.steps]
}

// syncStep is step for a call that makes something durable.
func (d *Disk) syncStep() (cut bool, fail error) {
	cut, fail = d.step()
	if fail == nil && d.failSync != nil {
		fail, d.failSync = d.failSync, nil
	}
	return cut, fail
}

func (d *Disk) change(op nameOp) {
	op.apply(d.names)
	d.pending = append(d.pending, op)
}

func (d *Disk) used() int64 {
	var sum int64
	seen := map[*inode]bool{}
	for _, n := range d.names {
		if !seen[n] {
			seen[n] = true
			sum += n.space()
		}
	}
	return sum
}

// room reports whether bytes more may be stored.
func (d *Disk) room(bytes int64) bool { return d.capacity == 0 || d.used()+bytes <= d.capacity }

func pathError(op, path string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }

// Open implements env.Disk.
func (d *Disk) Open(path string) (env.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPowerCut
	}
	n, ok := d.names[filepath.Clean(path)]
	if !ok {
		return nil, pathError("open", path, fs.ErrNotExist)
	}
	return &file{d: d, n: n, path: path, life: d.life}, nil
}

// Create implements env.Disk.
func (d *Disk) Create(path string) (env.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPowerCut
	}
	name := filepath.Clean(path)
	if _, taken := d.names[name]; taken || d.dirs[name] {
		return nil, pathError("create", path, fs.ErrExist)
	}
	if !d.dirs[filepath.Dir(name)] {
		return nil, pathError("create", path, fs.ErrNotExist)
	}
	cut, err := d.step()
	if err != nil && !cut {
		return nil, d.failed("create", path, err)
	}
	n := newInode()
	d.change(nameOp{to: name, node: n})
	if cut {
		return nil, err
	}
	return &file{d: d, n: n, path: path, life: d.life}, nil
}

// Rename implements env.Disk. It moves files, not folders.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrPowerCut
	}
	old, name := filepath.Clean(from), filepath.Clean(to)
	n, ok := d.names[old]
	if !ok || !d.dirs[filepath.Dir(name)] {
		return pathError("rename", from, fs.ErrNotExist)
	}
	if d.dirs[name] {
		return pathError("rename", to, fs.ErrExist)
	}
	cut, err := d.step()
	if err != nil && !cut {
		return d.failed("rename", from, err)
	}
	if old != name {
		d.change(nameOp{from: old, to: name, node: n})
	}
	return err
}

// Remove implements env.Disk.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrPowerCut
	}
	name := filepath.Clean(path)
	_, isFile := d.names[name]
	if !isFile && !d.dirs[name] {
		return pathError("remove", path, fs.ErrNotExist)
	}
	if !isFile && len(d.entries(name)) > 0 {
		return pathError("remove", path, syscall.ENOTEMPTY)
	}
	cut, err := d.step()
	if err != nil && !cut {
		return d.failed("remove", path, err)
	}
	if isFile {
		d.change(nameOp{from: name})
	} else {
		delete(d.dirs, name)
	}
	return err
}

// MkdirAll implements env.Disk. New folders are durable at once.
func (d *Disk) MkdirAll(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrPowerCut
	}
	name := filepath.Clean(path)
	if d.dirs[name] {
		return nil
	}
	if cut, err := d.step(); err != nil {
		if cut {
			return err
		}
		return d.failed("mkdir", path, err)
	}
	for ; !d.dirs[name]; name = filepath.Dir(name) {
		if _, isFile := d.names[name]; isFile {
			return pathError("mkdir", path, fs.ErrExist)
		}
		d.dirs[name] = true
	}
	return nil
}

// List implements env.Disk.
func (d *Disk) List(path string) ([]env.Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPowerCut
	}
	name := filepath.Clean(path)
	if !d.dirs[name] {
		return nil, pathError("list", path, fs.ErrNotExist)
	}
	return d.entries(name), nil
}

func (d *Disk) entries(dir string) []env.Entry {
	var out []env.Entry
	for name, n := range d.names {
		if filepath.Dir(name) == dir {
			out = append(out, env.Entry{Name: filepath.Base(name), Size: n.size})
		}
	}
	for name := range d.dirs {
		if filepath.Dir(name) == dir && name != dir {
			out = append(out, env.Entry{Name: filepath.Base(name), Dir: true})
		}
	}
	slices.SortFunc(out, func(a, b env.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// SyncDir implements env.Disk.
func (d *Disk) SyncDir(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrPowerCut
	}
	name := filepath.Clean(path)
	if !d.dirs[name] {
		return pathError("syncdir", path, fs.ErrNotExist)
	}
	cut, err := d.syncStep()
	if cut {
		return err
	}
	var rest []nameOp
	for _, op := range d.pending {
		switch {
		case !op.touches(name) || op.lost:
			rest = append(rest, op)
		case err != nil:
			op.lost = true
			rest = append(rest, op)
		default:
			op.apply(d.durable)
			for i := range rest {
				rest[i].yield(op)
			}
		}
	}
	d.pending = rest
	if err != nil {
		return d.failed("syncdir", path, err)
	}
	return nil
}

// InPlace implements env.Disk.
func (d *Disk) InPlace(string) bool { return true }

// Free implements env.Disk.
func (d *Disk) Free(string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return 0, ErrPowerCut
	}
	if d.capacity == 0 {
		return 1 << 50, nil
	}
	return max(0, d.capacity-d.used()), nil
}

// Lock implements env.Disk. The lock dies with Crash and Kill.
func (d *Disk) Lock(path string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPowerCut
	}
	name := filepath.Clean(path)
	if d.locks[name] {
		return nil, fmt.Errorf("%s: %w", path, env.ErrLocked)
	}
	if _, there := d.names[name]; !there {
		if !d.dirs[filepath.Dir(name)] {
			return nil, pathError("lock", path, fs.ErrNotExist)
		}
		d.change(nameOp{to: name, node: newInode()})
	}
	d.locks[name] = true
	return &diskLock{d: d, name: name, life: d.life}, nil
}

type diskLock struct {
	d    *Disk
	name string
	life int
}

func (l *diskLock) Close() error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.life == l.d.life {
		delete(l.d.locks, l.name)
	}
	return nil
}
