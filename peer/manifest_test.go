package peer

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func TestManifestRoundTrip(t *testing.T) {
	for _, m := range []manifest{
		{},
		{Generation: 1},
		{Generation: 7, Base: zab.Position{Zxid: 5 << 32, Chain: 9}, Snapshots: []txn.Zxid{8 << 32, 5<<32 | 4, 0}},
	} {
		b := encodeManifest(&m)
		got, err := decodeManifest(b)
		require.NoError(t, err)
		require.Equal(t, m, got)
		for i := range b {
			bad := bytes.Clone(b)
			bad[i] ^= 0x20
			_, err := decodeManifest(bad)
			require.Error(t, err, "byte %d", i)
			_, err = decodeManifest(b[:i])
			require.Error(t, err, "cut at %d", i)
		}
	}
}

func TestInitializedRoundTrip(t *testing.T) {
	b := encodeInitialized(0xabc, time.Unix(1, 0))
	id, err := decodeInitialized(b)
	require.NoError(t, err)
	require.Equal(t, uint64(0xabc), id)
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		_, err := decodeInitialized(bad)
		require.ErrorIs(t, err, errInitialized, "byte %d", i)
		_, err = decodeInitialized(b[:i])
		require.ErrorIs(t, err, errInitialized, "cut at %d", i)
	}
}

func TestSnapshotHeadRoundTrip(t *testing.T) {
	h := SnapshotHead{At: zab.Position{Zxid: 3<<32 | 4, Chain: 5}, ConfigVersion: 6, Table: zab.EpochTable{Whole: true,
		Ends: []zab.EpochEnd{{Epoch: 1, Last: 1<<32 | 9, Chain: 1}, {Epoch: 3, Last: 3<<32 | 4, Chain: 5}}}}
	b := h.encode()
	rest := bytes.NewReader(append(bytes.Clone(b), "state"...))
	got, err := ReadSnapshotHead(rest)
	require.NoError(t, err)
	require.Equal(t, h, got)
	require.Equal(t, len("state"), rest.Len())
	for i := range b {
		_, err := ReadSnapshotHead(bytes.NewReader(b[:i]))
		require.ErrorIs(t, err, errHead, "cut at %d", i)
	}
}

func FuzzHardState(f *testing.F) {
	f.Add(encodeHard(&hardRecord{HardState: zab.HardState{Accepted: 3, Current: 2}, Self: 1, Seq: 4}, 0, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		for slot := range hardSlots {
			for n := range hardCopies {
				if r, err := decodeHard(b, slot, n); err == nil {
					again, err := decodeHard(encodeHard(&r, slot, n), slot, n)
					require.NoError(t, err)
					require.Equal(t, r, again)
				}
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(encodeManifest(&manifest{Generation: 3, Snapshots: []txn.Zxid{5, 2}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeManifest(b); err == nil {
			require.Equal(t, b, encodeManifest(&m))
		}
	})
}

func FuzzInitialized(f *testing.F) {
	f.Add(encodeInitialized(1, time.Unix(1, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := decodeInitialized(b); err == nil {
			require.NotZero(t, id)
		}
	})
}

func FuzzSnapshotHead(f *testing.F) {
	h := SnapshotHead{At: zab.Position{Zxid: 7, Chain: 1}, Table: zab.EpochTable{Ends: []zab.EpochEnd{{Epoch: 1, Last: 7, Chain: 1}}}}
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		if h, err := ReadSnapshotHead(r); err == nil {
			require.Equal(t, b[:len(b)-r.Len()], h.encode())
		}
	})
}
