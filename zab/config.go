package zab

import (
	"errors"
	"fmt"
	"time"
)

// Config is what the cores need to know: membership, timers, limits (docs/protocol.md §23). DefaultConfig gives the defaults.
type Config struct {
	Self    ServerID
	Members Membership

	// ClusterID and Secret are what this process would found an ensemble with: random, drawn by the shell at each start. They
	// are used only by a leader whose history holds none yet.
	ClusterID uint64
	Secret    []byte
	// Seed feeds the jitter of election delays.
	Seed uint64

	TickTime  time.Duration // unit for InitLimit and SyncLimit; a ping at least each half
	InitLimit int           // ticks to connect and synchronise without progress
	SyncLimit int           // ticks of silence at most

	HbInterval    time.Duration // between pings
	HbTimeout     time.Duration // silence that means loss, both sides; >= 5 × HbInterval
	FinalizeWait  time.Duration // election: wait for a missing voter that could matter
	NotifyMin     time.Duration // first re-broadcast of a vote
	NotifyMax     time.Duration
	DialTimeout   time.Duration // one attempt to connect to a peer; more than a round trip
	ConnectRetry  time.Duration // first retry to the leader's data port; doubles to ConnectMax
	ConnectMax    time.Duration
	ConnectLimit  time.Duration // give up on an elected leader that cannot be reached
	ElectionGap   time.Duration // between repeated failed rounds, with jitter
	Penalty       time.Duration // how long an unreachable candidate is left out
	JoinProbe     time.Duration // direct attempt at a server that says it leads
	EpochWait     time.Duration // leader waits for a quorum of FOLLOWERINFO, then of ACKEPOCH
	ProposalStall time.Duration // oldest unacked proposal
	DiskStall     time.Duration // own fsync
	DiskWarn      time.Duration
	HandoverLimit time.Duration // draining before a handover is given up
	HandoverGrace time.Duration // how long a designated vote holds
	ReepochGap    time.Duration // at least so long between two new epochs for the sake of a stuck voter

	// GatherLimit is how long a leader with few proposals holds requests back at most, to propose more together; 0: not at all.
	GatherLimit time.Duration

	BatchBytes      int // of one PROPOSE frame and of one log batch
	BatchCount      int
	InflightBytes   int // sent to a learner and not acked
	InflightCount   int
	TailBytes       int // memory tail
	MaxPending      int // outstanding proposals
	MaxPendingBytes int
	LagForHandover  int // bytes
	FallBehind      int // bytes that a learner may lack and still be called in step
	DiffMinBytes    int64
	DiffMaxRatio    float64
	MaxSnapSends    int

	CounterSoft, CounterHard uint32
}

// DefaultConfig is for a LAN.
func DefaultConfig() Config {
	return Config{
		TickTime: 2 * time.Second, InitLimit: 10, SyncLimit: 5,
		HbInterval: 100 * time.Millisecond, HbTimeout: time.Second,
		FinalizeWait: 30 * time.Millisecond, NotifyMin: 50 * time.Millisecond, NotifyMax: time.Second,
		DialTimeout: 250 * time.Millisecond, ConnectRetry: 5 * time.Millisecond, ConnectMax: 100 * time.Millisecond, ConnectLimit: time.Second,
		ElectionGap: 200 * time.Millisecond, Penalty: 5 * time.Second, JoinProbe: 300 * time.Millisecond,
		EpochWait: 2 * time.Second, ProposalStall: 3 * time.Second, DiskStall: 2 * time.Second, DiskWarn: 500 * time.Millisecond,
		HandoverLimit: 500 * time.Millisecond, HandoverGrace: 300 * time.Millisecond, ReepochGap: time.Minute,
		GatherLimit: time.Millisecond,
		BatchBytes:  1 << 20, BatchCount: 1000, InflightBytes: 16 << 20, InflightCount: 4096, TailBytes: 32 << 20,
		MaxPending: 10_000, MaxPendingBytes: 64 << 20, LagForHandover: 1 << 20, FallBehind: 256 << 20,
		DiffMinBytes: 256 << 20, DiffMaxRatio: 0.5, MaxSnapSends: 2,
		CounterSoft: 0xF0000000, CounterHard: 0xFFFFFF00,
	}
}

// NewLeaderWait is how long a leader waits for the acks of NEWLEADER, and a learner for its synchronisation, without progress.
func (c *Config) NewLeaderWait() time.Duration { return time.Duration(c.InitLimit) * c.TickTime }

// PingInterval is HbInterval, and half a tick at most.
func (c *Config) PingInterval() time.Duration { return min(c.HbInterval, c.TickTime/2) }

// Silence is how long a peer may say nothing: HbTimeout, SyncLimit ticks at most.
func (c *Config) Silence() time.Duration {
	return min(c.HbTimeout, time.Duration(c.SyncLimit)*c.TickTime)
}

// Validate reports everything that is wrong, joined.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, member := c.Members.Find(c.Self)
	bad(member, "server %d is not in the list of servers", c.Self)
	bad(c.TickTime > 0, "tickTime must be positive")
	bad(c.InitLimit > 0, "initLimit must be positive")
	bad(c.SyncLimit > 0, "syncLimit must be positive")
	bad(c.DialTimeout > 0, "dialTimeout must be positive")
	bad(c.HbInterval > 0, "hbInterval must be positive")
	bad(c.HbTimeout >= 5*c.HbInterval, "hbTimeout (%v) must be at least five times hbInterval (%v)", c.HbTimeout, c.HbInterval)
	bad(c.GatherLimit >= 0, "gatherLimit must not be negative")
	bad(c.BatchBytes > 0 && c.BatchCount > 0, "batch limits must be positive")
	bad(c.InflightBytes > 0 && c.InflightCount > 0, "in-flight limits must be positive")
	bad(c.MaxPending > 0 && c.MaxPendingBytes > 0, "pending limits must be positive")
	bad(c.CounterSoft <= c.CounterHard, "counterSoft must not be above counterHard")
	return errors.Join(errs...)
}
