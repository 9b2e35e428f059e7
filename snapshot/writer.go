package snapshot

import (
	"encoding/binary"
	"fmt"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// temp is a file that is not a snapshot yet.
type temp struct {
	store *Store
	zxid  txn.Zxid
	path  string
	file  env.File // nil once it was closed
	at    int64    // bytes written
	safe  int64    // of them synced
	err   error    // sticky
	done  bool     // synced and read back
}

// syncEvery is how much is written between two syncs. What waits in the page cache goes to the disk at some moment, all of it, and the log's
// next sync behind it: with a second's worth of snapshot that is half a second in which nothing is acknowledged.
const syncEvery = 2 << 20

func (t *temp) write(b []byte) error {
	if t.err != nil {
		return t.err
	}
	if _, err := t.file.WriteAt(b, t.at); err != nil {
		return t.fail(fmt.Errorf("write snapshot %v: %w", t.zxid, err))
	}
	t.at += int64(len(b))
	if t.at-t.safe < syncEvery {
		return nil
	}
	return t.sync()
}

func (t *temp) sync() error {
	if err := t.file.Sync(); err != nil {
		return t.fail(fmt.Errorf("sync snapshot %v: %w", t.zxid, err))
	}
	t.safe = t.at
	return nil
}

func (t *temp) fail(err error) error {
	t.err = err
	return err
}

// seal makes the bytes durable and reads all of them back. pace is called after each block that was read; nil: nothing waits.
func (t *temp) seal(pace func(n int)) error {
	if t.err != nil {
		return t.err
	}
	if mutant.On("K16") {
		t.done = true
		return nil
	}
	if err := t.sync(); err != nil {
		return err
	}
	p := &paced{ReaderAt: t.file, pace: t.store.stopped}
	r, err := newReader(p, t.at, t.path, t.zxid)
	if err == nil {
		err = r.drain(pace)
	}
	if p.stopped != nil {
		err = p.stopped
	}
	if err != nil {
		return t.fail(fmt.Errorf("read back snapshot %v: %w", t.zxid, err))
	}
	t.done = true
	return nil
}

// open gives a Reader over the sealed bytes.
func (t *temp) open() (*Reader, error) {
	if t.err != nil {
		return nil, t.err
	}
	return newReader(t.file, t.at, t.path, t.zxid)
}

// install gives the file its name. It is durable when install returns nil; with ErrFolder nobody knows.
func (t *temp) install() error {
	if t.err != nil {
		return t.err
	}
	if !t.done {
		return t.fail(fmt.Errorf("snapshot %v is installed before it was verified", t.zxid))
	}
	f := t.file
	t.file = nil
	if err := f.Close(); err != nil {
		return t.fail(fmt.Errorf("close snapshot %v: %w", t.zxid, err))
	}
	s := t.store
	if err := s.cfg.Disk.Rename(t.path, s.path(t.zxid)); err != nil {
		return t.fail(fmt.Errorf("rename snapshot %v: %w", t.zxid, err))
	}
	t.path = ""
	if err := s.cfg.Disk.SyncDir(s.cfg.Dir); err != nil {
		return t.fail(fmt.Errorf("%w: snapshot %v: %w", ErrFolder, t.zxid, err))
	}
	s.setVerdict(t.zxid, true)
	t.err = ErrClosed
	return nil
}

// abort removes what is there, unless it was installed. A file that cannot be removed is removed when the store is next opened.
func (t *temp) abort() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
	if t.path != "" {
		_ = t.store.cfg.Disk.Remove(t.path)
		t.path = ""
	}
	t.err = ErrClosed
}

// Writer takes the stream of a new snapshot. It is used by one goroutine at a time. Its end is Install or Abort; Abort after
// Install does nothing, so it can be deferred.
type Writer struct {
	temp  temp
	seed  uint32
	sofar totals
	buf   []byte // room for a block's head, then data
}

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	n := 0
	for len(p) > 0 {
		room := blockHead + blockMax - len(w.buf)
		if room == 0 {
			if err := w.flush(); err != nil {
				return n, err
			}
			continue
		}
		m := min(room, len(p))
		w.buf = append(w.buf, p[:m]...)
		p = p[m:]
		n += m
	}
	return n, w.temp.err
}

func (w *Writer) flush() error {
	data := w.buf[blockHead:]
	if len(data) == 0 {
		return w.temp.err
	}
	binary.BigEndian.PutUint32(w.buf, uint32(len(data)))
	binary.BigEndian.PutUint32(w.buf[4:], blockSum(w.seed, w.sofar.blocks, data))
	w.sofar.add(data)
	n := len(w.buf)
	w.buf = w.buf[:blockHead]
	if err := w.temp.write(w.buf[:n]); err != nil {
		return err
	}
	if pace := w.temp.store.cfg.Pace; pace != nil {
		pace(n)
	}
	if err := w.temp.store.stopped(n); err != nil {
		return w.temp.fail(fmt.Errorf("write snapshot %v: %w", w.temp.zxid, err))
	}
	return nil
}

// Finish writes the rest, syncs the file, and reads back and verifies all of it. The file has its temporary name still.
func (w *Writer) Finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.temp.write(appendTrailer(nil, w.seed, w.sofar)); err != nil {
		return err
	}
	return w.temp.seal(w.temp.store.cfg.Pace)
}

// Install gives a finished snapshot its name; it is durable when Install returns nil.
func (w *Writer) Install() error { return w.temp.install() }

// Commit is Finish and Install.
func (w *Writer) Commit() error {
	if err := w.Finish(); err != nil {
		return err
	}
	return w.Install()
}

// Abort gives up and removes the temporary file.
func (w *Writer) Abort() { w.temp.abort() }

// Zxid is the snapshot's name.
func (w *Writer) Zxid() txn.Zxid { return w.temp.zxid }

// Size is the length of the file so far, in bytes.
func (w *Writer) Size() int64 { return w.temp.at }

// RawWriter takes the bytes of a snapshot file that another server sends. It is used by one goroutine at a time. Its end is
// Install or Abort; Abort after Install does nothing.
type RawWriter struct{ temp temp }

// Write implements io.Writer: the next bytes of the file.
func (w *RawWriter) Write(p []byte) (int, error) {
	if err := w.temp.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Finish syncs what came and verifies structure and sums; a *CorruptError tells what is wrong.
func (w *RawWriter) Finish() error { return w.temp.seal(nil) }

// Open reads the stream of a finished file that is not installed yet. The Reader ends with this RawWriter.
func (w *RawWriter) Open() (*Reader, error) { return w.temp.open() }

// Install gives a finished snapshot its name, replacing one of the same name; it is durable when Install returns nil.
func (w *RawWriter) Install() error { return w.temp.install() }

// Abort gives up and removes the temporary file.
func (w *RawWriter) Abort() { w.temp.abort() }

// Zxid is the snapshot's name.
func (w *RawWriter) Zxid() txn.Zxid { return w.temp.zxid }

// Size is how many bytes have come.
func (w *RawWriter) Size() int64 { return w.temp.at }
