package peer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
	"github.com/zkd-project/zkd/zab"
)

// StorageConfig says where a server keeps what it must remember.
type StorageConfig struct {
	Disk    env.Disk
	DataDir string // holds the folder zkd
	LogDir  string // holds a folder zkd for the log; empty: DataDir
	Self    zab.ServerID

	SegmentBytes   int64 // of one log segment
	RetainSnaps    int   // verified snapshots to keep, at least 1
	RetainLogBytes int64 // log to keep for DIFF, even if snapshots would allow less

	ReadAhead bool // the log is read and decoded on a goroutine of its own, while the state is given what came before

	NewID func() uint64    // random, never 0
	Wall  func() time.Time // for the creation time in a file that people read
	Pace  func(bytes int)  // called while a local snapshot is written and read back, and may wait; may be nil
	// Stopped is asked while a local snapshot is written and read through; its error ends that. May be nil.
	Stopped func() error
}

// StateStore is the state that a start rebuilds. The calls come from the goroutine that called OpenStorage or Load.
type StateStore interface {
	// Clear makes the state that of an empty history, whatever half-done Restore came before.
	Clear() error
	// Restore replaces the state by the one that a snapshot's stream holds. It reads r to io.EOF.
	Restore(r io.Reader) error
	// Apply replays committed records, in order. It may keep them, but not the slice; a Starter may keep nothing of them.
	Apply(recs []txn.Record) error
}

// A Starter is a StateStore that wants to know when a start begins and when it has been given everything: in between nobody reads it.
type Starter interface {
	Begin()
	Ready()
}

// Recovered is what a start found, made durable again (O15): all of it may be stated to others.
type Recovered struct {
	Hard        zab.HardState
	Fresh       bool   // nothing was ever promised here
	Vouched     bool   // Fresh, and the operator says that it may vote
	Recovering  string // why Hard.Recovering is set; empty if it is not
	Directory   uint64
	Boot        uint64 // this start; grows
	Initialized bool

	Base          zab.Position   // lowest position from which the log can be read
	SnapshotAt    zab.Position   // newest snapshot; zero if there is none
	SnapshotSize  int64          // bytes
	Table         zab.EpochTable // of the history up to Applied
	ConfigVersion txn.Zxid       // as the snapshot says; records behind it may say more
	Applied       zab.Position   // what the StateStore holds
	Commit        txn.Zxid       // largest zxid known to be committed
	Tail          []txn.Record   // behind Applied
	Replayed      int            // records of the log that the StateStore was given
	End           zab.Position

	CutBytes int64    // of a torn write that nobody was promised
	Notes    []string // what an operator should know: damaged files and where they are now
}

// StorageError ends the process with Code; Do says what the operator has to do.
type StorageError struct {
	Code int // exit code of docs/operating.md
	Op   string
	Do   string
	Err  error
}

func (e *StorageError) Error() string { return fmt.Sprintf("%s: %v; %s", e.Op, e.Err, e.Do) }

// Unwrap returns the cause.
func (e *StorageError) Unwrap() error { return e.Err }

// ErrNoSnapshot is returned when there is no snapshot to load or send.
var ErrNoSnapshot = errors.New("there is no snapshot")

// ErrSuperseded is returned by FinishSnapshot when the history went another way meanwhile; the snapshot is gone.
var ErrSuperseded = errors.New("snapshot is superseded")

// Storage is a server's durable side: promises, log, snapshots, and the manifest that says what of it counts. It has no
// goroutine, but for that of a start with ReadAhead. Methods that change something are called by one goroutine, in the order of the core's effects; those that say so may be
// called from any. After an error of a durable write it refuses everything.
type Storage struct {
	cfg    StorageConfig
	dir    string // of everything but the log
	logDir string
	snaps  *snapshot.Store
	locks  []io.Closer

	// The writer's own.
	hard        *hardFile
	man         manifest
	log         *txnlog.Log
	initialized uint64 // cluster id in the file; 0: not written yet
	failed      error

	sweeping sync.Mutex                   // held while snapshots and log that were let go are deleted; taken before mu
	unswept  atomic.Pointer[StorageError] // why that failed; the writer does nothing more then

	mu     sync.Mutex // guards what follows; never held across I/O
	newest SnapshotHead
	size   int64      // of newest, bytes; 0: there is none
	letGo  []txn.Zxid // snapshots that the manifest does not name any more and that Sweep deletes
	closed bool       // nothing is deleted any more
	// condemned is damage that was found and is still in the folder.
	condemned []Damage
}

