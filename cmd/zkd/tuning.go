package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/zab"
)

// tuning are the keys zkd.<name>: the timers and limits of docs/protocol.md that have no name in ZooKeeper. Durations are in
// milliseconds, sizes in bytes.
var tuning = map[string]func(*peer.Config, string) error{
	"hbInterval":      duration(func(c *zab.Config) *time.Duration { return &c.HbInterval }),
	"hbTimeout":       duration(func(c *zab.Config) *time.Duration { return &c.HbTimeout }),
	"finalizeWait":    duration(func(c *zab.Config) *time.Duration { return &c.FinalizeWait }),
	"notifyMin":       duration(func(c *zab.Config) *time.Duration { return &c.NotifyMin }),
	"notifyMax":       duration(func(c *zab.Config) *time.Duration { return &c.NotifyMax }),
	"dialTimeout":     duration(func(c *zab.Config) *time.Duration { return &c.DialTimeout }),
	"connectLimit":    duration(func(c *zab.Config) *time.Duration { return &c.ConnectLimit }),
	"electionGap":     duration(func(c *zab.Config) *time.Duration { return &c.ElectionGap }),
	"penalty":         duration(func(c *zab.Config) *time.Duration { return &c.Penalty }),
	"joinProbe":       duration(func(c *zab.Config) *time.Duration { return &c.JoinProbe }),
	"epochWait":       duration(func(c *zab.Config) *time.Duration { return &c.EpochWait }),
	"proposalStall":   duration(func(c *zab.Config) *time.Duration { return &c.ProposalStall }),
	"diskStall":       duration(func(c *zab.Config) *time.Duration { return &c.DiskStall }),
	"handoverLimit":   duration(func(c *zab.Config) *time.Duration { return &c.HandoverLimit }),
	"gatherLimit":     gatherLimit,
	"reepochGap":      duration(func(c *zab.Config) *time.Duration { return &c.ReepochGap }),
	"handoverGrace":   duration(func(c *zab.Config) *time.Duration { return &c.HandoverGrace }),
	"batchBytes":      count(func(c *zab.Config) *int { return &c.BatchBytes }),
	"batchCount":      count(func(c *zab.Config) *int { return &c.BatchCount }),
	"inflightBytes":   count(func(c *zab.Config) *int { return &c.InflightBytes }),
	"inflightCount":   count(func(c *zab.Config) *int { return &c.InflightCount }),
	"tailBytes":       count(func(c *zab.Config) *int { return &c.TailBytes }),
	"maxPending":      count(func(c *zab.Config) *int { return &c.MaxPending }),
	"maxPendingBytes": count(func(c *zab.Config) *int { return &c.MaxPendingBytes }),
	"segmentBytes":    size(func(c *peer.Config) *int64 { return &c.SegmentBytes }),
	"snapBytes":       size(func(c *peer.Config) *int64 { return &c.SnapBytes }),
	"snapRate":        size(func(c *peer.Config) *int64 { return &c.SnapRate }),
	"scrubInterval":   interval(func(c *peer.Config) *time.Duration { return &c.ScrubInterval }),
	"scrubRate":       size(func(c *peer.Config) *int64 { return &c.ScrubRate }),
	"retainLogBytes":  size(func(c *peer.Config) *int64 { return &c.RetainLogBytes }),
	"diskSoft":        size(func(c *peer.Config) *int64 { return &c.DiskSoft }),
	"diskHard":        size(func(c *peer.Config) *int64 { return &c.DiskHard }),
	"ioUring":         ioUring,
	"mmKeeper":        mmKeeper,
	"diffMinBytes":    size(func(c *peer.Config) *int64 { return &c.Core.DiffMinBytes }),
}

func tuningKeys() []string {
	keys := make([]string, 0, len(tuning))
	for k := range tuning {
		keys = append(keys, "zkd."+k)
	}
	slices.Sort(keys)
	return keys
}

func positive(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 62)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q: want a positive whole number", v)
	}
	return n, nil
}

func duration(field func(*zab.Config) *time.Duration) func(*peer.Config, string) error {
	return interval(func(c *peer.Config) *time.Duration { return field(&c.Core) })
}

func interval(field func(*peer.Config) *time.Duration) func(*peer.Config, string) error {
	return func(c *peer.Config, v string) error {
		n, err := positive(v)
		if err == nil && n > 1<<31 {
			err = errors.New("want milliseconds, not more than 2^31")
		}
		*field(c) = time.Duration(n) * time.Millisecond
		return err
	}
}

// gatherLimit may be 0: no request is held back.
func gatherLimit(c *peer.Config, v string) error {
	if v == "0" {
		c.Core.GatherLimit = 0
		return nil
	}
	if _, err := positive(v); err != nil {
		return fmt.Errorf("%q: want 0 or a positive whole number", v)
	}
	return duration(func(c *zab.Config) *time.Duration { return &c.GatherLimit })(c, v)
}

func count(field func(*zab.Config) *int) func(*peer.Config, string) error {
	return func(c *peer.Config, v string) error {
		n, err := positive(v)
		*field(&c.Core) = int(n)
		return err
	}
}

func size(field func(*peer.Config) *int64) func(*peer.Config, string) error {
	return func(c *peer.Config, v string) error {
		n, err := positive(v)
		*field(c) = n
		return err
	}
}

// ioUring says whether files may be synced through io_uring.
func ioUring(c *peer.Config, v string) error {
	switch v {
	case "true":
	case "false":
		c.Disk = env.OSDisk{}
	default:
		return fmt.Errorf("%q: want true or false", v)
	}
	return nil
}
