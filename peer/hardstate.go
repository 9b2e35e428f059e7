package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// ErrHardStateRot says that one of the two slots of the hard state holds no valid copy. It may have been the newer one, so
// the server may have promised what it no longer knows.
var ErrHardStateRot = errors.New("hardstate is unreadable")

var errHardVersion = errors.New("hardstate was written by a newer version")

// The file: two slots of two copies. A copy is one sector, and the next is a page away, so that one bad sector takes one copy
// and a torn write leaves each copy old or new.
//
//	0        512      4096     8192       12288
//	| slot 0 | zeros  | slot 0 | slot 1   | slot 1 |
//
// A sector, big-endian:
//
//	magic 8 | version 4 | slot 1 | copy 1 | sid 1 | acceptedLeader 1 | seq 8 | directory 8 | boot 8 | clusterId 8 | recoveryId 8 |
//	accepted 4 | current 4 | flags 4 | generation 8 | watermark 8 | zeros | CRC-32C of what stands before 4
//
// Both slots are written before the file gets its name; so a slot without a valid copy is always rot.
const (
	hardName    = "hardstate"
	hardMagic   = "zkd.hard"
	hardVersion = 1
	hardSector  = 512
	hardStride  = 4096
	hardCopies  = 2
	hardSlots   = 2
	hardBytes   = hardStride * hardCopies * hardSlots

	hardRecovering = 1 << 0
	hardUnclean    = 1 << 1
	hardVouched    = 1 << 2
	hardDiverged   = 1 << 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hardRecord is everything that the file holds.
type hardRecord struct {
	zab.HardState
	Self      zab.ServerID
	Directory uint64 // drawn when the directory was made
	Boot      uint64 // counts starts
	Unclean   bool   // no clean stop since the start
	Vouched   bool   // the operator vouched for this member while it was empty; means nothing once it is not
	// Generation and Watermark: the log of this generation was durable up to this zxid when the record was written.
	Generation uint64
	Watermark  txn.Zxid
	Seq        uint64 // of the write
}

func encodeHard(r *hardRecord, slot, number int) []byte {
	b := make([]byte, 0, hardSector)
	b = append(b, hardMagic...)
	b = binary.BigEndian.AppendUint32(b, hardVersion)
	b = append(b, byte(slot), byte(number), byte(r.Self), byte(r.AcceptedLeader))
	for _, n := range []uint64{r.Seq, r.Directory, r.Boot, r.ClusterID, r.RecoveryID} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(r.Accepted))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Current))
	b = binary.BigEndian.AppendUint32(b, r.flags())
	b = binary.BigEndian.AppendUint64(b, r.Generation)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Watermark))
	b = b[:hardSector-4]
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (r *hardRecord) flags() uint32 {
	var f uint32
	if r.Recovering {
		f |= hardRecovering
	}
	if r.Unclean {
		f |= hardUnclean
	}
	if r.Vouched {
		f |= hardVouched
	}
	if r.Diverged {
		f |= hardDiverged
	}
	return f
}

// decodeHard reads one copy. Only errHardVersion needs telling apart; every other error means that the copy is damaged.
func decodeHard(b []byte, slot, number int) (hardRecord, error) {
	var r hardRecord
	if len(b) < hardSector || string(b[:8]) != hardMagic {
		return r, errors.New("no magic")
	}
	if crc32.Checksum(b[:hardSector-4], castagnoli) != binary.BigEndian.Uint32(b[hardSector-4:]) {
		return r, errors.New("checksum does not match")
	}
	if binary.BigEndian.Uint32(b[8:]) != hardVersion {
		return r, errHardVersion
	}
	if int(b[12]) != slot || int(b[13]) != number {
		return r, errors.New("copy of another place")
	}
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	flags := u32(64)
	r = hardRecord{
		HardState: zab.HardState{
			ClusterID: u64(40), RecoveryID: u64(48), AcceptedLeader: zab.ServerID(b[15]),
			Accepted: txn.Epoch(u32(56)), Current: txn.Epoch(u32(60)), Recovering: flags&hardRecovering != 0,
			Diverged: flags&hardDiverged != 0,
		},
		Self: zab.ServerID(b[14]), Seq: u64(16), Directory: u64(24), Boot: u64(32),
		Unclean: flags&hardUnclean != 0, Vouched: flags&hardVouched != 0,
		Generation: u64(68), Watermark: txn.Zxid(u64(76)),
	}
	if r.Current > r.Accepted || r.Accepted > txn.MaxEpoch {
		return r, errors.New("impossible epochs")
	}
	return r, nil
}

// hardFile is the open hard state.
type hardFile struct {
	file env.File
	rec  hardRecord // what was last read or written
	slot int        // that holds it
}

func hardOffset(slot, number int) int64 { return int64(slot*hardCopies+number) * hardStride }

// createHard makes the file with rec in both slots, replacing one that is there. It is durable on return.
func createHard(disk env.Disk, dir string, rec hardRecord) (*hardFile, error) {
	image := make([]byte, hardBytes)
	for slot := range hardSlots {
		rec.Seq++
		for n := range hardCopies {
			copy(image[hardOffset(slot, n):], encodeHard(&rec, slot, n))
		}
	}
	if err := writeWhole(disk, dir, hardName, image); err != nil {
		return nil, err
	}
	return openHard(disk, dir)
}

// openHard reads the file; fs.ErrNotExist if there is none, ErrHardStateRot as R-73 has it.
func openHard(disk env.Disk, dir string) (*hardFile, error) {
	f, err := disk.Open(filepath.Join(dir, hardName))
	if err != nil {
		return nil, err
	}
	h := &hardFile{file: f}
	if err := h.read(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s at %w", filepath.Join(dir, hardName), err)
	}
	return h, nil
}

func (h *hardFile) read() error {
	for slot := range hardSlots {
		best, err := h.readSlot(slot)
		if err != nil && mutant.On("R-73") && slot > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if slot == 0 || best.Seq > h.rec.Seq {
			h.rec, h.slot = best, slot
		}
	}
	return nil
}

func (h *hardFile) readSlot(slot int) (best hardRecord, err error) {
	var b [hardSector]byte
	var faults []error
	for n := range hardCopies {
		if m, err := h.file.ReadAt(b[:], hardOffset(slot, n)); m < len(b) {
			faults = append(faults, err)
			continue
		}
		r, err := decodeHard(b[:], slot, n)
		switch {
		case errors.Is(err, errHardVersion):
			return best, fmt.Errorf("%d: %w", hardOffset(slot, n), err)
		case err != nil:
			faults = append(faults, err)
		case r.Seq >= best.Seq:
			best = r
		}
	}
	if len(faults) == hardCopies {
		return best, fmt.Errorf("%d: %w: slot %d has no valid copy: %w, %w", hardOffset(slot, 0), ErrHardStateRot, slot, faults[0], faults[1])
	}
	return best, nil
}

// save writes rec over both copies of the older slot. Any error means that nothing is known and nothing may be tried again.
func (h *hardFile) save(rec hardRecord) error {
	rec.Seq = h.rec.Seq + 1
	slot := 1 - h.slot
	for n := range hardCopies {
		if _, err := h.file.WriteAt(encodeHard(&rec, slot, n), hardOffset(slot, n)); err != nil {
			return fmt.Errorf("write hardstate: %w", err)
		}
	}
	err := h.file.Sync()
	if err != nil && mutant.On("R-6") {
		err = h.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync hardstate: %w", err)
	}
	h.rec, h.slot = rec, slot
	return nil
}
