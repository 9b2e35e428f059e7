package load

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The workloads.
const (
	Get      = "get"      // getData of one of Keys znodes of Size bytes
	Set      = "set"      // setData of Size bytes on one of Keys znodes
	Exists   = "exists"   // exists on one of Keys znodes
	Children = "children" // getChildren of a znode with ten
	Create   = "create"   // create of a new znode of Size bytes
	Mixed    = "mixed"    // set with the probability WriteRatio, else get
	Multi    = "multi"    // one multi of MultiOps sets
	Fill     = "fill"     // create until Count znodes of Size bytes are there, a thousand below each parent
	Watch    = "watch"    // every connection watches every one of Keys znodes; all are set, and the events awaited
	Sessions = "sessions" // connect, closeSession
	Churn    = "churn"    // connect, create an ephemeral, closeSession
)

// Workloads lists them in the order of the help text.
var Workloads = []string{Get, Set, Exists, Children, Create, Mixed, Multi, Fill, Watch, Sessions, Churn}

// meanings says in the help text what each one does.
var meanings = map[string]string{
	Get:      "read one of -keys znodes",
	Set:      "write one of -keys znodes",
	Exists:   "ask whether one of -keys znodes is there",
	Children: "list a znode with ten children",
	Create:   "make a new znode",
	Mixed:    "set in a share of -write-ratio, else get",
	Multi:    "-multi-ops sets in one transaction",
	Fill:     "make -count znodes, a thousand below each parent",
	Watch:    "every connection watches all of -keys znodes; all are set, and the events awaited",
	Sessions: "connect, close the session",
	Churn:    "connect, make an ephemeral, close the session",
}

// maxWaitingBytes bounds what a mixed workload may have in flight on one connection in each direction: a connection writes while it
// does not read, and both ends must not wait for each other's socket buffers.
const maxWaitingBytes = 4 << 20

// Config says what to run. SetDefaults fills in what is zero.
type Config struct {
	Servers    []string // host:port; connections are dealt out in turn
	Workload   string
	Conns      int // connections, 16; for Sessions and Churn how many are opened side by side
	InFlight   int // requests in flight on each connection in a closed loop, 64
	Size       int // bytes of data per znode; -1 is 1024, 0 none
	Keys       int // znodes that are read, written or watched, 1000
	Count      int64
	WriteRatio float64       // of Mixed, 0.1
	MultiOps   int           // 10
	Rate       float64       // requests per second over all connections; 0 is a closed loop
	Duration   time.Duration // of the measurement, 10 s
	Warmup     time.Duration // before it; nothing counts
	Timeout    time.Duration // of a session, and how long a server may say nothing, 30 s
	Root       string        // znode below which everything happens; must not exist unless its parent run was kept
	Chroot     string        // existing znode that Root is below, "" for none
	Keep       bool          // leave the znodes there
	Dial       Dialer        // how to connect, plain TCP

	Pids     []int         // the servers' processes, if they run here
	Progress io.Writer     // one line per ProgressEvery; nil for none
	Every    time.Duration // between progress lines, 1 s
}

// SetDefaults replaces zero values.
func (c *Config) SetDefaults() {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Conns, 16)
	def(&c.InFlight, 64)
	def(&c.Keys, 1000)
	def(&c.MultiOps, 10)
	if c.Size < 0 {
		c.Size = 1024
	}
	if c.WriteRatio == 0 {
		c.WriteRatio = 0.1
	}
	if c.Duration == 0 {
		c.Duration = 10 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	if c.Count > 0 && c.Workload != Watch {
		c.Conns = int(min(int64(c.Conns), c.Count)) // each has at least one request
	}
	if c.Root == "" {
		c.Root = fmt.Sprintf("/zkbench-%x", time.Now().UnixNano())
	}
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(c.Servers) == 0, "no server is given")
	bad(!slices.Contains(Workloads, c.Workload), "unknown workload %q: want one of %s", c.Workload, strings.Join(Workloads, ", "))
	bad(c.Conns < 1 || c.Conns > 1_000_000, "%d connections", c.Conns)
	bad(c.InFlight < 1 || c.InFlight > 1<<16, "%d requests in flight: want 1 to 65536", c.InFlight)
	bad(c.Size > 16<<20, "%d bytes per znode", c.Size)
	bad(c.Keys < 1 || c.Keys > 100_000_000, "%d keys", c.Keys)
	bad(c.WriteRatio < 0 || c.WriteRatio > 1, "write ratio %v: want 0 to 1", c.WriteRatio)
	bad(c.MultiOps < 1 || c.MultiOps > 10_000, "%d ops in a multi", c.MultiOps)
	bad(c.Rate < 0, "rate %v", c.Rate)
	bad(c.Count < 0, "count %d", c.Count)
	bad(c.Rate > 0 && slices.Contains([]string{Watch, Sessions, Churn, Fill}, c.Workload), "%s has no open loop", c.Workload)
	bad(c.Workload == Fill && c.Count < 1, "fill needs a count")
	bad(c.Workload == Mixed && c.InFlight*c.Size > maxWaitingBytes, "%d × %d bytes in flight per connection, at most %d", c.InFlight, c.Size,
		maxWaitingBytes)
	bad(!strings.HasPrefix(c.Root, "/") || strings.HasSuffix(c.Root, "/"), "root %q is no path of a znode", c.Root)
	return errors.Join(errs...)
}
