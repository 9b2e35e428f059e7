package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// Replicator is how the edge sees replication. No method blocks, and none calls back into this package before it returned: they
// are called with the locks of a connection held, because the order of the calls is the order of the client's requests.
type Replicator interface {
	// Submit hands over writes. Each comes back applied or refused, or its role ends first. acts says that the caller goes on to Act as
	// soon as it holds no lock; it saves the hop to the goroutine that would else act on them.
	Submit(reqs []txn.Request, acts bool)
	// Act acts on what was submitted. It may call back into this package, Server.Freeze included: it is called without locks, and not by
	// the writer of a connection.
	Act()
	// Sync asks for a leadership round; Server.Synced answers.
	Sync(id uint64)
	// Revalidate asks for a session; Server.Revalidated answers.
	Revalidate(ask zab.Revalidate)
	// Status is a picture of the moment. It may be called from any goroutine.
	Status() zab.Status
}

// Metric is one more line of mntr.
type Metric struct {
	Name  string // with its zk_ prefix
	Value string
}

// Config is what the edge needs to know. Zero fields are replaced by their default where one is named.
type Config struct {
	// SelfID is this server's id; 1 to 254 (1 when it stands alone).
	SelfID zab.ServerID
	// TickTime is the unit of session expiry. Default 3 s, at least 10 ms.
	TickTime time.Duration
	// MinSessionTimeout and MaxSessionTimeout bound what clients ask for. Default 2 and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration
	// MaxClientCnxns bounds connections per source address. Default 60; negative: no bound (what 0 is in zoo.cfg).
	MaxClientCnxns int
	// MaxConns bounds client connections altogether. 0: no bound.
	MaxConns int
	// MaxHandshaking bounds connections that have not shaken hands yet; one more costs the oldest of them its place. Default 4096.
	MaxHandshaking int
	// MaxFrame is jute.maxbuffer, the longest frame from a client in bytes. Default 1048575, at least 1024, at most 256 MiB.
	MaxFrame int
	// GlobalOutstanding is how many writes may be under way before connections that wait for an answer are no longer read.
	// Default 400 (ADR 0022).
	GlobalOutstanding int
	// MaxInFlight is how many requests of one connection may wait before it is no longer read. Default 1000, at least 1.
	MaxInFlight int
	// OutstandingBytes is GlobalOutstanding in bytes of the writes' records, and how many bytes of requests may wait for one connection.
	// Default 8 MiB: the servers of an ensemble together stay below what a leader lets in (zkd.maxPendingBytes).
	OutstandingBytes int
	// MaxUnsent is how many bytes of replies and notifications may wait for a client that does not read before it is cut off.
	// Default 16 MiB, at least 64 KiB. A reply of a larger size passes if nothing else waits.
	MaxUnsent int
	// HandshakeTimeout is how long a connection may take to shake hands. Default 10 s.
	HandshakeTimeout time.Duration
	// RequestTimeout is how long a connection may wait for the outcome of its oldest write or sync before it is closed, counted from the
	// reply before. Default 5 ticks.
	RequestTimeout time.Duration
	// ClientHold is how long connections are held over a change of role. Default 1 s; at most a third of MinSessionTimeout, to
	// which it is cut.
	ClientHold time.Duration
	// DrainTime is how long a change of role waits for replies that are being written. Default 10 ms.
	DrainTime time.Duration
	// FourLetterWhitelist holds the words that are answered; "*" means all. nil: the cheap ones.
	FourLetterWhitelist []string
	// SuperDigest is the digest id (super:base64) whose owner passes every access check. Empty: nobody does.
	SuperDigest string
	// LocalSessions opens sessions that only this server knows. The Replica's machine must be told too.
	LocalSessions bool
	// UpgradeSessions makes a local session known to all when it creates its first ephemeral; without it that is refused.
	UpgradeSessions bool
	// ReadOnlyMode serves reads to clients that accept it while this server finds no leader.
	ReadOnlyMode bool
	// Version is what srvr and mntr call this server; letters, digits, points and hyphens. Default "3.9.5-zkd".
	Version string
	// Built is when; for display behind the version.
	Built time.Time
	// FadeEvery is how often a leader looks for containers and znodes with a time to live whose time is over. Default 60 s.
	FadeEvery time.Duration
	// FadePerMinute bounds how many of them are deleted. Default 10000.
	FadePerMinute int
	// NeverUsed is how long a container is kept that never had a child. 0: for ever.
	NeverUsed time.Duration
	// Standalone says that there are no other servers; it is for display.
	Standalone bool
	// ClientPort and DataDir, SnapDir are for display.
	ClientPort       int
	DataDir, SnapDir string
	// Settings are further lines of conf, in order: "key=value".
	Settings []string
	// Now is the monotonic clock that zab.Instant uses. Required.
	Now func() time.Duration
	// Wall is the calendar's time. Required.
	Wall func() time.Time
	// Extra gives further lines for mntr. nil: none.
	Extra func() []Metric
}

