package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
	"github.com/zkd-project/zkd/zab"
)

const (
	folderName    = "zkd"
	foreignName   = "version-2"  // of Apache ZooKeeper
	vouchName     = "initialize" // in DataDir, made by an operator
	lockName      = "lock"
	damagedPrefix = "damaged."

	replayCount = 1000    // records per call of Apply
	replayBytes = 1 << 20 // and bytes
)

// starting is one run of OpenStorage.
type starting struct {
	*Storage
	sm  StateStore
	out Recovered

	vouch       bool
	lost        []string // why this start found the server RECOVERING
	damagedDir  string   // name of the sub-folder of this start for files set aside
	broken      []txn.Zxid
	initialText []byte // the file initialized as it is
	batch       []txn.Record
	batchBytes  int
}

// OpenStorage brings a server's durable side up: it takes the folder, reads promises, manifest, newest good snapshot and log,
// rebuilds sm up to what is known to be committed, and makes all of it durable anew before it returns (O15).
//
// What no crash explains makes the server RECOVERING, durably and before anything is moved (O14); damaged files go to a
// sub-folder damaged.<number>, and the start goes on from what is left. Every error is a *StorageError.
func OpenStorage(cfg StorageConfig, sm StateStore) (*Storage, Recovered, error) {
	s := &Storage{cfg: cfg}
	s.dir = filepath.Join(cfg.DataDir, folderName)
	s.logDir = s.dir
	if cfg.LogDir != "" {
		s.logDir = filepath.Join(cfg.LogDir, folderName)
	}
	st := &starting{Storage: s, sm: sm}
	if err := st.run(); err != nil {
		s.release()
		return nil, Recovered{}, diskError("start", s.dir, err)
	}
	return s, st.out, nil
}