// fatal remembers the first failure.
func (s *Storage) fatal(op string, err error) error {
	if s.failed == nil {
		s.failed = diskError(op, err, s.dirs()...)
	}
	return s.failed
}

// diskError makes err, unless it is one already, a *StorageError that says which disk is meant: that of the file that err names, or else that under
// one of the folders.
func diskError(op string, err error, dirs ...string) error {
	var have *StorageError
	if errors.As(err, &have) {
		return err
	}
	disk := "the disk under " + strings.Join(dirs, " or ")
	if text := err.Error(); slices.ContainsFunc(dirs, func(dir string) bool { return strings.Contains(text, dir) }) {
		disk = "the disk of that file"
	}
	do := "zkd stopped so as to promise nothing that may not be there: check " + disk + " and start again"
	switch {
	case errors.Is(err, syscall.ENOSPC):
		do = "free space on " + disk + " and start again"
	case errors.Is(err, fs.ErrPermission):
		do = "let zkd read and write everything under " + strings.Join(dirs, " and ") + " (owner, rights, attributes) and start again"
	}
	return &StorageError{Code: zab.ExitDisk, Op: op, Do: do, Err: err}
}

// dirs are the folders that hold what a server must remember: one or two.
func (s *Storage) dirs() []string { return slices.Compact([]string{s.dir, s.logDir}) }

func brokenInvariant(op string, err error) error {
	return &StorageError{Code: zab.ExitBrokenInvariant, Op: op, Err: err,
		Do: "this is a fault in zkd: keep the data folder and the log output and report it"}
}

// hasFailed returns the first failure, a sweep's included. The writer's.
func (s *Storage) hasFailed() error {
	if err := s.unswept.Load(); err != nil && s.failed == nil {
		s.failed = err
	}
	return s.failed
}

// do runs one durable change.
func (s *Storage) do(op string, change func() error) error {
	if err := s.hasFailed(); err != nil {
		return err
	}
	if err := change(); err != nil {
		return s.fatal(op, err)
	}
	return s.hasFailed() // a sweep's fsync of the folder may have had the error that was this change's
}

// Append makes records durable behind the log's end. commit is a hint for the next start, at most the last record's zxid.
func (s *Storage) Append(recs []txn.Record, commit txn.Zxid) error {
	return s.do("append to the log", func() error {
		err := s.log.Append(recs, commit)
		if errors.Is(err, txnlog.ErrGap) {
			return brokenInvariant("append to the log", err)
		}
		return err
	})
}

// Confirm makes sure that a later start knows that the last batch was durable. The caller does it when the log has been idle.
func (s *Storage) Confirm(commit txn.Zxid) error {
	return s.do("confirm the log", func() error { return s.log.Confirm(commit) })
}

// SaveHardState replaces the hard state. Epochs never shrink.
func (s *Storage) SaveHardState(h zab.HardState) error {
	const op = "save the hard state"
	return s.do(op, func() error {
		old := s.hard.rec.HardState
		if h.Current > h.Accepted || h.Accepted < old.Accepted || h.Current < old.Current {
			return brokenInvariant(op, fmt.Errorf("epochs accepted %d, current %d would become %d, %d", old.Accepted, old.Current, h.Accepted, h.Current))
		}
		rec := s.hard.rec
		rec.HardState = h
		if err := s.saveHard(rec); err != nil {
			return err
		}
		s.log.SetClusterID(h.ClusterID)
		return nil
	})
}

// saveHard writes rec with the watermark of now: everything in the log is durable whenever the writer comes here.
func (s *Storage) saveHard(rec hardRecord) error {
	rec.Generation, rec.Watermark = s.man.Generation, s.logEnd().Zxid
	return s.hard.save(rec)
}

// Initialize settles the cluster id on disk. A second call with the same id does nothing.
func (s *Storage) Initialize(clusterID uint64) error {
	const op = "settle the cluster id"
	return s.do(op, func() error {
		if s.initialized != 0 {
			if s.initialized != clusterID {
				return wrongCluster(op, s.initialized, clusterID)
			}
			return nil
		}
		if err := writeWhole(s.cfg.Disk, s.dir, initializedName, encodeInitialized(clusterID, s.cfg.Wall())); err != nil {
			return err
		}
		s.initialized = clusterID
		return nil
	})
}

