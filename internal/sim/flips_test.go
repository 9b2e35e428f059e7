package sim

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/zab"
)

const (
	imageDir     = "/data/zkd"
	segmentBytes = 12 << 10
)

// image is the folder of a member of an ensemble that has been at work, as a power cut or a clean stop left it, and what is true of it.
type image struct {
	disk   *simdisk.Disk
	self   zab.ServerID
	rec    peer.Recovered
	recs   []string // the whole log
	digest uint64   // at its end
}

// member runs an ensemble and takes a follower's folder: a few segments, two snapshots, hard state, manifest, cluster id.
func member(t *testing.T, clean bool) *image {
	t.Helper()
	w := New(&Scenario{Seed: 12, Nodes: 3, Clients: 2, Rate: 20 * time.Millisecond, Length: time.Minute,
		Limits: Limits{Segment: segmentBytes, SnapTxns: 6, RetainLog: 1}})
	w.begin()
	run := func(until time.Duration) {
		for w.now < until {
			h := w.queue.pop()
			w.now = h.at
			h.do()
			require.Nil(t, w.fail)
		}
	}
	run(2 * time.Second)
	w.revive = false
	n := w.follower()
	for _, c := range w.clients {
		c.quiet = true
	}
	run(w.now + time.Second) // the log is idle, so its last batch is confirmed
	if clean {
		n.stop()
	} else {
		n.power()
	}
	run(w.now + time.Second)
	require.False(t, n.up)
	im := &image{disk: n.disk.Survivor(), self: n.id}
	got := im.start(im.disk.Survivor())
	require.NoError(t, got.err)
	require.False(t, got.rec.Hard.Recovering)
	im.rec, im.recs, im.digest = got.rec, got.recs, got.digest
	require.NotZero(t, im.rec.SnapshotAt.Zxid)
	require.Greater(t, im.rec.End.Zxid, im.rec.SnapshotAt.Zxid)
	return im
}

// opened is what a start found.
type opened struct {
	rec    peer.Recovered
	recs   []string
	cut    error  // why not all of the log can be read
	digest uint64 // with the tail applied
	err    error
	panic  any
}

func (im *image) start(d *simdisk.Disk) (out opened) {
	defer func() { out.panic = recover() }()
	id := uint64(1 << 32)
	g := &ghost{machine: newMachine()}
	var store *peer.Storage
	store, out.rec, out.err = peer.OpenStorage(peer.StorageConfig{Disk: d, DataDir: "/data", Self: im.self, SegmentBytes: segmentBytes, RetainSnaps: 2,
		NewID: func() uint64 { id++; return id }, Wall: func() time.Time { return epoch0 }}, g)
	if out.err != nil {
		return out
	}
	defer store.Close(false)
	for at := out.rec.Base.Zxid; ; {
		recs, err := store.ReadAfter(at, 1<<20)
		if err != nil || len(recs) == 0 {
			out.cut = err
			break
		}
		for _, r := range recs {
			out.recs = append(out.recs, string(r.Bytes))
			at = r.Zxid
		}
	}
	out.err = g.Apply(out.rec.Tail)
	out.digest = g.machine.Digest()
	return out
}

// verdict of one damaged folder: what kind of end it came to, or what is wrong with that.
func (im *image) verdict(got opened, file string) (kind string, fault error) {
	rec := &got.rec
	if all := rec.Recovering + strings.Join(rec.Notes, ""); strings.Contains(all, "\n") {
		return "", fmt.Errorf("a message of two lines: %q", all)
	}
	switch {
	case got.panic != nil:
		return "", fmt.Errorf("panic: %v", got.panic)
	case got.err != nil:
		var st *peer.StorageError
		if !errors.As(got.err, &st) || st.Do == "" || !strings.Contains(st.Error(), file) {
			return "", fmt.Errorf("refused without naming the file and what to do: %w", got.err)
		}
		return "refused", nil
	case rec.Hard.Recovering:
		if !strings.Contains(rec.Recovering, imageDir+"/"+file) || !strings.Contains(rec.Recovering, " at ") {
			return "", fmt.Errorf("RECOVERING without naming file and offset: %s", rec.Recovering)
		}
		return "recovering", nil
	}
	want := im.rec.Hard
	switch {
	case rec.Hard != want:
		return "", fmt.Errorf("hard state %+v, it was %+v", rec.Hard, want)
	case rec.End != im.rec.End:
		return "", fmt.Errorf("ends at %v, it was %v", rec.End, im.rec.End)
	case got.digest != im.digest:
		return "", errors.New("another state")
	case rec.Fresh:
		return "", errors.New("taken for an empty folder")
	}
	skip := len(im.recs) - len(got.recs)
	if got.cut != nil {
		skip = 0 // the rest is not readable, and a learner is told so
		if !strings.Contains(got.cut.Error(), file) {
			return "", fmt.Errorf("unreadable log without naming the file: %w", got.cut)
		}
	}
	if skip < 0 {
		return "", errors.New("more records than there were")
	}
	for i := range got.recs {
		if got.recs[i] != im.recs[skip+i] {
			return "", fmt.Errorf("record %d of the log is another one", i)
		}
	}
	if got.cut != nil {
		return "unreadable", nil
	}
	if len(rec.Notes) > 0 || skip > 0 {
		return "noted", nil
	}
	return "whole", nil
}

// TestEveryFlippedBitAndEveryTruncationIsSeen damages each file of a member's folder in one place and starts from it. The state is the true one,
// or the server knows that it may not be. With ZKD_LONG=1 all bits and all lengths are tried, otherwise a part of them.
func TestEveryFlippedBitAndEveryTruncationIsSeen(t *testing.T) {
	long := os.Getenv("ZKD_LONG") != ""
	for _, clean := range []bool{true, false} {
		im := member(t, clean)
		entries, err := im.disk.List(imageDir)
		require.NoError(t, err)
		for _, e := range entries {
			if e.Dir || e.Size == 0 {
				continue
			}
			t.Run(fmt.Sprintf("clean=%v/%s", clean, e.Name), func(t *testing.T) {
				stride := e.Size/200 | 1
				if long {
					stride = 1
				}
				kinds := map[string]int{}
				try := func(what string, do func(d *simdisk.Disk)) {
					d := im.disk.Survivor()
					do(d)
					kind, fault := im.verdict(im.start(d), e.Name)
					if fault != nil {
						t.Errorf("%s: %v", what, fault)
					}
					kinds[kind]++
				}
				for off := int64(0); off < e.Size; off += stride {
					bits := []int{int(off % 8)}
					if long {
						bits = []int{0, 1, 2, 3, 4, 5, 6, 7}
					}
					for _, bit := range bits {
						try(fmt.Sprintf("bit %d of byte %d", bit, off), func(d *simdisk.Disk) {
							require.NoError(t, d.Corrupt(imageDir+"/"+e.Name, off, 1<<bit))
						})
					}
					try(fmt.Sprintf("cut to %d bytes", off), func(d *simdisk.Disk) { truncate(t, d, imageDir+"/"+e.Name, off) })
					if t.Failed() {
						return
					}
				}
				t.Logf("%d bytes: %v", e.Size, kinds)
			})
		}
	}
}

func truncate(t *testing.T, d env.Disk, path string, size int64) {
	f, err := d.Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}
