package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/zab"
)

// Scenario is everything that a run is made of: the seed that draws delays and choices, the shape of the ensemble, the limits, and the
// schedule of faults as data. Swarm makes one from a seed; Parse reads one that a person or the shrinker wrote.
type Scenario struct {
	Seed      uint64
	Nodes     int // voters
	Observers int
	Clients   int
	Rate      time.Duration // mean time between requests of one client
	Depth     int           // requests of a client under way, at most
	Watches   int           // one read in so many leaves a watch; 0: none does
	Net       time.Duration // typical delay one way; 0: 300 µs
	DiskDelay time.Duration // typical time of a disk operation; 0: 1 ms
	Drift     float64       // of clocks, a fraction
	Length    time.Duration // of the part with faults
	Budgeted  bool          // then everything is healed and must come together again
	Limits    Limits
	Steps     []Step
	Expect    string // "ok" or the id of the invariant that must break; empty: ok
}

// Limits are what a seed may shrink so that rare paths are taken often.
type Limits struct {
	Segment      int64 // bytes of a log segment
	SnapTxns     int
	Demand       int // beside one snapshot in so many another is demanded, and the state is not ready for all of them; 0: never
	RetainSnaps  int
	RetainLog    int64
	Chunk        int64 // bytes of one piece of a snapshot
	Tail         int   // bytes of log in memory
	Inflight     int   // records sent to a learner and not acked
	BatchCount   int
	MaxPending   int
	Bytes        int // of one batch, and twice that under way to a learner
	DiffMin      int64
	LazyLoop     time.Duration // now and then a loop runs so late
	CounterSoft  uint32
	CounterHard  uint32
	FinalizeWait time.Duration // negative: none
	InitLimit    int           // ticks, of a second
	HbInterval   time.Duration // between pings
	Gather       time.Duration // how long a leader holds requests back at most; negative: not at all
}

// Step is one line of a schedule: something that is done at a moment, or, with At < 0, when the line before it is done.
type Step struct {
	At   time.Duration
	Verb string
	Args []string
}

func (s Step) String() string {
	line := strings.TrimSpace(s.Verb + " " + strings.Join(s.Args, " "))
	if s.At >= 0 {
		return "at " + s.At.String() + " " + line
	}
	return line
}

func (sc *Scenario) deepEvery() int { return 400 }

// defaults fills in what is zero.
func (sc *Scenario) defaults() {
	l := &sc.Limits
	set := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	setInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.Segment, 64<<10)
	set(&l.RetainLog, 64<<10)
	set(&l.Chunk, 4<<10)
	set(&l.DiffMin, 64<<10)
	setInt(&l.SnapTxns, 200)
	setInt(&l.RetainSnaps, 2)
	setInt(&l.Tail, 64<<10)
	setInt(&l.Inflight, 1000)
	setInt(&l.BatchCount, 1000)
	setInt(&l.MaxPending, 1000)
	setInt(&sc.Nodes, 3)
	setInt(&sc.Depth, 1)
	if sc.Rate == 0 {
		sc.Rate = 100 * time.Millisecond
	}
	if l.CounterSoft == 0 {
		l.CounterSoft = 0xF0000000
	}
	if l.CounterHard == 0 {
		l.CounterHard = 0xFFFFFF00
	}
}

// coreConfig is a server's configuration under this scenario.
func (w *World) coreConfig(n *node) zab.Config {
	l := &w.sc.Limits
	cfg := zab.DefaultConfig()
	cfg.Self, cfg.Members = n.id, w.members
	cfg.ClusterID, cfg.Seed = n.draw(), n.draw()
	for range 4 {
		cfg.Secret = append(cfg.Secret, fmt.Sprintf("%08x", n.rng.Uint32())...)
	}
	cfg.TickTime = time.Second
	cfg.TailBytes, cfg.InflightCount, cfg.BatchCount, cfg.MaxPending = l.Tail, l.Inflight, l.BatchCount, l.MaxPending
	cfg.InflightBytes, cfg.BatchBytes = 1<<20, 64<<10
	if l.Bytes > 0 {
		cfg.InflightBytes, cfg.BatchBytes = 2*l.Bytes, l.Bytes
	}
	cfg.DiffMinBytes = l.DiffMin
	cfg.ReepochGap = 10 * time.Second // a run is not long enough for a minute
	cfg.CounterSoft, cfg.CounterHard = l.CounterSoft, l.CounterHard
	if l.HbInterval > 0 {
		cfg.HbInterval = l.HbInterval
	}
	if l.InitLimit > 0 {
		cfg.InitLimit = l.InitLimit
	}
	if l.Gather != 0 {
		cfg.GatherLimit = max(l.Gather, 0)
	}
	if l.FinalizeWait < 0 {
		cfg.FinalizeWait = 0
	} else if l.FinalizeWait > 0 {
		cfg.FinalizeWait = l.FinalizeWait
	}
	return cfg
}

// setting is one number of a scenario that its text can name.
type setting struct {
	name string
	get  func() string
	set  func(string) error
}

func intSetting[T int | int64 | uint32](name string, v *T) setting {
	return setting{name, func() string { return strconv.FormatInt(int64(*v), 10) }, func(s string) error {
		n, err := strconv.ParseInt(s, 0, 64)
		*v = T(n)
		return err
	}}
}

