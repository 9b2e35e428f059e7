// Package env is the world outside: disk, network, clocks and randomness as interfaces, and the real ones.
//
// Everything in zkd that touches a file does so through Disk, so that the simulator can lie about any of it: what an fsync made
// durable, where the power went, how much space is left. A real Disk promises only what POSIX does:
//
//   - written bytes are durable after File.Sync returned nil; after Sync failed nothing is known and nothing may be retried;
//   - a created, renamed or removed name is durable after SyncDir of its folder returned nil.
package env

import (
	"context"
	"io"
	"net"
	"time"
)

// Disk is a tree of files. Paths are the operating system's. Errors satisfy errors.Is with fs.ErrNotExist, fs.ErrExist and
// syscall.ENOSPC where these apply. All methods may be called from any goroutine.
type Disk interface {
	// Open opens an existing file for reading and writing.
	Open(path string) (File, error)
	// Create makes a new empty file; fs.ErrExist if the name is taken.
	Create(path string) (File, error)
	// Rename gives a file another name, replacing what had it.
	Rename(from, to string) error
	// Remove deletes a file or an empty folder.
	Remove(path string) error
	// MkdirAll makes a folder and its parents; nil if it is there. Each new folder's parent is synced.
	MkdirAll(path string) error
	// List returns the entries of a folder, sorted by name.
	List(path string) ([]Entry, error)
	// SyncDir makes the names in a folder durable.
	SyncDir(path string) error
	// Free returns the bytes that may still be written to the file system that holds path.
	Free(path string) (int64, error)
	// InPlace reports whether the file system that holds path writes over a file's bytes where they are. One that copies on write needs
	// new space for that, reserved or not.
	InPlace(path string) bool
	// Lock takes the exclusive lock of a file, made if missing, until Close of the result or the end of the process;
	// ErrLocked if another process has it.
	Lock(path string) (io.Closer, error)
}

// Entry is one name in a folder.
type Entry struct {
	Name string
	Size int64 // bytes; 0 for folders
	Dir  bool
}

// File is one open file. ReadAt and WriteAt keep the contracts of io.ReaderAt and io.WriterAt.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length in bytes.
	Truncate(size int64) error
	// Allocate makes the file size bytes long, zeros where nothing was written, with the space reserved: writing inside it
	// does not run out of space. syscall.ENOSPC if there is not enough.
	Allocate(size int64) error
	// Sync makes data and size durable.
	Sync() error
}

// WriteSync writes b at off and makes it, and the file's size, durable: f.WriteAt(b, off) and f.Sync(), or in one step where f can. What
// was written before may not be covered. An error leaves open what was written, and is final as one of Sync is.
func WriteSync(f File, b []byte, off int64) error {
	if one, ok := f.(interface {
		WriteSync(b []byte, off int64) error
	}); ok {
		return one.WriteSync(b, off)
	}
	if _, err := f.WriteAt(b, off); err != nil {
		return err
	}
	return f.Sync()
}

// NextData returns the first place from off on where something may have been written, if only zeros: all before it are zeros that are
// read without looking at the device. off itself if f cannot tell; past the end if there is nothing more.
func NextData(f io.ReaderAt, off int64) int64 {
	if s, ok := f.(interface{ NextData(off int64) int64 }); ok {
		return s.NextData(off)
	}
	return off
}

// Prefetch has the operating system begin to read what was written at the start of f, up to the first hole, if f can; it waits for nothing. What comes of it shows when it
// is read.
func Prefetch(f File) {
	if p, ok := f.(interface{ Prefetch() }); ok {
		p.Prefetch()
	}
}

// Clock tells the time. Now never goes back and does not stop while the machine sleeps if that can be had; its zero is
// arbitrary. Wall is the calendar's, for what people read and for znode times only.
type Clock interface {
	Now() time.Duration
	Wall() time.Time
	// NewTimer calls nothing: it sends on its channel once, after d.
	NewTimer(d time.Duration) Timer
}

// Timer is a single shot that can be moved.
type Timer interface {
	C() <-chan time.Time
	// Reset moves the shot to d from now; a pending shot that was not received is dropped.
	Reset(d time.Duration)
	Stop()
}

// Net makes connections.
type Net interface {
	Listen(addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Rand fills b with random bytes that nobody can foresee.
type Rand interface {
	Fill(b []byte)
}
