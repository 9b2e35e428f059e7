package txnlog

import (
	"errors"
	"fmt"
)

// Errors that callers branch on.
var (
	// ErrBroken is wrapped by every error after the first failed write, fsync, rename or removal, together with that cause.
	ErrBroken = errors.New("the log is broken")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the log is closed")
	// ErrGap is returned by Append for records that do not stand directly behind the log's end. Nothing was written.
	ErrGap = errors.New("records do not follow the end of the log")
	// ErrNoSuchZxid says that a position is not a record boundary of this log, or has another chain.
	ErrNoSuchZxid = errors.New("no such position in the log")
	// ErrPurged says that a position lies before the oldest one the log can be read from.
	ErrPurged = errors.New("position is older than the log")
	// ErrWrongCluster says that a segment belongs to another ensemble.
	ErrWrongCluster = errors.New("log of another cluster")
	// ErrVersion says that a segment was written in a format that this version does not know.
	ErrVersion = errors.New("unknown log format")
)

// Reasons inside a CorruptError.
var (
	errHeader    = errors.New("segment header is invalid")
	errBatch     = errors.New("batch is invalid, and later ones are not")
	errLink      = errors.New("batch does not follow the one before it")
	errRecords   = errors.New("batch with a valid checksum holds invalid records")
	errSegment   = errors.New("segment does not follow the one before it")
	errSealed    = errors.New("the segment that should follow is missing")
	errWatermark = errors.New("the log ends below what was durable")
	errMissing   = errors.New("the log is missing")
	errShort     = errors.New("the file is shorter than it was made")
	errBase      = errors.New("the log does not hold the position of the snapshot")
	errTorn      = errors.New("batch is cut short or damaged")
)

// CorruptError reports bytes that no crash explains. A torn tail of the last segment is not one.
type CorruptError struct {
	File   string // path
	Offset int64  // bytes from the start of the file
	Err    error  // what was wrong there; Unwrap returns it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt log %s at %d: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns what was wrong.
func (e *CorruptError) Unwrap() error { return e.Err }
