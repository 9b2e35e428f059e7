package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

const (
	startNodes   = 200_000 // besides their parents
	startSession = txn.SessionID(1) << 56
)

// startWorld is a folder and what wrote it.
type startWorld struct {
	testing.TB
	cfg   peer.StorageConfig
	store *peer.Storage
	rep   *server.Replica
	end   zab.Position
	recs  []txn.Record
}

func newStartWorld(tb testing.TB) *startWorld {
	id := uint64(1)
	w := &startWorld{TB: tb, cfg: peer.StorageConfig{Disk: env.OSDisk{}, DataDir: tb.TempDir(), Self: 1, RetainSnaps: 1, SegmentBytes: 64 << 20, ReadAhead: true,
		NewID: func() uint64 { id++; return id }, Wall: time.Now}}
	w.open()
	require.NoError(tb, w.store.SaveHardState(zab.HardState{ClusterID: 5, Accepted: 1, AcceptedLeader: 1, Current: 1}))
	w.propose(txn.Request{Session: startSession, Op: proto.OpCreateSession, Origin: 1, Payload: txn.AppendTimeout(nil, 30_000)})
	w.create("/bench", 0)
	return w
}

// open is what a start does before anything is served.
func (w *startWorld) open() peer.Recovered {
	w.rep = server.NewReplica(server.Config{SelfID: 1, Now: env.RealClock{}.Now, Wall: time.Now}, statemachine.Config{MaxTxnBytes: 1 << 20, Parallel: sideBySide})
	store, rec, err := peer.OpenStorage(w.cfg, w.rep)
	require.NoError(w, err)
	w.store = store
	return rec
}

func (w *startWorld) create(path string, size int) {
	w.propose(txn.Request{Session: startSession, Op: proto.OpCreate, Origin: 1, Conn: 7,
		Payload: (&proto.CreateRequest{Path: path, Data: make([]byte, size), ACL: proto.OpenACL()}).Append(nil)})
}

// propose takes a request through preparation, log and state, as a lone leader would, a thousand at a time.
func (w *startWorld) propose(req txn.Request) {
	drafts := w.rep.Prepare([]txn.Request{req}, 1)
	if drafts[0].Refused != 0 {
		w.Fatal(drafts[0].Refused)
	}
	z := w.end.Zxid + 1
	if w.end.Zxid == 0 {
		z = txn.MakeZxid(1, 1)
	}
	rec := drafts[0].Seal(z, w.end.Zxid, w.end.Chain)
	w.end = zab.Position{Zxid: rec.Zxid, Chain: rec.Chain}
	w.recs = append(w.recs, rec)
	if len(w.recs) == 1000 {
		w.flush()
	}
}

func (w *startWorld) flush() {
	require.NoError(w, w.store.Append(w.recs, w.end.Zxid))
	require.NoError(w, w.rep.Apply(w.recs))
	w.recs = w.recs[:0]
}

// fill makes znodes from number from on up to number to, a thousand below each parent, in the order in which sixteen clients with sixty-four
// requests in flight each do.
func (w *startWorld) fill(from, to int) {
	const fanout, lanes, flight = 1000, 16, 64
	for p := from / fanout; p < (to+fanout-1)/fanout; p++ {
		w.create("/bench/d"+strconv.Itoa(p), 0)
	}
	for base := from; base < to; base += lanes * flight {
		for lane := range lanes {
			for k := range flight {
				if n := base + k*lanes + lane; n < to {
					w.create(fmt.Sprintf("/bench/d%d/n%010d", n/fanout, n), 100)
				}
			}
		}
	}
	w.flush()
}

func (w *startWorld) snapshot() {
	sw, err := w.store.BeginSnapshot(w.end, zab.EpochTable{Whole: true, Ends: []zab.EpochEnd{{Epoch: 1, Last: w.end.Zxid, Chain: w.end.Chain}}}, 0)
	require.NoError(w, err)
	_, err = w.rep.Snapshot().WriteTo(sw)
	require.NoError(w, err)
	require.NoError(w, sw.Finish())
	_, err = w.store.FinishSnapshot(sw)
	require.NoError(w, err)
}

// BenchmarkStart is a start from exec to the moment at which the peer could vote, by what it has to read: a snapshot, a log, or both halves.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct {
		name string
		snap int // znodes in the snapshot
	}{{"snapshot", startNodes}, {"log", 0}, {"both", startNodes / 2}} {
		b.Run(c.name, func(b *testing.B) {
			w := newStartWorld(b)
			if c.snap > 0 {
				w.fill(0, c.snap)
				w.snapshot()
			}
			w.fill(c.snap, startNodes)
			digest, at := w.rep.Digest()
			require.NoError(b, w.store.Close(true))
			b.ReportAllocs()
			defer debug.SetGCPercent(debug.SetGCPercent(startGrowth))
			var cpu time.Duration
			for b.Loop() {
				began := cpuTime()
				rec := w.open()
				b.StopTimer()
				cpu += cpuTime() - began
				require.Equal(b, w.end, rec.End)
				d, z := w.rep.Digest()
				require.Equal(b, []any{digest, at}, []any{d, z})
				require.NoError(b, w.store.Close(true))
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/startNodes, "ns/znode")
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/startNodes, "cpu-ns/znode")
		})
	}
}

// cpuTime is what this process has used so far, on all processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFirstTouch is the part of a start with a million znodes that no program is spared: to touch as much memory as it fills, for the first
// time, on all processors. What a page costs depends on whether the host of a virtual machine still has it.
func BenchmarkFirstTouch(b *testing.B) {
	const size, page = 430 << 20, 4096
	parts := runtime.GOMAXPROCS(0)
	began := cpuTime()
	for b.Loop() {
		mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		require.NoError(b, err)
		sideBySide(parts, func(i int) {
			for at := i * page; at < size; at += parts * page {
				mem[at] = 1
			}
		})
		require.NoError(b, syscall.Munmap(mem))
	}
	b.ReportMetric(float64((cpuTime()-began).Milliseconds())/float64(b.N), "cpu-ms/op")
}