func wrongCluster(op string, have, want uint64) error {
	return &StorageError{Code: zab.ExitWrongCluster, Op: op, Do: "check dataDir and the server list",
		Err: fmt.Errorf("the folder belongs to cluster %016x, not %016x", have, want)}
}

// Truncate cuts the history to to, which must be a position of the log that the newest remaining snapshot still reaches. The order is
// O4's: watermark, snapshots behind to, log. The caller has made sure that nothing behind to was applied; if something was, the
// state has to be loaded again (Load).
func (s *Storage) Truncate(to zab.Position) error {
	const op = "truncate the log"
	return s.do(op, func() error {
		if err := s.mayCut(to); err != nil {
			if errors.Is(err, errMayNotCut) || errors.Is(err, txnlog.ErrNoSuchZxid) || errors.Is(err, txnlog.ErrPurged) {
				return brokenInvariant(op, err)
			}
			return err // the disk's fault
		}
		if rec := s.hard.rec; !mutant.On("O4") && (rec.Generation != s.man.Generation || rec.Watermark > to.Zxid) {
			rec.Generation, rec.Watermark = s.man.Generation, to.Zxid
			if err := s.hard.save(rec); err != nil {
				return err
			}
		}
		if err := s.dropSnapshotsAfter(to.Zxid); err != nil {
			return err
		}
		return s.log.Truncate(to.Zxid, to.Chain)
	})
}

var errMayNotCut = errors.New("the log must not be cut there")

// mayCut checks, before anything is touched, that what would be left can be started from.
func (s *Storage) mayCut(to zab.Position) error {
	chain, err := s.log.ChainAt(to.Zxid)
	if err != nil {
		return err
	}
	if chain != to.Chain {
		return fmt.Errorf("%w: %v has another chain in the log", errMayNotCut, to.Zxid)
	}
	oldest := s.oldest().Zxid
	if oldest == 0 || slices.ContainsFunc(s.man.Snapshots, func(z txn.Zxid) bool { return z >= oldest && z <= to.Zxid }) {
		return nil
	}
	return fmt.Errorf("%w: no snapshot is left for a log that ends at %v", errMayNotCut, to.Zxid)
}

// dropSnapshotsAfter forgets and removes every snapshot behind z.
func (s *Storage) dropSnapshotsAfter(z txn.Zxid) error {
	m := s.man
	m.Snapshots = nil
	for _, have := range s.man.Snapshots {
		if have <= z {
			m.Snapshots = append(m.Snapshots, have)
		}
	}
	if len(m.Snapshots) == len(s.man.Snapshots) {
		return s.snaps.RemoveNewerThan(z)
	}
	if err := s.saveManifest(m); err != nil {
		return err
	}
	if err := s.snaps.RemoveNewerThan(z); err != nil {
		return err
	}
	return s.findNewest()
}

func (s *Storage) logEnd() zab.Position {
	z, chain := s.log.End()
	return zab.Position{Zxid: z, Chain: chain}
}

func (s *Storage) oldest() zab.Position {
	z, chain := s.log.Oldest()
	return zab.Position{Zxid: z, Chain: chain}
}

func (s *Storage) saveManifest(m manifest) error {
	if err := writeManifest(s.cfg.Disk, s.dir, &m); err != nil {
		return err
	}
	s.man = m
	return nil
}

// ReadAfter returns records directly behind z, in order, at most maxBytes of them but at least one if there is one. Any goroutine.
// txnlog.ErrPurged and txnlog.ErrNoSuchZxid say that the log does not have them.
func (s *Storage) ReadAfter(z txn.Zxid, maxBytes int) ([]txn.Record, error) {
	return s.log.ReadAfter(z, maxBytes)
}

// LogBytesAfter estimates how many bytes of log stand behind z. Any goroutine.
func (s *Storage) LogBytesAfter(z txn.Zxid) int64 { return s.log.BytesAfter(z) }

// Close ends it. clean: nothing is on its way, so that the next start need not distrust the tail.
func (s *Storage) Close(clean bool) error {
	var errs []error
	s.sweeping.Lock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.sweeping.Unlock()
	if clean {
		errs = append(errs, s.do("note the clean stop", func() error {
			rec := s.hard.rec
			rec.Unclean = false
			return s.saveHard(rec)
		}))
	}
	errs = append(errs, s.log.Close(), s.hard.file.Close())
	for _, l := range s.locks {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func (s *Storage) path(name string) string { return filepath.Join(s.dir, name) }
