package peer

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/zab"
)

// Config is what a peer needs. Core carries membership, addresses and the timers of the protocol.
type Config struct {
	Core zab.Config

	Disk  env.Disk
	Net   env.Net
	Clock env.Clock
	Rand  env.Rand

	DataDir string // holds zkd/ with hard state, manifest and snapshots
	LogDir  string // holds zkd/ with the log; may be DataDir

	SegmentBytes   int64         // of one log segment; default 64 MiB
	SnapTxns       int           // a snapshot is due after so many transactions (± 30 %) …
	SnapBytes      int64         // … and so many bytes of log, or as many as the last snapshot had;
	SnapLimit      int64         // or after so many bytes (or the last snapshot's) however few the transactions; default 4 GiB
	SnapRate       int64         // bytes per second that a snapshot may write or read back, or send to a learner, while there is other work; 0: no bound
	ScrubInterval  time.Duration // between two readings of old segments and snapshots (± 30 %); default a day
	ScrubRate      int64         // bytes per second that they may read; default 8 MiB/s
	RetainSnaps    int           // verified snapshots that are kept
	RetainLogBytes int64         // log that is kept for followers that come back
	IdleConfirm    time.Duration // an idle log is confirmed after this
	MaxFrame       int           // bytes of one peer frame
	DiskSoft       int64         // free bytes below which another server should lead; 0: two segments and a snapshot
	DiskHard       int64         // free bytes below which writes are refused; 0: one segment
}

// SetDefaults fills in what is zero.
func (c *Config) SetDefaults() {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.SegmentBytes, 64<<20)
	def(&c.SnapBytes, 16<<20)
	def(&c.SnapLimit, 4<<30)
	def(&c.RetainLogBytes, 1<<30)
	def(&c.SnapRate, 64<<20)
	def(&c.ScrubRate, 8<<20)
	if c.ScrubInterval == 0 {
		c.ScrubInterval = 24 * time.Hour
	}
	if c.SnapTxns == 0 {
		c.SnapTxns = 100_000
	}
	if c.RetainSnaps == 0 {
		c.RetainSnaps = 3
	}
	if c.IdleConfirm == 0 {
		c.IdleConfirm = 10 * time.Millisecond
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = 8 << 20
	}
}

// Validate reports everything that is wrong, joined.
func (c *Config) Validate() error {
	errs := []error{c.Core.Validate()}
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Disk != nil && c.Net != nil && c.Clock != nil && c.Rand != nil, "disk, net, clock and rand must be given")
	bad(c.DataDir != "" && c.LogDir != "", "dataDir must be given")
	bad(c.SegmentBytes >= 64<<10, "a log segment of %d bytes is too small", c.SegmentBytes)
	bad(c.ScrubInterval >= time.Second && c.ScrubRate > 0, "scrubInterval must be a second at least, scrubRate positive")
	bad(c.RetainSnaps >= 1, "at least one snapshot must be kept")
	bad(c.MaxFrame >= c.Core.BatchBytes+1024, "maxFrame (%d) must hold a batch (%d)", c.MaxFrame, c.Core.BatchBytes)
	if len(c.Core.Members.Servers) > 1 {
		for _, s := range c.Core.Members.Servers {
			bad(s.PeerAddr != "" && s.ElectionAddr != "", "server.%d has no peer or election address", s.ID)
		}
	}
	return errors.Join(errs...)
}

// FatalError ends the process with Code, one of the exit codes of package zab.
type FatalError struct {
	Code int
	Err  error
}

func (e *FatalError) Error() string { return e.Err.Error() }
func (e *FatalError) Unwrap() error { return e.Err }

// fatal turns an error of the storage into the end of the process.
func fatal(err error) error {
	var st *StorageError
	if errors.As(err, &st) {
		return &FatalError{Code: st.Code, Err: err}
	}
	return &FatalError{Code: zab.ExitDisk, Err: err}
}
