package statemachine

import (
	"bytes"
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// sideBySide runs each call on a goroutine of its own.
func sideBySide(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// randomHistory is so many records; a longer one of the same seed begins with a shorter one.
func randomHistory(t *testing.T, seed int64, length int) []txn.Record {
	g := &requests{Rand: rand.New(rand.NewSource(seed))}
	m := New(Config{})
	var recs []txn.Record
	prev := txn.Record{}
	for len(recs) < length {
		r := g.request()
		draft := m.Prepare([]txn.Request{r.encode()}, int64(len(recs)))[0]
		if draft.Refused != txn.NotRefused {
			continue
		}
		zxid := prev.Zxid + 1
		if len(recs) == 0 {
			zxid = txn.MakeZxid(1, 1)
		}
		prev = draft.Seal(zxid, prev.Zxid, prev.Chain)
		_, err := m.Apply(&prev)
		require.NoError(t, err)
		recs = append(recs, prev)
	}
	return recs
}

// A state that is loaded side by side and to which the rest is replayed, as a start does, is the one to which all was applied.
func TestReplayIsApply(t *testing.T) {
	for seed := range int64(6) {
		h := randomHistory(t, seed, 3000)
		for _, at := range []int{0, 1, 1500, len(h)} {
			want, got := New(Config{}), New(Config{Parallel: sideBySide})
			for i := range h[:at] {
				_, err := want.Apply(&h[i])
				require.NoError(t, err)
			}
			if at == 0 {
				got.Postpone()
			} else {
				require.NoError(t, got.Restore(bytes.NewReader(snapshotBytes(t, want))))
			}
			var parsed []txn.Record
			for i := range h[at:] {
				rec, _, err := txn.ParseRecord(bytes.Clone(h[at+i].Bytes))
				require.NoError(t, err)
				parsed = append(parsed, rec)
				_, err = want.Apply(&h[at+i])
				require.NoError(t, err)
			}
			require.NoError(t, got.Replay(parsed))
			for i := range parsed { // a replay may use the memory again
				for j := range parsed[i].Bytes {
					parsed[i].Bytes[j] = 0xff
				}
				tx, _ := parsed[i].Txn()
				*tx = txn.Txn{}
			}
			got.Settle()
			require.Equal(t, want.Digest(), got.Digest(), "seed %d from %d", seed, at)
			digest, ok := got.DigestAt(want.LastZxid())
			require.True(t, ok)
			require.Equal(t, want.Digest(), digest)
			require.Equal(t, snapshotBytes(t, want), snapshotBytes(t, got), "seed %d from %d", seed, at)
			require.Equal(t, want.LastZxid(), got.LastZxid())

			rest := randomHistory(t, seed, 3300)[len(h):] // the same, and a bit more
			for i := range rest {
				_, err := want.Apply(&rest[i])
				require.NoError(t, err)
				_, err = got.Apply(&rest[i])
				require.NoError(t, err)
			}
			require.Equal(t, snapshotBytes(t, want), snapshotBytes(t, got), "seed %d from %d, later", seed, at)
			_, ok = got.DigestAt(h[len(h)-1].Zxid)
			require.True(t, ok, "the digest at the end of the replay is remembered")
		}
	}
}

// A snapshot that is larger than the groups in which it is read.
func TestRestoreOfManyParts(t *testing.T) {
	h := newHistory(t, Config{})
	for i := range 200 {
		h.ask(proto.OpCreate, &proto.CreateRequest{Path: fmt.Sprintf("/p%03d", i), Data: make([]byte, 30<<10), ACL: proto.OpenACL()})
	}
	b := snapshotBytes(t, h.m)
	require.Greater(t, len(b), 3*groupParts*64<<10)
	for _, parallel := range []func(int, func(int)){nil, sideBySide} {
		m := New(Config{Parallel: parallel})
		require.NoError(t, m.Restore(bytes.NewReader(b)))
		require.Equal(t, b, snapshotBytes(t, m))
		for _, cut := range []int{1, len(b) / 3, len(b) - 1} {
			require.ErrorIs(t, New(Config{Parallel: parallel}).Restore(bytes.NewReader(b[:cut])), ErrSnapshot)
		}
		for range 20 { // a damaged stream is refused, or makes the same state
			bad := bytes.Clone(b)
			bad[rand.Intn(len(bad))] ^= 1 << rand.Intn(8)
			if m := New(Config{Parallel: parallel}); m.Restore(bytes.NewReader(bad)) == nil {
				require.Equal(t, h.m.Digest(), m.Digest())
			}
		}
	}
}
