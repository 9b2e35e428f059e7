package peer_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/simdisk"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

const dataDir = "/data"

// state is a StateStore that remembers which records made it.
type state struct{ zxids []txn.Zxid }

func (s *state) Clear() error { s.zxids = nil; return nil }

func (s *state) Restore(r io.Reader) error {
	s.zxids = nil
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	for n := binary.BigEndian.Uint64(b[:]); n > 0; n-- { // it stops at its own end and sees nothing of the file's
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		s.zxids = append(s.zxids, txn.Zxid(binary.BigEndian.Uint64(b[:])))
	}
	return nil
}

func (s *state) Apply(recs []txn.Record) error {
	for _, r := range recs {
		var last txn.Zxid
		if n := len(s.zxids); n > 0 {
			last = s.zxids[n-1]
		}
		if r.Prev != last {
			return fmt.Errorf("%v applied after %v", r.Zxid, last)
		}
		s.zxids = append(s.zxids, r.Zxid)
	}
	return nil
}

func encodeState(zxids []txn.Zxid) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(zxids)))
	for _, z := range zxids {
		b = binary.BigEndian.AppendUint64(b, uint64(z))
	}
	return b
}

func z(epoch, counter int) txn.Zxid { return txn.MakeZxid(txn.Epoch(epoch), uint32(counter)) }

// world is one server's disk and what it should hold.
type world struct {
	d     *simdisk.Disk
	cfg   peer.StorageConfig
	s     *peer.Storage
	rec   peer.Recovered
	state *state
	hist  []zab.Position // every record of the history
	hard  zab.HardState
}

func newWorld() *world {
	w := &world{d: simdisk.NewDisk(0)}
	id := uint64(100)
	w.cfg = peer.StorageConfig{
		Disk: w.d, DataDir: dataDir, Self: 1, SegmentBytes: 5 * 4096, RetainSnaps: 2, ReadAhead: true, // the simulator reads without
		NewID: func() uint64 { id++; return id },
		Wall:  func() time.Time { return time.Unix(0, 0) },
	}
	return w
}

func (w *world) open() (err error) {
	w.state = &state{}
	w.s, w.rec, err = peer.OpenStorage(w.cfg, w.state)
	return err
}

func (w *world) mustOpen(t *testing.T) peer.Recovered {
	t.Helper()
	require.NoError(t, w.open())
	return w.rec
}

// kill ends the process without a clean stop, and starts it again.
func (w *world) restart(t *testing.T) peer.Recovered {
	t.Helper()
	w.d.Kill()
	return w.mustOpen(t)
}

func (w *world) end() zab.Position {
	if len(w.hist) == 0 {
		return zab.Position{}
	}
	return w.hist[len(w.hist)-1]
}

func (w *world) zxids() []txn.Zxid {
	var out []txn.Zxid
	for _, p := range w.hist {
		out = append(out, p.Zxid)
	}
	return out
}

func (w *world) table() zab.EpochTable {
	table := zab.EpochTable{Whole: true}
	for _, p := range w.hist {
		table.Extend(p.Zxid, p.Chain)
	}
	return table
}

// write appends count records of an epoch.
func (w *world) write(epoch, count int, commit txn.Zxid) error {
	var recs []txn.Record
	end := w.end()
	hist := slices.Clone(w.hist)
	for range count {
		next := end.Zxid + 1
		if end.Zxid.Epoch() != txn.Epoch(epoch) {
			next = z(epoch, 1)
		}
		d := txn.NewDraft(&txn.Txn{Body: &txn.SetData{Path: "/a", Data: make([]byte, 300)}}, &txn.Request{})
		r := d.Seal(next, end.Zxid, end.Chain)
		recs = append(recs, r)
		end = zab.Position{Zxid: r.Zxid, Chain: r.Chain}
		hist = append(hist, end)
	}
	w.hist = hist
	return w.s.Append(recs, commit)
}

func (w *world) index(at txn.Zxid) int {
	return slices.IndexFunc(w.hist, func(p zab.Position) bool { return p.Zxid == at })
}

func (w *world) begin(at txn.Zxid) (*peer.SnapshotWriter, error) {
	i := w.index(at)
	table := w.table()
	table.Cut(w.hist[i])
	sw, err := w.s.BeginSnapshot(w.hist[i], table, 7)
	if err != nil {
		return nil, err
	}
	if _, err := sw.Write(encodeState(w.zxids()[:i+1])); err != nil {
		return nil, err
	}
	return sw, sw.Finish()
}

func (w *world) snapshot(at txn.Zxid) error {
	sw, err := w.begin(at)
	if err != nil {
		return err
	}
	if _, err = w.s.FinishSnapshot(sw); err != nil {
		return err
	}
	return w.sweep()
}

// sweep deletes all that was let go.
func (w *world) sweep() error {
	for {
		if more, err := w.s.Sweep(); !more || err != nil {
			return err
		}
	}
}

func (w *world) truncate(to txn.Zxid) error {
	w.hist = w.hist[: w.index(to)+1 : w.index(to)+1]
	return w.s.Truncate(w.end())
}

func (w *world) save(h zab.HardState) error {
	w.hard = h
	return w.s.SaveHardState(h)
}

// sent is a snapshot as a leader sends it.
type sent struct {
	begin zab.SnapBegin
	file  []byte
	hist  []zab.Position
}

// leaderSnapshot makes a history of two epochs and the snapshot of it.
func leaderSnapshot(t *testing.T) sent {
	t.Helper()
	w := newWorld()
	w.mustOpen(t)
	require.NoError(t, w.write(1, 15, 0))
	require.NoError(t, w.write(5, 4, z(5, 4)))
	require.NoError(t, w.snapshot(z(5, 4)))
	x, err := w.s.SendSnapshot()
	require.NoError(t, err)
	defer x.Close()
	file, err := io.ReadAll(io.NewSectionReader(x, 0, x.Length))
	require.NoError(t, err)
	return sent{begin: zab.SnapBegin{At: x.Head.At, Size: x.Length, Table: x.Head.Table}, file: file, hist: w.hist}
}

func (w *world) receive(in sent) (*peer.Receiving, error) {
	r, err := w.s.Receive(in.begin)
	if err != nil {
		return nil, err
	}
	if _, err := r.Write(in.file); err != nil {
		return r, err
	}
	return r, r.Finish(crc32.Checksum(in.file, crc32.MakeTable(crc32.Castagnoli)))
}

func (w *world) install(in sent) error {
	r, err := w.receive(in)
	if err != nil {
		return err
	}
	w.hist = in.hist
	return w.s.InstallReceived(r)
}

// found is the history that a start found: the state and the tail.
func (w *world) found() []txn.Zxid {
	out := slices.Clone(w.state.zxids)
	for _, r := range w.rec.Tail {
		out = append(out, r.Zxid)
	}
	return out
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var st *peer.StorageError
	require.ErrorAs(t, err, &st)
	require.NotEmpty(t, st.Do)
	require.NotContains(t, err.Error(), "\n")
	return st.Code
}