func timeSetting(name string, v *time.Duration) setting {
	return setting{name, v.String, func(s string) (err error) {
		*v, err = time.ParseDuration(s)
		return err
	}}
}

func (sc *Scenario) settings() []setting {
	l := &sc.Limits
	return []setting{
		intSetting("nodes", &sc.Nodes), intSetting("observers", &sc.Observers), intSetting("clients", &sc.Clients),
		timeSetting("rate", &sc.Rate), intSetting("depth", &sc.Depth), intSetting("watches", &sc.Watches), timeSetting("net", &sc.Net), timeSetting("disk", &sc.DiskDelay),
		{"drift", func() string { return strconv.FormatFloat(sc.Drift, 'g', -1, 64) }, func(s string) (err error) {
			sc.Drift, err = strconv.ParseFloat(s, 64)
			return err
		}},
		timeSetting("length", &sc.Length), intSetting("segment", &l.Segment), intSetting("snaptxns", &l.SnapTxns), intSetting("demand", &l.Demand),
		intSetting("retainsnaps", &l.RetainSnaps), intSetting("retainlog", &l.RetainLog), intSetting("chunk", &l.Chunk),
		intSetting("tail", &l.Tail), intSetting("inflight", &l.Inflight), intSetting("batch", &l.BatchCount),
		intSetting("maxpending", &l.MaxPending), intSetting("bytes", &l.Bytes), intSetting("diffmin", &l.DiffMin), timeSetting("lazyloop", &l.LazyLoop),
		intSetting("countersoft", &l.CounterSoft), intSetting("counterhard", &l.CounterHard), timeSetting("finalizewait", &l.FinalizeWait),
		intSetting("initlimit", &l.InitLimit), timeSetting("hbinterval", &l.HbInterval), timeSetting("gather", &l.Gather),
	}
}

// Write gives the scenario as text that Parse reads.
func (sc *Scenario) Write(out io.Writer) error {
	b := bufio.NewWriter(out)
	fmt.Fprintf(b, "seed 0x%x\n", sc.Seed)
	var zero Scenario
	was := zero.settings()
	for i, s := range sc.settings() {
		if v := s.get(); v != was[i].get() {
			fmt.Fprintf(b, "%s %s\n", s.name, v)
		}
	}
	if sc.Budgeted {
		fmt.Fprintln(b, "budgeted")
	}
	for _, s := range sc.Steps {
		fmt.Fprintln(b, s)
	}
	if sc.Expect != "" {
		fmt.Fprintf(b, "expect %s\n", sc.Expect)
	}
	return b.Flush()
}

// ParseAll reads a schedule file: one scenario, or with a line "vary FROM TO" one for each number, which stands where the text says $.
func ParseAll(in io.Reader) ([]*Scenario, error) {
	b, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(b), "\n")
	from, to := 0, 0
	for i, line := range lines {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "vary" {
			if from, err = strconv.Atoi(f[1]); err == nil {
				to, err = strconv.Atoi(f[2])
			}
			if err != nil || to < from {
				return nil, fmt.Errorf("line %d: vary wants two numbers", i+1)
			}
			lines[i] = ""
		}
	}
	var all []*Scenario
	for n := from; n <= to; n++ {
		sc, err := Parse(strings.NewReader(varied.ReplaceAllString(strings.Join(lines, "\n"), strconv.Itoa(n)+"$1")))
		if err != nil {
			return nil, err
		}
		all = append(all, sc)
	}
	return all, nil
}

// varied is the number's place; $NAME belongs to a repeat.
var varied = regexp.MustCompile(`(?m)\$([^a-z]|$)`)

// Parse reads a scenario. doc.go describes the language.
func Parse(in io.Reader) (*Scenario, error) {
	sc := &Scenario{}
	known := map[string]setting{}
	for _, s := range sc.settings() {
		known[s.name] = s
	}
	lines := bufio.NewScanner(in)
	p := &parser{sc: sc, known: known}
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		for _, part := range strings.Split(text, ";") {
			if err := p.take(part); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	if p.loop != nil {
		return nil, errors.New("a repeat has no end")
	}
	return sc, lines.Err()
}

func (sc *Scenario) line(f []string, known map[string]setting) error {
	if len(f) == 0 {
		return nil
	}
	if s, ok := known[f[0]]; ok && len(f) == 2 {
		return s.set(f[1])
	}
	switch {
	case f[0] == "seed" && len(f) == 2:
		n, err := strconv.ParseUint(f[1], 0, 64)
		sc.Seed = n
		return err
	case f[0] == "budgeted" && len(f) == 1:
		sc.Budgeted = true
		return nil
	case f[0] == "expect" && len(f) == 2 && (f[1] == "ok" || strings.Contains(f[1], "-")):
		sc.Expect = f[1]
		return nil
	}
	st := Step{At: -1}
	if f[0] == "at" && len(f) > 2 {
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		st.At, f = d, f[2:]
	}
	st.Verb, st.Args = f[0], f[1:]
	v, ok := verbs[st.Verb]
	if !ok {
		return fmt.Errorf("unknown word %q", st.Verb)
	}
	if len(st.Args) < v.least {
		return fmt.Errorf("%s wants %s", st.Verb, v.usage)
	}
	sc.Steps = append(sc.Steps, st)
	return nil
}