// defaultWords are the four-letter words that cost little and tell nothing secret.
var defaultWords = []string{"ruok", "srvr", "stat", "mntr", "conf", "cons", "isro", "dump", "envi", "dirs", "wchs"}

// withDefaults returns c with every zero field that has a default filled in.
func (c Config) withDefaults() Config {
	def(&c.TickTime, 3*time.Second)
	def(&c.MinSessionTimeout, 2*c.TickTime)
	def(&c.MaxSessionTimeout, 20*c.TickTime)
	def(&c.MaxClientCnxns, 60)
	def(&c.MaxHandshaking, 4096)
	def(&c.MaxFrame, proto.DefaultMaxFrame)
	def(&c.GlobalOutstanding, 400)
	def(&c.MaxInFlight, 1000)
	def(&c.OutstandingBytes, 8<<20)
	def(&c.MaxUnsent, 16<<20)
	def(&c.HandshakeTimeout, 10*time.Second)
	def(&c.RequestTimeout, 5*c.TickTime)
	def(&c.ClientHold, time.Second)
	c.ClientHold = min(c.ClientHold, c.MinSessionTimeout/3)
	def(&c.DrainTime, 10*time.Millisecond)
	def(&c.Version, "3.9.5-zkd")
	def(&c.FadeEvery, time.Minute)
	def(&c.FadePerMinute, 10_000)
	if c.FourLetterWhitelist == nil {
		c.FourLetterWhitelist = defaultWords
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every fault at once, after defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.SelfID >= 1 && c.SelfID <= 254, "server id %d: want 1 to 254", c.SelfID)
	check(c.TickTime >= 10*time.Millisecond, "tickTime %v: want at least 10ms", c.TickTime)
	check(c.MinSessionTimeout >= time.Millisecond, "minSessionTimeout %v: want at least 1ms", c.MinSessionTimeout)
	check(c.MaxSessionTimeout >= c.MinSessionTimeout, "maxSessionTimeout %v is below minSessionTimeout %v", c.MaxSessionTimeout, c.MinSessionTimeout)
	check(c.MaxSessionTimeout <= 1<<31*time.Millisecond-1, "maxSessionTimeout %v: want less than 2^31 ms", c.MaxSessionTimeout)
	check(c.MaxConns >= 0, "maxCnxns %d: want 0 or more", c.MaxConns)
	check(c.MaxHandshaking > 0, "bound on handshakes %d: want more than 0", c.MaxHandshaking)
	check(c.MaxFrame >= 1024 && c.MaxFrame <= 256<<20, "jute.maxbuffer %d: want 1024 to %d", c.MaxFrame, 256<<20)
	check(c.GlobalOutstanding > 0, "globalOutstandingLimit %d: want more than 0", c.GlobalOutstanding)
	check(c.OutstandingBytes > 0, "bytes outstanding %d: want more than 0", c.OutstandingBytes)
	check(c.MaxInFlight > 0, "requests in flight %d: want more than 0", c.MaxInFlight)
	check(c.MaxUnsent >= 64<<10, "bytes unsent %d: want at least %d", c.MaxUnsent, 64<<10)
	check(c.HandshakeTimeout > 0, "handshake timeout %v: want more than 0", c.HandshakeTimeout)
	check(c.RequestTimeout > 0, "request timeout %v: want more than 0", c.RequestTimeout)
	check(c.FadeEvery >= time.Millisecond, "container check interval %v: want at least 1ms", c.FadeEvery)
	check(c.FadePerMinute > 0, "containers per minute %d: want more than 0", c.FadePerMinute)
	check(c.NeverUsed >= 0, "interval of unused containers %v: want 0 or more", c.NeverUsed)
	check(c.ClientHold > 0, "client hold %v: want more than 0", c.ClientHold)
	check(c.Now != nil && c.Wall != nil, "no clock given")
	return errors.Join(errs...)
}
