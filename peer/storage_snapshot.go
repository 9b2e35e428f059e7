package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
	"github.com/zkd-project/zkd/zab"
)

// SnapshotHead is what the protocol adds in front of the state's own stream in a snapshot:
//
//	length of what follows 4 | version 2 | whole 1 | zxid 8 | chain 8 | configVersion 8 | count 4 | epoch 4, zxid 8, chain 8 …
type SnapshotHead struct {
	At            zab.Position
	ConfigVersion txn.Zxid
	Table         zab.EpochTable // up to At
}

const (
	headVersion  = 1
	headFixed    = 2 + 1 + 8 + 8 + 8 + 4
	headEpochEnd = 4 + 8 + 8
)

var (
	errHead        = errors.New("the protocol's part of the snapshot is invalid")
	errHeadVersion = fmt.Errorf("the protocol's part of the snapshot: %w", zab.ErrNewerVersion)
)

func (h *SnapshotHead) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(headFixed+len(h.Table.Ends)*headEpochEnd))
	b = binary.BigEndian.AppendUint16(b, headVersion)
	whole := byte(0)
	if h.Table.Whole {
		whole = 1
	}
	b = append(b, whole)
	for _, n := range []uint64{uint64(h.At.Zxid), h.At.Chain, uint64(h.ConfigVersion)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(h.Table.Ends)))
	for _, e := range h.Table.Ends {
		b = binary.BigEndian.AppendUint32(b, uint32(e.Epoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Last))
		b = binary.BigEndian.AppendUint64(b, e.Chain)
	}
	return b
}

// ReadSnapshotHead takes the protocol's part off the front of a snapshot's stream; what is left in r is the state's.
func ReadSnapshotHead(r io.Reader) (SnapshotHead, error) {
	var h SnapshotHead
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return h, headError(err)
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n < headFixed || n > headFixed+zab.EpochTableMax*headEpochEnd {
		return h, errHead
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return h, headError(err)
	}
	if v := binary.BigEndian.Uint16(b); v > headVersion {
		return h, errHeadVersion
	} else if v != headVersion || b[2] > 1 {
		return h, errHead
	}
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	h.At = zab.Position{Zxid: txn.Zxid(u64(3)), Chain: u64(11)}
	h.ConfigVersion = txn.Zxid(u64(19))
	h.Table.Whole = b[2] == 1
	if int(binary.BigEndian.Uint32(b[27:]))*headEpochEnd != n-headFixed {
		return h, errHead
	}
	for at := headFixed; at < n; at += headEpochEnd {
		h.Table.Ends = append(h.Table.Ends, zab.EpochEnd{
			Epoch: txn.Epoch(binary.BigEndian.Uint32(b[at:])), Last: txn.Zxid(u64(at + 4)), Chain: u64(at + 12),
		})
	}
	return h, nil
}

func headError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errHead
	}
	return err
}

// SnapshotWriter takes the state's stream of a new local snapshot. Its goroutine writes and calls Finish; then the disk's
// goroutine calls FinishSnapshot. Abort gives up at any time before that. Nothing that fails here is fatal (K63).
type SnapshotWriter struct {
	*snapshot.Writer
	head  SnapshotHead
	store *Storage
}

// BeginSnapshot starts a snapshot of the state as it is at a position that is applied. The table reaches to at and is not kept.
// Any goroutine.
func (s *Storage) BeginSnapshot(at zab.Position, table zab.EpochTable, configVersion txn.Zxid) (*SnapshotWriter, error) {
	w, err := s.snaps.Create(at.Zxid)
	if err != nil {
		return nil, err
	}
	head := SnapshotHead{At: at, ConfigVersion: configVersion, Table: table.Clone()}
	if _, err := w.Write(head.encode()); err != nil {
		w.Abort()
		return nil, err
	}
	return &SnapshotWriter{Writer: w, head: head, store: s}, nil
}

// Finish makes the stream durable, reads all of it back, and reads older snapshots as far as needed to know which may go.
func (w *SnapshotWriter) Finish() error {
	if err := w.Writer.Finish(); err != nil {
		return err
	}
	return w.store.snaps.Check(w.store.cfg.RetainSnaps)
}

// FinishSnapshot makes a finished snapshot one that counts, and lets go of snapshots and log that are no longer needed; Sweep deletes
// their files. w is used up in every case. ErrSuperseded and other errors that are no *StorageError mean that there is no new snapshot and nothing else is wrong.
func (s *Storage) FinishSnapshot(w *SnapshotWriter) (zab.SnapshotTaken, error) {
	defer w.Abort()
	if err := s.hasFailed(); err != nil {
		return zab.SnapshotTaken{}, err
	}
	at := w.head.At
	chain, err := s.log.ChainAt(at.Zxid)
	m := s.man
	again := len(m.Snapshots) > 0 && m.Snapshots[0] == at.Zxid && s.isCondemned(at.Zxid) // in the place of a damaged one
	if err != nil || chain != at.Chain || len(m.Snapshots) > 0 && m.Snapshots[0] >= at.Zxid && !again {
		return zab.SnapshotTaken{}, ErrSuperseded
	}
	if err := w.Install(); errors.Is(err, snapshot.ErrFolder) { // the manifest, and as a rule the log, are in that folder too
		return zab.SnapshotTaken{}, s.fatal("give a snapshot its name", err)
	} else if err != nil {
		return zab.SnapshotTaken{}, err
	}
	before, size, _ := s.Newest()
	s.setNewest(w.head, w.Size())
	if again {
		s.acquit(at.Zxid)
	} else {
		m.Snapshots = append([]txn.Zxid{at.Zxid}, m.Snapshots...)
	}
	var full error
	err = s.do("let go of old snapshots and log", func() error {
		err := s.purge(m)
		if !errors.Is(err, errUnchanged) {
			return err
		}
		if full = err; again { // the manifest names it already; only what it makes dispensable stays
			return nil
		}
		s.setNewest(before, size)
		return s.snaps.Remove([]txn.Zxid{at.Zxid})
	})
	if err == nil && full != nil && !again {
		return zab.SnapshotTaken{}, full
	}
	return zab.SnapshotTaken{At: at, Size: w.Size(), LogBase: s.oldest()}, err
}

