package peer

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// Sending is a snapshot file on its way to a learner. Until Close the file stays, and with it the log behind it.
type Sending struct {
	*snapshot.Raw
	Head  SnapshotHead
	store *Storage
}

// Check reads the file through before it is sent, since who gets a damaged one would ask for it again and again. A new Damage is returned with the
// error. pace is as in Scrub.
func (x *Sending) Check(pace func(n int) error) ([]Damage, error) {
	found, err := x.store.checkSnapshot(x.Zxid, pace)
	if err == nil && x.store.isCondemned(x.Zxid) {
		err = errCondemned
	}
	return found, err
}

var errCondemned = errors.New("the newest snapshot is damaged, and the next one is not written yet")

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
	return &Sending{Raw: raw, Head: h, store: s}, nil
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
		s.spareSnapshots() // one of them may have this name
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
		if mutant.On("O11") {
			if err := s.log.RemoveOldGenerations(); err != nil {
				return err
			}
		}
		if err := s.saveManifest(m); err != nil {
			return err
		}
		s.setNewest(r.head, r.raw.Size())
		// From here on a start knows that the generation has a log: one that is gone is damage, not a log that was never made.
		if err := s.saveHard(s.hard.rec); err != nil {
			return err
		}
		if err := s.log.RemoveOldGenerations(); err != nil {
			return err
		}
		return s.snaps.RemoveNewerThan(at.Zxid)
	})
}
