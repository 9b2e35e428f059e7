package difftest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Campaign is a run of episodes against one pair of servers.
type Campaign struct {
	A, B    Start
	Dir     string // for the servers' files
	Seed    uint64
	Ops     int // requests in all
	Episode int // requests between two cleanings; more than 0
	Options Options
	// Budget bounds how often a failing episode is run again to make it shorter.
	Budget int
	// Differences is how many different ones are looked for before the campaign ends; more than 0.
	Differences int
	Log         io.Writer

	pair     *servers
	reported []string
}

// Result sums up a campaign.
type Result struct {
	Sent        int // requests, handshakes, words
	Episodes    int
	Took        time.Duration
	Meant       map[string]int // chosen differences that showed, and how often
	Differences []string       // one report each
}

func (r *Result) String() string {
	rate := float64(r.Sent) / max(r.Took.Seconds(), 0.001)
	text := fmt.Sprintf("%d operations in %d episodes, %s, %.0f/s, %d differences", r.Sent, r.Episodes, r.Took.Round(time.Second/10), rate, len(r.Differences))
	for _, name := range slices.Sorted(maps.Keys(r.Meant)) {
		text += fmt.Sprintf("; %d times meant: %s", r.Meant[name], name)
	}
	return text
}

// servers is a pair of running servers.
type servers struct{ a, b *Server }

func (s *servers) stop() {
	s.a.Stop()
	s.b.Stop()
}

// fresh returns servers without history, which the campaign stops.
func (c *Campaign) fresh(ctx context.Context) error {
	c.stop()
	a, err := c.A(ctx, c.Dir)
	if err != nil {
		return err
	}
	b, err := c.B(ctx, c.Dir)
	if err != nil {
		a.Stop()
		return err
	}
	c.pair = &servers{a, b}
	return nil
}

func (c *Campaign) stop() {
	if c.pair != nil {
		c.pair.stop()
		c.pair = nil
	}
}

// failure is where an episode stopped.
type failure struct {
	at      int // index of the step
	diff    *difference
	history []exchange
}

// key names the cause well enough not to report it twice in one campaign.
func (f *failure) key(steps []step) string {
	ops := ""
	if s := steps[f.at]; len(s.requests) > 0 && s.act == doBurst {
		ops = s.requests[len(s.requests)-1].op.String()
	}
	return ops + " " + f.diff.Field
}

// episode takes the steps and cleans up behind them. An error means that a server is gone.
func (c *Campaign) episode(ctx context.Context, steps []step, res *Result) (*failure, error) {
	r := newRunner(c.pair.a.addr, c.pair.b.addr, c.Options.Ensemble)
	defer r.close()
	defer func() {
		res.Sent += r.sent
		for name, n := range r.meant {
			res.Meant[name] += n
		}
	}()
	for i, s := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := r.take(s)
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w\n%s\n%s", i, s, err, c.pair.a.tails(), c.pair.b.tails())
		}
		if d != nil {
			return &failure{i, d, r.history}, nil
		}
	}
	var keys [2][]sessionKey
	for i := range r.clients {
		for side, key := range r.clients[i].keys {
			if key.id != 0 {
				keys[side] = append(keys[side], key)
			}
		}
	}
	r.close()
	for side, s := range []*Server{c.pair.a, c.pair.b} {
		if err := clean(s.addr, keys[side]); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil, nil
}

func (s *Server) tails() string {
	var b strings.Builder
	for _, p := range s.procs {
		fmt.Fprintf(&b, "log of %s: %s\n", s.Name, p.tail())
	}
	return b.String()
}

// Run takes episodes until so many requests are made or so many differences found. The error is about servers that do not
// start or break down.
func (c *Campaign) Run(ctx context.Context) (*Result, error) {
	res := &Result{Meant: map[string]int{}}
	began := time.Now()
	defer func() { res.Took = time.Since(began) }()
	defer c.stop()
	if err := c.fresh(ctx); err != nil {
		return res, err
	}
	fmt.Fprintf(c.Log, "A is %s, B is %s\n", c.pair.a.Name, c.pair.b.Name)
	for seed := c.Seed; res.Sent < c.Ops && len(res.Differences) < c.Differences; seed++ {
		steps := newGenerator(seed, c.Options).steps(min(c.Episode, c.Ops-res.Sent))
		f, err := c.episode(ctx, steps, res)
		res.Episodes++
		if err != nil {
			return res, fmt.Errorf("seed %d: %w", seed, err)
		}
		if f == nil {
			continue
		}
		if key := f.key(steps); !slices.Contains(c.reported, key) {
			c.reported = append(c.reported, key)
			report, err := c.report(ctx, seed, steps, f)
			if err != nil {
				return res, err
			}
			fmt.Fprintln(c.Log, report)
			res.Differences = append(res.Differences, report)
		}
		if err := c.fresh(ctx); err != nil {
			return res, err
		}
	}
	return res, nil
}

// report shortens a failing episode and writes down how it goes.
func (c *Campaign) report(ctx context.Context, seed uint64, steps []step, f *failure) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, step %d of %d: %s\n", seed, f.at, len(steps), f.diff)
	steps = steps[:f.at+1]
	dirty := true
	var last *failure
	var broken error
	fails := func(part []step) bool {
		if broken != nil {
			return false
		}
		if dirty {
			if broken = c.fresh(ctx); broken != nil {
				return false
			}
		}
		var ignored Result
		ignored.Meant = map[string]int{}
		got, err := c.episode(ctx, part, &ignored)
		dirty = got != nil || err != nil
		if got == nil || got.diff.Field != f.diff.Field {
			return false
		}
		last = got
		return true
	}
	if c.Budget > 0 {
		if !fails(steps) {
			fmt.Fprintf(&b, "  not seen again on fresh servers; as it happened:\n")
			last = f
		} else {
			steps = shrink(steps, c.Budget, fails)
			steps = shrinkBursts(steps, c.Budget/3, fails)
			fmt.Fprintf(&b, "  in %d steps on fresh servers:\n", len(steps))
		}
	} else {
		last = f
	}
	for _, e := range last.history {
		fmt.Fprintf(&b, "  %s", e)
	}
	fmt.Fprintf(&b, "  => %s\n", last.diff)
	return b.String(), broken
}