// purge writes the manifest that names the snapshots of m that stay, and lets go of the others and of log that no snapshot needs. A snapshot that is
// being sent stays, so the log behind it does too.
func (s *Storage) purge(m manifest) error {
	keep := max(s.cfg.RetainSnaps, 1)
	_, drop, err := s.snaps.Retain(keep)
	if err != nil {
		return err
	}
	gone := map[txn.Zxid]bool{}
	for _, z := range drop {
		gone[z] = true
	}
	stay := make([]txn.Zxid, 0, len(m.Snapshots))
	for _, z := range m.Snapshots {
		if !gone[z] {
			stay = append(stay, z)
		}
	}
	m.Snapshots = stay
	if err := s.saveManifest(m); err != nil {
		return err
	}
	s.mu.Lock()
	s.letGo = drop // with those that Sweep has not come to yet: they are still in the folder
	s.mu.Unlock()
	if len(stay) < keep {
		return nil // the log is the second leg until there are enough snapshots
	}
	_, err = s.log.Purge(stay[len(stay)-1], s.cfg.RetainLogBytes)
	return err
}

// Sweep deletes one of the files that FinishSnapshot let go of: snapshots, then log, the oldest first. more is false if there was none. A *StorageError ends
// the process. Any goroutine, beside the writer: a file system may take as long for it as for many appends. What is not deleted when the
// process ends is at the next start or by its first snapshot.
func (s *Storage) Sweep() (more bool, err error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	s.mu.Lock()
	drop := s.letGo[:min(1, len(s.letGo))]
	closed := s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return false, nil
	case len(drop) == 1:
		if err := s.snaps.Remove(drop); err != nil {
			return false, s.sweepFailed(s.dir, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.letGo = slices.DeleteFunc(slices.Clone(s.letGo), func(z txn.Zxid) bool { return z == drop[0] })
		return true, nil
	}
	more, err = s.log.Sweep()
	if errors.Is(err, txnlog.ErrBroken) || errors.Is(err, txnlog.ErrClosed) {
		return false, nil // the writer knows
	}
	if err != nil {
		return false, s.sweepFailed(s.logDir, err)
	}
	return more, nil
}

// sweepFailed has the writer refuse everything from now on: an fsync of the folder that failed may have been the writer's too.
func (s *Storage) sweepFailed(dir string, err error) error {
	err = diskError("delete old snapshots and log", err, dir)
	var st *StorageError
	if errors.As(err, &st) {
		s.unswept.CompareAndSwap(nil, st)
	}
	return err
}

// spareSnapshots has Sweep delete no snapshot any more of those that were let go; the next FinishSnapshot lets them go again. When it
// returns none is being deleted.
func (s *Storage) spareSnapshots() {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letGo = nil
}

func (s *Storage) setNewest(h SnapshotHead, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest, s.size = h, size
}

// Newest returns the newest snapshot's head and the size of its file; ok is false if there is none. Any goroutine.
func (s *Storage) Newest() (h SnapshotHead, size int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.size, s.size > 0
}

// findNewest looks up the snapshot that the manifest names first.
func (s *Storage) findNewest() error {
	if len(s.man.Snapshots) == 0 {
		s.setNewest(SnapshotHead{}, 0)
		return nil
	}
	raw, err := s.snaps.OpenRaw(s.man.Snapshots[0])
	if err != nil {
		return err
	}
	defer raw.Close()
	r, err := s.snaps.Open(raw.Zxid)
	if err != nil {
		return err
	}
	defer r.Close()
	h, err := ReadSnapshotHead(r)
	if err != nil {
		return err
	}
	s.setNewest(h, raw.Length)
	return nil
}

// Load restores sm from the newest snapshot and returns its head; ErrNoSnapshot (and sm cleared) if there is none. Any
// goroutine, while the writer installs and truncates nothing.
func (s *Storage) Load(sm StateStore) (SnapshotHead, error) {
	h, _, ok := s.Newest()
	if !ok {
		if err := sm.Clear(); err != nil {
			return h, err
		}
		return h, ErrNoSnapshot
	}
	return loadSnapshot(s.snaps, h.At.Zxid, sm)
}

// loadSnapshot restores sm from one snapshot, trailer included. On an error sm holds nothing usable.
func loadSnapshot(store *snapshot.Store, zxid txn.Zxid, sm StateStore) (SnapshotHead, error) {
	r, err := store.Open(zxid)
	if err != nil {
		return SnapshotHead{}, err
	}
	defer r.Close()
	h, err := ReadSnapshotHead(r)
	if err != nil {
		return h, fmt.Errorf("snapshot %v: %w", zxid, err)
	}
	if h.At.Zxid != zxid {
		return h, fmt.Errorf("snapshot %v: it says that it is %v", zxid, h.At.Zxid)
	}
	if err := sm.Restore(r); err != nil {
		return h, fmt.Errorf("snapshot %v: %w", zxid, err)
	}
	// A state that stops at its own end has not seen whether the file's end is right.
	if n, err := io.Copy(io.Discard, r); err != nil || n > 0 {
		if err == nil {
			err = fmt.Errorf("%d bytes behind the state", n)
		}
		return h, fmt.Errorf("snapshot %v: %w", zxid, err)
	}
	return h, nil
}
