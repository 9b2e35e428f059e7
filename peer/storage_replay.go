package peer

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
	"github.com/zkd-project/zkd/zab"
)

func (st *starting) openSnapshots() (err error) {
	st.snaps, err = snapshot.Open(snapshot.Config{Disk: st.cfg.Disk, Dir: st.dir, Pace: st.cfg.Pace, Stopped: st.cfg.Stopped})
	return err
}

// restore loads the newest good snapshot that the manifest names. One that a newer version wrote is not a bad one: the start ends there.
func (st *starting) restore() error {
	st.broken = nil
	if st.cfg.ReadAhead && len(st.man.Snapshots) > 0 {
		var hint sync.WaitGroup
		hint.Go(func() { txnlog.Prefetch(st.cfg.Disk, st.logDir, st.man.Generation, st.man.Snapshots[0]) })
		defer hint.Wait()
	}
	for _, z := range st.man.Snapshots {
		h, err := loadSnapshot(st.snaps, z, st.sm)
		if err == nil {
			st.out.Applied, st.out.Table, st.out.ConfigVersion, st.out.SnapshotAt = h.At, h.Table, h.ConfigVersion, h.At
			return nil
		}
		if errors.Is(err, snapshot.ErrVersion) || errors.Is(err, zab.ErrNewerVersion) {
			return newerVersion(err)
		}
		st.note("snapshot is not usable: %v", err)
		st.broken = append(st.broken, z)
	}
	st.out.Applied, st.out.Table, st.out.ConfigVersion, st.out.SnapshotAt = zab.Position{}, zab.EpochTable{Whole: true}, 0, zab.Position{}
	return st.sm.Clear()
}

// openLog opens the log behind the snapshot and replays it. If it is damaged, the history that is left is the snapshot's.
func (st *starting) openLog() error {
	why := ""
	if st.out.Applied.Zxid < st.man.Base.Zxid {
		why = fmt.Sprintf("the log starts at %v and no good snapshot reaches there: %s", st.man.Base.Zxid, strings.Join(st.out.Notes, "; "))
	} else {
		var damage *txnlog.CorruptError
		err := st.tryLog(st.hard.rec.Unclean)
		if err == nil || !errors.As(err, &damage) {
			return err
		}
		why = damage.Error()
	}
	if err := st.lose(why); err != nil {
		return err
	}
	if err := st.newGeneration(); err != nil {
		return err
	}
	return st.tryLog(true)
}

// tryLog opens the log of the manifest's generation behind what is applied.
func (st *starting) tryLog(unclean bool) error {
	start := txnlog.Start{Generation: st.man.Generation, Base: st.out.Applied.Zxid, BaseChain: st.out.Applied.Chain, Unclean: unclean}
	if st.hard.rec.Generation == st.man.Generation { // a start with this generation has come to its end
		start.Watermark, start.Existed = st.hard.rec.Watermark, true
	}
	l, rep, err := st.readLog(start)
	switch {
	case errors.Is(err, txnlog.ErrWrongCluster):
		return notOurs("open the log", "check dataDir and dataLogDir", err)
	case errors.Is(err, txnlog.ErrVersion):
		return newerVersion(err)
	case err != nil:
		return err
	}
	st.log = l
	for _, path := range rep.Aside {
		st.note("%s is damaged, and the log does not need it", path)
		st.aside = append(st.aside, filepath.Base(path))
	}
	st.out.Commit, st.out.CutBytes = rep.CommitHint, rep.CutBytes
	if rep.CutBytes > 0 {
		st.note("a torn write of %d bytes was cut off at %s; nobody was promised it", rep.CutBytes, rep.CutAt)
	}
	return nil
}

// aheadBatches is how many batches wait for the state at most.
const aheadBatches = 4

// readLog opens the log and replays what is committed. An error of the state counts before one of the log.
func (st *starting) readLog(start txnlog.Start) (l *txnlog.Log, rep txnlog.Report, err error) {
	cfg := txnlog.Config{Disk: st.cfg.Disk, Dir: st.logDir, SegmentBytes: st.cfg.SegmentBytes, ClusterID: st.hard.rec.ClusterID, Transient: true}
	read := func() {
		if l, rep, err = txnlog.Open(cfg, start, st.take); err != nil {
			return
		}
		if err = st.flush(); err != nil {
			l.Close()
		}
	}
	if !st.cfg.ReadAhead {
		read()
		return l, rep, err
	}
	st.ahead, st.again, st.stopped = make(chan *batch, aheadBatches), make(chan *batch, aheadBatches), make(chan struct{})
	defer func() { st.ahead, st.again, st.stopped = nil, nil, nil }()
	go func() {
		defer close(st.ahead)
		read()
	}()
	_, mayReuse := st.sm.(Starter)
	var broken error
	for b := range st.ahead {
		if broken != nil {
			continue
		}
		if broken = st.apply(b); broken != nil {
			close(st.stopped)
		}
		if !mayReuse {
			continue
		}
		b.reset()
		select {
		case st.again <- b:
		default:
		}
	}
	if broken != nil {
		if err == nil {
			l.Close()
		}
		return nil, rep, broken
	}
	return l, rep, err
}

// take gets one record of the log: for the state if it is committed, for the tail if nobody knows. Its Bytes are good until take returns.
func (st *starting) take(r txn.Record, committed bool) error {
	if !committed && !mutant.On("D2") {
		r.Bytes = bytes.Clone(r.Bytes)
		st.out.Tail = append(st.out.Tail, r)
		return nil
	}
	if st.batch == nil {
		st.batch = st.room()
	}
	st.batch.add(r)
	st.out.Applied = zab.Position{Zxid: r.Zxid, Chain: r.Chain}
	st.out.Table.Extend(r.Zxid, r.Chain)
	if len(st.batch.recs) < replayCount && st.batch.bytes < replayBytes {
		return nil
	}
	return st.flush()
}

// room is an empty batch.
func (st *starting) room() *batch {
	if st.ahead == nil {
		return &batch{}
	}
	select {
	case b := <-st.again:
		return b
	default:
		return &batch{recs: make([]txn.Record, 0, replayCount), decoder: txn.NewDecoder(replayCount)}
	}
}

// flush gives the batch to the state, or to the goroutine that does.
func (st *starting) flush() error {
	b := st.batch
	if b == nil {
		return nil
	}
	st.batch = nil
	st.out.Replayed += len(b.recs)
	if st.ahead == nil {
		return st.apply(b)
	}
	b.decode()
	select {
	case st.ahead <- b:
		return nil
	case <-st.stopped:
		return errStopping
	}
}

func (st *starting) apply(b *batch) error {
	if err := st.sm.Apply(b.recs); err != nil {
		return &StorageError{Code: zab.ExitBrokenInvariant, Op: "replay the log", Err: err,
			Do: "if an older zkd runs on this folder now, run the newer one; otherwise keep the folder and report it"}
	}
	return nil
}

// newGeneration sets the log aside and starts an empty one behind the snapshot.
func (st *starting) newGeneration() error {
	st.out.Tail, st.out.Replayed, st.batch = nil, 0, nil
	if st.out.Applied != st.out.SnapshotAt { // the damage showed only while the log was replayed
		if err := st.restore(); err != nil {
			return err
		}
	}
	files, err := st.files()
	if err != nil {
		return err
	}
	next := st.nextGeneration(files)
	if err := st.setAside(files, func(name string) bool { return strings.HasPrefix(name, "log.") }); err != nil {
		return err
	}
	return st.saveManifest(manifest{Generation: next, Base: st.out.Applied, Snapshots: st.man.Snapshots})
}
