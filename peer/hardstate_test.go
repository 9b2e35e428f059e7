package peer_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func hardRecord(n int) peer.HardRecord {
	return peer.HardRecord{
		HardState: zab.HardState{ClusterID: 77, Accepted: txn.Epoch(n), AcceptedLeader: 3, Current: txn.Epoch(n - 1),
			Recovering: n%2 == 0, RecoveryID: uint64(n)},
		Self: 2, Directory: 99, Boot: uint64(n), Unclean: n%3 == 0, Vouched: n%5 == 0, Generation: 4, Watermark: txn.Zxid(n) << 32,
	}
}

func newHard(t *testing.T, writes int) (*simdisk.Disk, *peer.HardFile) {
	t.Helper()
	d := simdisk.NewDisk(0)
	require.NoError(t, d.MkdirAll("/d"))
	h, err := peer.CreateHard(d, "/d", hardRecord(1))
	require.NoError(t, err)
	for n := 2; n <= writes; n++ {
		require.NoError(t, h.Save(hardRecord(n)))
	}
	return d, h
}

func readHard(t *testing.T, d *simdisk.Disk) peer.HardRecord {
	t.Helper()
	h, err := peer.OpenHard(d, "/d")
	require.NoError(t, err)
	rec := h.Record()
	require.NotZero(t, rec.Seq)
	rec.Seq = 0
	return rec
}

func TestHardStateKeepsTheLastWrite(t *testing.T) {
	for writes := 1; writes <= 12; writes++ {
		d, _ := newHard(t, writes)
		d.Crash(rand.New(rand.NewPCG(1, 2)))
		d.Reboot()
		require.Equal(t, hardRecord(writes), readHard(t, d))
	}
}

// One damaged sector is survived wherever it is; a slot without a valid copy may have been the newer one.
func TestHardStateRot(t *testing.T) {
	path := filepath.Join("/d", "hardstate")
	for writes := 1; writes <= 4; writes++ {
		for a := range int64(4) {
			for off := int64(0); off < 512; off += 37 {
				d, _ := newHard(t, writes)
				require.NoError(t, d.Corrupt(path, a*peer.HardStride+off, 4))
				require.Equal(t, hardRecord(writes), readHard(t, d), "copy %d byte %d", a, off)
			}
			for b := range a {
				d, _ := newHard(t, writes)
				require.NoError(t, d.Corrupt(path, a*peer.HardStride+3, 1))
				require.NoError(t, d.Corrupt(path, b*peer.HardStride+200, 1))
				_, err := peer.OpenHard(d, "/d")
				if a/2 == b/2 {
					require.ErrorIs(t, err, peer.ErrHardStateRot, "copies %d and %d", a, b)
				} else {
					require.NoError(t, err)
				}
			}
		}
	}
}

// A torn update: each copy old, new or, one of them, half of both.
func TestHardStateTornUpdate(t *testing.T) {
	for writes := 1; writes <= 4; writes++ {
		for torn := range int64(2) {
			for cut := int64(0); cut <= 512; cut += 16 {
				d, h := newHard(t, writes)
				f, err := d.Open("/d/hardstate")
				require.NoError(t, err)
				old := make([]byte, 512)
				at := (int64(1-h.Slot())*2 + torn) * peer.HardStride
				_, err = f.ReadAt(old, at)
				require.NoError(t, err)
				require.NoError(t, h.Save(hardRecord(writes+1)))
				_, err = f.WriteAt(old[cut:], at+cut)
				require.NoError(t, err)
				require.Equal(t, hardRecord(writes+1), readHard(t, d))
			}
		}
	}
}

// A write never touches the slot that holds the last one.
func TestHardStateWritesTheOlderSlot(t *testing.T) {
	d, h := newHard(t, 1)
	for n := 2; n < 6; n++ {
		slot := make([]byte, 2*peer.HardStride)
		at := int64(h.Slot()) * int64(len(slot))
		f, err := d.Open("/d/hardstate")
		require.NoError(t, err)
		_, err = f.ReadAt(slot, at)
		require.NoError(t, err)
		require.NoError(t, h.Save(hardRecord(n)))
		after := make([]byte, len(slot))
		_, err = f.ReadAt(after, at)
		require.NoError(t, err)
		require.Equal(t, slot, after)
	}
}

func TestHardStatePowerCut(t *testing.T) {
	for step := 1; ; step++ {
		var saved error
		for seed := range uint64(16) {
			d, h := newHard(t, 3)
			d.CrashAt(d.Steps() + step)
			saved = h.Save(hardRecord(4))
			d.Crash(rand.New(rand.NewPCG(seed, 1)))
			d.Reboot()
			got := readHard(t, d)
			if saved == nil {
				require.Equal(t, hardRecord(4), got)
			} else {
				require.Contains(t, []peer.HardRecord{hardRecord(3), hardRecord(4)}, got)
			}
			// And the next write goes on from there.
			h, err := peer.OpenHard(d, "/d")
			require.NoError(t, err)
			require.NoError(t, h.Save(hardRecord(5)))
			require.Equal(t, hardRecord(5), readHard(t, d))
		}
		if saved == nil {
			return
		}
	}
}

// Replacing the file leaves the old content or the new one, never none.
func TestHardStateReplacedUnderAPowerCut(t *testing.T) {
	for step := 1; ; step++ {
		var made error
		for seed := range uint64(16) {
			d, _ := newHard(t, 3)
			d.CrashAt(d.Steps() + step)
			_, made = peer.CreateHard(d, "/d", hardRecord(8))
			d.Crash(rand.New(rand.NewPCG(seed, 1)))
			d.Reboot()
			got := readHard(t, d)
			if made == nil {
				require.Equal(t, hardRecord(8), got)
			} else {
				require.Contains(t, []peer.HardRecord{hardRecord(3), hardRecord(8)}, got)
			}
		}
		if made == nil {
			return
		}
	}
}
