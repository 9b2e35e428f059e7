package snapshot

import (
	"errors"
	"fmt"
)

// CorruptError reports a snapshot file that is not what was once written.
type CorruptError struct {
	File   string
	Offset int64 // bytes from the start of the file, where the faulty piece begins
	Err    error // what was wrong there; Unwrap returns it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("snapshot %s is damaged at byte %d: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns what was wrong.
func (e *CorruptError) Unwrap() error { return e.Err }

// What a CorruptError may carry.
var (
	ErrHead     = errors.New("not the head of this snapshot")
	ErrVersion  = errors.New("written by a newer version")
	ErrShort    = errors.New("the file ends too early")
	ErrLength   = errors.New("impossible block length")
	ErrChecksum = errors.New("checksum does not match")
	ErrTrailer  = errors.New("the trailer does not match the blocks")
	ErrTooLong  = errors.New("bytes behind the trailer")
)

// ErrFolder is returned by Install when the file has its name and the sync of the folder failed: what else of the folder is durable is not known either.
var ErrFolder = errors.New("sync the folder of snapshots")

// ErrClosed is returned by a Writer or RawWriter after Abort, Install or an error.
var ErrClosed = errors.New("snapshot writer is closed")
