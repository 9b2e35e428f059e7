package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
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

var errHead = errors.New("the protocol's part of the snapshot is invalid")

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
	if binary.BigEndian.Uint16(b) != headVersion || b[2] > 1 {
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

// FinishSnapshot makes a finished snapshot one that counts, and lets go of snapshots and log that are no longer needed. w is used up in
// every case. ErrSuperseded and other errors that are no *StorageError mean that there is no new snapshot and nothing else is wrong.
func (s *Storage) FinishSnapshot(w *SnapshotWriter) (zab.SnapshotTaken, error) {
	defer w.Abort()
	if s.failed != nil {
		return zab.SnapshotTaken{}, s.failed
	}
	at := w.head.At
	chain, err := s.log.ChainAt(at.Zxid)
	if err != nil || chain != at.Chain || len(s.man.Snapshots) > 0 && s.man.Snapshots[0] >= at.Zxid {
		return zab.SnapshotTaken{}, ErrSuperseded
	}
	if err := w.Install(); err != nil {
		return zab.SnapshotTaken{}, err
	}
	s.setNewest(w.head, w.Size())
	m := s.man
	m.Snapshots = append([]txn.Zxid{at.Zxid}, m.Snapshots...)
	err = s.do("let go of old snapshots and log", func() error { return s.purge(m) })
	return zab.SnapshotTaken{At: at, Size: w.Size(), LogBase: s.oldest()}, err
}

// purge writes the manifest that names the snapshots of m that stay, removes the others, then log that no snapshot needs. A snapshot that is
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
	if err := s.snaps.Remove(drop); err != nil {
		return err
	}
	if len(stay) < keep {
		return nil // the log is the second leg until there are enough snapshots
	}
	_, err = s.log.Purge(stay[len(stay)-1], s.cfg.RetainLogBytes)
	return err
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

// Sending is a snapshot file on its way to a learner. Until Close the file stays, and with it the log behind it.
type Sending struct {
	*snapshot.Raw
	Head SnapshotHead
}

// SendSnapshot opens the newest snapshot file for sending; ErrNoSnapshot if there is none. Any goroutine.
func (s *Storage) SendSnapshot() (*Sending, error) {
	h, _, ok := s.Newest()
	if !ok {
		return nil, ErrNoSnapshot
	}
	raw, err := s.snaps.OpenRaw(h.At.Zxid)
	if err != nil {
		return nil, err
	}
	return &Sending{Raw: raw, Head: h}, nil
}

// Receiving is a snapshot file that a leader sends. One goroutine writes and calls Finish; then the disk's goroutine installs it.
type Receiving struct {
	raw   *snapshot.RawWriter
	begin zab.SnapBegin
	head  SnapshotHead
	sum   uint32
	whole bool
}

// Receive starts taking in what begin announced. Any goroutine.
func (s *Storage) Receive(begin zab.SnapBegin) (*Receiving, error) {
	w, err := s.snaps.Receive(begin.At.Zxid)
	if err != nil {
		return nil, err
	}
	return &Receiving{raw: w, begin: begin}, nil
}

// Write takes the next bytes.
func (r *Receiving) Write(p []byte) (int, error) {
	if r.raw.Size()+int64(len(p)) > r.begin.Size {
		return 0, fmt.Errorf("snapshot %v is longer than the %d bytes announced", r.begin.At.Zxid, r.begin.Size)
	}
	n, err := r.raw.Write(p)
	r.sum = crc32.Update(r.sum, castagnoli, p[:n])
	return n, err
}

// Finish checks what came against the announcement and the end's sum, makes it durable and verifies it as a snapshot.
func (r *Receiving) Finish(sum uint32) error {
	if r.raw.Size() != r.begin.Size || r.sum != sum {
		return fmt.Errorf("snapshot %v came with %d bytes and sum %08x, announced were %d and %08x",
			r.begin.At.Zxid, r.raw.Size(), r.sum, r.begin.Size, sum)
	}
	if err := r.raw.Finish(); err != nil {
		return err
	}
	stream, err := r.raw.Open()
	if err != nil {
		return err
	}
	if r.head, err = ReadSnapshotHead(stream); err != nil {
		return err
	}
	if r.head.At != r.begin.At {
		return fmt.Errorf("snapshot %v holds another position than announced, %v", r.begin.At.Zxid, r.head.At.Zxid)
	}
	r.whole = true
	return nil
}

// Abort drops it. It does nothing after InstallReceived.
func (r *Receiving) Abort() { r.raw.Abort() }

// InstallReceived makes a received snapshot the whole history (§19): file, a new generation of the log, manifest. The manifest is the
// moment: a crash before it leaves the old history, one after it the new one. The state has to be loaded then (Load). r is used up.
func (s *Storage) InstallReceived(r *Receiving) error {
	const op = "install the received snapshot"
	defer r.Abort()
	return s.do(op, func() error {
		if !r.whole {
			return brokenInvariant(op, errors.New("it was not verified"))
		}
		at := r.head.At
		if err := r.raw.Install(); err != nil {
			return err
		}
		m := manifest{Generation: s.man.Generation + 1, Base: at, Snapshots: []txn.Zxid{at.Zxid}}
		for _, z := range s.man.Snapshots {
			if z < at.Zxid {
				m.Snapshots = append(m.Snapshots, z)
			}
		}
		if err := s.log.Reset(m.Generation, at.Zxid, at.Chain); err != nil {
			return err
		}
		if err := s.saveManifest(m); err != nil {
			return err
		}
		s.setNewest(r.head, r.raw.Size())
		if err := s.log.RemoveOldGenerations(); err != nil {
			return err
		}
		return s.snaps.RemoveNewerThan(at.Zxid)
	})
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