func (st *starting) run() error {
	for _, step := range []func() error{
		st.refuseForeign, st.takeFolders, st.readInitialized, st.readHard, st.readManifest,
		st.openSnapshots, st.restore, st.openLog, st.moveDamaged, st.rewrite, st.tidy, st.report,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// release closes what a failed start opened.
func (s *Storage) release() {
	if s.log != nil {
		s.log.Close()
	}
	if s.hard != nil {
		s.hard.file.Close()
	}
	for _, l := range s.locks {
		l.Close()
	}
}

func notOurs(op, do string, err error) error {
	return &StorageError{Code: zab.ExitWrongCluster, Op: op, Do: do, Err: err}
}

// refuseForeign keeps zkd from taking Apache ZooKeeper's folder for an empty one.
func (st *starting) refuseForeign() error {
	for _, dir := range []string{st.cfg.DataDir, filepath.Dir(st.logDir)} {
		entries, err := st.cfg.Disk.List(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if hasEntry(entries, foreignName) && !hasEntry(entries, folderName) {
			return notOurs("look at "+dir, "import it into a new dataDir: zkd import --from "+st.cfg.DataDir+" --to NEW_DATADIR",
				errors.New("it holds the data of Apache ZooKeeper"))
		}
		st.vouch = st.vouch || dir == st.cfg.DataDir && hasEntry(entries, vouchName)
	}
	return nil
}

func hasEntry(entries []env.Entry, name string) bool {
	return slices.ContainsFunc(entries, func(e env.Entry) bool { return e.Name == name })
}

func (st *starting) takeFolders() error {
	dirs := []string{st.dir}
	if st.logDir != st.dir {
		dirs = append(dirs, st.logDir)
	}
	for _, dir := range dirs {
		if err := st.cfg.Disk.MkdirAll(dir); err != nil {
			return err
		}
		l, err := st.cfg.Disk.Lock(filepath.Join(dir, lockName))
		if errors.Is(err, env.ErrLocked) {
			return notOurs("lock "+dir, "stop the other process, or give this one its own dataDir", errors.New("another process uses this folder"))
		}
		if err != nil {
			return err
		}
		st.locks = append(st.locks, l)
	}
	return nil
}

// readInitialized only reads. A damaged file is set aside later: without it the server says "cluster unknown" until it learns it again.
func (st *starting) readInitialized() error {
	b, err := readWhole(st.cfg.Disk, st.path(initializedName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		st.initialized, err = decodeInitialized(b)
		st.initialText = b
	}
	if err != nil {
		st.initialText = nil
		st.note("%s: %v", initializedName, err)
	}
	return nil
}

// readHard opens the promises, or makes a new file: for an empty folder as it is, otherwise with the mark of one that may have
// forgotten something.
func (st *starting) readHard() error {
	h, err := openHard(st.cfg.Disk, st.dir)
	switch {
	case err == nil:
		st.hard = h
		return st.checkOwner()
	case errors.Is(err, errHardVersion):
		return newerVersion(err)
	case errors.Is(err, fs.ErrNotExist):
		used, uerr := st.used()
		if uerr != nil {
			return uerr
		}
		if !used {
			return st.newHard(zab.HardState{})
		}
		err = errors.New("hardstate is missing and other files are there")
	case errors.Is(err, ErrHardStateRot):
		if cerr := st.copyAside(hardName); cerr != nil {
			return cerr
		}
	default:
		return err
	}
	st.lost = append(st.lost, err.Error())
	return st.newHard(zab.HardState{ClusterID: st.initialized, Recovering: true, RecoveryID: st.cfg.NewID()})
}

func newerVersion(err error) error {
	return notOurs("start", "run the version of zkd that wrote it, or a newer one", err)
}

func (st *starting) newHard(h zab.HardState) error {
	var err error
	st.hard, err = createHard(st.cfg.Disk, st.dir,
		hardRecord{HardState: h, Self: st.cfg.Self, Directory: st.cfg.NewID(), Unclean: true})
	return err
}

func (st *starting) checkOwner() error {
	rec := &st.hard.rec
	if rec.Self != st.cfg.Self {
		return notOurs("start", "check myid and dataDir", fmt.Errorf("%s belongs to server %d, this is server %d", st.dir, rec.Self, st.cfg.Self))
	}
	if st.initialized != 0 && rec.ClusterID != 0 && st.initialized != rec.ClusterID {
		return wrongCluster("start", rec.ClusterID, st.initialized)
	}
	return nil
}

// used reports whether the folders show that a server has run here.
func (st *starting) used() (bool, error) {
	files, err := st.files()
	if err != nil {
		return false, err
	}
	for _, f := range files {
		if f.name == manifestName || f.name == initializedName || isData(f.name) || strings.HasPrefix(f.name, damagedPrefix) {
			return true, nil
		}
	}
	return false, nil
}

// isData reports whether a name is that of log or snapshots, finished or not.
func isData(name string) bool {
	return strings.HasPrefix(name, "log.") || strings.HasPrefix(name, "snap.")
}

type place struct{ dir, name string }

// files lists both folders.
func (st *starting) files() ([]place, error) {
	var out []place
	for _, dir := range slices.Compact([]string{st.dir, st.logDir}) {
		entries, err := st.cfg.Disk.List(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, place{dir, e.Name})
		}
	}
	return out, nil
}

// lose makes it durable that this server may have forgotten something (O14).
func (st *starting) lose(why string) error {
	st.lost = append(st.lost, why)
	if len(st.lost) > 1 {
		return nil // flagged by this start already
	}
	rec := st.hard.rec
	rec.Recovering, rec.RecoveryID = true, st.cfg.NewID()
	return st.hard.save(rec)
}

func (st *starting) note(format string, args ...any) {
	st.out.Notes = append(st.out.Notes, fmt.Sprintf(format, args...))
}

// readManifest reads what counts. Without it nobody knows which generation and which snapshots do, so all of them go aside.
func (st *starting) readManifest() error {
	m, err := readManifest(st.cfg.Disk, st.dir)
	if err == nil {
		st.man = m
		return nil
	}
	if errors.Is(err, errManifestVersion) {
		return newerVersion(err)
	}
	files, lerr := st.files()
	if lerr != nil {
		return lerr
	}
	data := slices.ContainsFunc(files, func(f place) bool { return isData(f.name) })
	if errors.Is(err, fs.ErrNotExist) && !data && st.hard.rec.Accepted == 0 && st.hard.rec.Generation == 0 {
		return st.saveManifest(manifest{Generation: 1}) // the first start
	}
	if err := st.lose(err.Error()); err != nil {
		return err
	}
	next := st.nextGeneration(files)
	if err := st.setAside(files, func(name string) bool { return name == manifestName || isData(name) }); err != nil {
		return err
	}
	return st.saveManifest(manifest{Generation: next})
}

// nextGeneration is one that no file and no promise knows.
func (st *starting) nextGeneration(files []place) uint64 {
	newest := max(st.man.Generation, st.hard.rec.Generation)
	for _, f := range files {
		if parts := strings.Split(f.name, "."); len(parts) > 2 && parts[0] == "log" {
			if g, err := strconv.ParseUint(parts[1], 16, 64); err == nil {
				newest = max(newest, g)
			}
		}
	}
	return newest + 1
}

// setAside moves the files that pick chooses into this start's sub-folder, beside where they are.
func (st *starting) setAside(files []place, pick func(name string) bool) error {
	for _, dir := range slices.Compact([]string{st.dir, st.logDir}) {
		to, moved := "", 0
		for _, f := range files {
			if f.dir != dir || !pick(f.name) {
				continue
			}
			if moved == 0 {
				var err error
				if to, err = st.asideFolder(dir); err != nil {
					return err
				}
			}
			moved++
			if err := st.cfg.Disk.Rename(filepath.Join(dir, f.name), filepath.Join(to, f.name)); err != nil {
				return err
			}
		}
		if moved == 0 {
			continue
		}
		st.note("%d files are set aside in %s", moved, to)
		if err := errors.Join(st.cfg.Disk.SyncDir(to), st.cfg.Disk.SyncDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

func (st *starting) asideFolder(dir string) (string, error) {
	if st.damagedDir == "" {
		st.damagedDir = damagedPrefix + fmt.Sprintf("%016x", st.cfg.NewID())
	}
	to := filepath.Join(dir, st.damagedDir)
	return to, st.cfg.Disk.MkdirAll(to)
}

// copyAside keeps a small file's content where the file itself is about to be replaced. What cannot be read is not kept.
func (st *starting) copyAside(name string) error {
	b, err := readWhole(st.cfg.Disk, st.path(name))
	if err != nil {
		st.note("%s could not be kept: %v", name, err)
		return nil
	}
	to, err := st.asideFolder(st.dir)
	if err != nil {
		return err
	}
	st.note("%s is kept in %s", name, to)
	return writeWhole(st.cfg.Disk, to, name, b)
}

func (st *starting) openSnapshots() (err error) {
	st.snaps, err = snapshot.Open(snapshot.Config{Disk: st.cfg.Disk, Dir: st.dir, Pace: st.cfg.Pace})
	return err
}

// restore loads the newest good snapshot that the manifest names.
func (st *starting) restore() error {
	st.broken = nil
	for _, z := range st.man.Snapshots {
		h, err := loadSnapshot(st.snaps, z, st.sm)
		if err == nil {
			st.out.Applied, st.out.Table, st.out.ConfigVersion, st.out.SnapshotAt = h.At, h.Table, h.ConfigVersion, h.At
			return nil
		}
		st.note("snapshot is not usable: %v", err)
		st.broken = append(st.broken, z)
	}
	st.out.Applied, st.out.Table, st.out.ConfigVersion, st.out.SnapshotAt = zab.Position{}, zab.EpochTable{Whole: true}, 0, zab.Position{}
	return st.sm.Clear()
}

// openLog opens the log behind the snapshot and replays it. If it is damaged, the history that is left is the snapshot's.
func (st *starting) openLog() error {
	why, err := st.logMissing()
	if err != nil {
		return err
	}
	if why == "" {
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

// logMissing says why there is no use in opening the log.
func (st *starting) logMissing() (string, error) {
	if st.out.Applied.Zxid < st.man.Base.Zxid {
		return fmt.Sprintf("the log starts at %v and no good snapshot reaches there", st.man.Base.Zxid), nil
	}
	if st.hard.rec.Generation != st.man.Generation {
		return "", nil // no start with this generation has come to its end
	}
	files, err := st.files()
	if err != nil {
		return "", err
	}
	prefix := fmt.Sprintf("log.%016x.", st.man.Generation)
	if slices.ContainsFunc(files, func(f place) bool { return f.dir == st.logDir && strings.HasPrefix(f.name, prefix) }) {
		return "", nil
	}
	return "the log is missing in " + st.logDir, nil
}

// tryLog opens the log of the manifest's generation behind what is applied.
func (st *starting) tryLog(unclean bool) error {
	start := txnlog.Start{Generation: st.man.Generation, Base: st.out.Applied.Zxid, BaseChain: st.out.Applied.Chain, Unclean: unclean}
	if st.hard.rec.Generation == st.man.Generation {
		start.Watermark = st.hard.rec.Watermark
	}
	l, rep, err := txnlog.Open(txnlog.Config{
		Disk: st.cfg.Disk, Dir: st.logDir, SegmentBytes: st.cfg.SegmentBytes, ClusterID: st.hard.rec.ClusterID,
	}, start, st.take)
	switch {
	case errors.Is(err, txnlog.ErrWrongCluster):
		return notOurs("open the log", "check dataDir and dataLogDir", err)
	case errors.Is(err, txnlog.ErrVersion):
		return newerVersion(err)
	case err != nil:
		return err
	}
	st.log = l
	st.out.Commit, st.out.CutBytes = rep.CommitHint, rep.CutBytes
	if rep.CutBytes > 0 {
		st.note("a torn write of %d bytes was cut off at %s; nobody was promised it", rep.CutBytes, rep.CutAt)
	}
	return st.flush()
}

// take gets one record of the log: for the state if it is committed, for the tail if nobody knows.
func (st *starting) take(r txn.Record, committed bool) error {
	if !committed {
		st.out.Tail = append(st.out.Tail, r)
		return nil
	}
	st.batch = append(st.batch, r)
	st.batchBytes += len(r.Bytes)
	st.out.Applied = zab.Position{Zxid: r.Zxid, Chain: r.Chain}
	st.out.Table.Extend(r.Zxid, r.Chain)
	if len(st.batch) < replayCount && st.batchBytes < replayBytes {
		return nil
	}
	return st.flush()
}

func (st *starting) flush() error {
	if len(st.batch) == 0 {
		return nil
	}
	err := st.sm.Apply(st.batch)
	st.batch, st.batchBytes = nil, 0
	if err != nil {
		return &StorageError{Code: zab.ExitBrokenInvariant, Op: "replay the log", Err: err,
			Do: "if an older zkd runs on this folder now, run the newer one; otherwise keep the folder and report it"}
	}
	return nil
}

// newGeneration sets the log aside and starts an empty one behind the snapshot.
func (st *starting) newGeneration() error {
	st.out.Tail, st.batch, st.batchBytes = nil, nil, 0
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

// moveDamaged sets aside what was passed over, while the manifest still names it: what it does not name is removed.
func (st *starting) moveDamaged() error {
	files, err := st.files()
	if err != nil {
		return err
	}
	return st.setAside(files, func(name string) bool {
		damaged := slices.ContainsFunc(st.broken, func(z txn.Zxid) bool { return snapshot.Name(z) == name })
		return damaged || name == initializedName && st.initialText == nil
	})
}

// rewrite is O15. The promises get a new file, not a new slot: if the fsync of the folder failed when this one was made, no later
// one makes its name durable.
func (st *starting) rewrite() error {
	rec := st.hard.rec
	rec.Boot++
	rec.Unclean = true
	rec.Generation, rec.Watermark = st.man.Generation, st.logEnd().Zxid
	if st.vouch && st.fresh() {
		rec.Vouched = true
	}
	if err := st.hard.file.Close(); err != nil {
		return err
	}
	var err error
	if st.hard, err = createHard(st.cfg.Disk, st.dir, rec); err != nil {
		return err
	}
	st.log.SetClusterID(rec.ClusterID)
	m := st.man
	m.Snapshots = slices.DeleteFunc(slices.Clone(m.Snapshots), func(z txn.Zxid) bool { return slices.Contains(st.broken, z) })
	if err := st.saveManifest(m); err != nil {
		return err
	}
	if st.initialText != nil {
		if err := writeWhole(st.cfg.Disk, st.dir, initializedName, st.initialText); err != nil {
			return err
		}
	}
	for _, dir := range slices.Compact([]string{st.dir, st.logDir}) {
		if err := st.cfg.Disk.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// fresh: nothing was ever promised or stored here.
func (st *starting) fresh() bool {
	h := &st.hard.rec
	return h.Accepted == 0 && !h.Recovering && st.logEnd().Zxid == 0 && len(st.man.Snapshots) == 0
}

// tidy removes what the manifest does not name: it was given up, or never came to its end.
func (st *starting) tidy() error {
	infos, err := st.snaps.List()
	if err != nil {
		return err
	}
	var drop []txn.Zxid
	for _, info := range infos {
		if !slices.Contains(st.man.Snapshots, info.Zxid) {
			drop = append(drop, info.Zxid)
		}
	}
	if err := st.snaps.Remove(drop); err != nil {
		return err
	}
	if err := st.log.RemoveOldGenerations(); err != nil {
		return err
	}
	if err := st.findNewest(); err != nil {
		return err
	}
	if !st.vouch {
		return nil
	}
	if err := st.cfg.Disk.Remove(filepath.Join(st.cfg.DataDir, vouchName)); err != nil {
		return err
	}
	return st.cfg.Disk.SyncDir(st.cfg.DataDir)
}

func (st *starting) report() error {
	out, rec := &st.out, &st.hard.rec
	out.Hard, out.Directory, out.Boot = rec.HardState, rec.Directory, rec.Boot
	out.Fresh = st.fresh()
	out.Vouched = out.Fresh && rec.Vouched
	out.Recovering = strings.Join(st.lost, "; ")
	if rec.Recovering && len(st.lost) == 0 {
		out.Recovering = "found at an earlier start or told by a leader, and not readmitted yet"
	}
	out.Initialized = st.initialized != 0
	out.Base, out.End = st.oldest(), st.logEnd()
	out.Commit = max(out.Commit, out.Applied.Zxid)
	_, out.SnapshotSize, _ = st.Newest()
	return nil
}
