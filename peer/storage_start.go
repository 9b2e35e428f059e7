package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

const (
	folderName    = "zkd"
	foreignName   = "version-2"  // of Apache ZooKeeper
	vouchName     = "initialize" // in DataDir, made by an operator
	restoredName  = "restored"   // likewise
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

	vouch       bool       // the operator says that nothing of value was promised here
	restored    bool       // the operator says that the folder is an old copy
	lost        []string   // why this start found the server RECOVERING
	damagedDir  string     // name of the sub-folder of this start for files set aside
	broken      []txn.Zxid // snapshots
	aside       []string   // names of log files that are damaged and not needed
	initialText []byte     // the file initialized as it is
	batch       *batch
	ahead       chan *batch   // for the state, if the log is read ahead
	again       chan *batch   // to be used again
	stopped     chan struct{} // the state takes no more of them
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
	starter, _ := sm.(Starter)
	if starter != nil {
		starter.Begin()
	}
	if err := st.run(); err != nil {
		s.release()
		return nil, Recovered{}, diskError("start", err, s.dirs()...)
	}
	if starter != nil {
		starter.Ready()
	}
	return s, st.out, nil
}

func (st *starting) run() error {
	for _, step := range []func() error{
		st.refuseForeign, st.takeFolders, st.readInitialized, st.readHard, st.markRestored, st.readManifest,
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
			return notOurs("look at "+dir, "give zkd a dataDir of its own: it never writes there. To take the nodes over, copy them from the running servers: zkcli cp",
				errors.New("it holds the data of Apache ZooKeeper"))
		}
		if dir == st.cfg.DataDir {
			st.vouch, st.restored = hasEntry(entries, vouchName), hasEntry(entries, restoredName)
		}
	}
	return nil
}

func hasEntry(entries []env.Entry, name string) bool {
	return slices.ContainsFunc(entries, func(e env.Entry) bool { return e.Name == name })
}

func (st *starting) takeFolders() error {
	for _, dir := range st.dirs() {
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
		st.note("%s: %v", st.path(initializedName), err)
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
		err = fmt.Errorf("%s: the file is missing and others are there", st.path(hardName))
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

// markRestored: an old copy cannot be told from a healthy folder by its content. It may lack what this server acknowledged and promised since.
func (st *starting) markRestored() error {
	if !st.restored {
		return nil
	}
	return st.lose(fmt.Sprintf("%s: the operator says that %s is a copy that was put back", filepath.Join(st.cfg.DataDir, restoredName), st.dir))
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

// readManifest reads what counts. Without it nobody knows which generation and which snapshots do, so all of them go aside.
func (st *starting) readManifest() error {
	m, err := readManifest(st.cfg.Disk, st.dir)
	if st.hard.rec.Diverged && (err == nil || errors.Is(err, fs.ErrNotExist)) { // it may be gone already, if an earlier start came so far
		st.man = m
		return st.leaveDiverged()
	}
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

// rewrite is O15. The promises get a new file, not a new slot: if the fsync of the folder failed when this one was made, no later
// one makes its name durable.
func (st *starting) rewrite() error {
	rec := st.hard.rec
	rec.Boot++
	rec.Unclean = true
	rec.Diverged = false // what diverged is set aside
	rec.Generation, rec.Watermark = st.man.Generation, st.logEnd().Zxid
	switch {
	case st.vouch && st.fresh():
		rec.Vouched = true
	case st.vouch && rec.Recovering && len(st.lost) == 0 && !st.hard.rec.Diverged:
		// An earlier start has told what was lost, and the operator decides to go on with what is left.
		rec.Recovering, rec.RecoveryID = false, 0
		st.note("the operator vouches for this server: it counts again with what is left, up to %v", st.logEnd().Zxid)
	}
	if mutant.On("O15") {
		st.hard.rec = rec
		st.log.SetClusterID(rec.ClusterID)
		return nil
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
	for _, dir := range st.dirs() {
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
	return st.removeMarkers()
}

// removeMarkers removes what the operator put there: it is in the hard state now.
func (st *starting) removeMarkers() error {
	if !st.vouch && !st.restored {
		return nil
	}
	for _, name := range []string{vouchName, restoredName} {
		if err := st.cfg.Disk.Remove(filepath.Join(st.cfg.DataDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
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
