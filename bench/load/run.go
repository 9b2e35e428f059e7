package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// Result is what a run found. Ops counts requests that were answered while it measured: for Watch events, for Sessions and Churn
// whole lives of a session.
type Result struct {
	Workload   string           `json:"workload"`
	Conns      int              `json:"conns"`
	InFlight   int              `json:"inFlight"`
	Size       int              `json:"size"`
	Keys       int              `json:"keys"`
	Target     float64          `json:"targetRate,omitempty"` // of an open loop
	Ops        int64            `json:"ops"`
	Errors     map[string]int64 `json:"errors,omitempty"`     // by name, over the whole run; they are among Ops
	Unanswered int64            `json:"unanswered,omitempty"` // of an open loop that asked for more than was to be had; among Latency, not Ops
	Seconds    float64          `json:"seconds"`
	Rate       float64          `json:"opsPerSecond"`
	Latency    Latency          `json:"latencyMicros"`
	Silence    float64          `json:"longestSilenceMicros,omitempty"` // of an open loop: the longest time without a reply on any connection
	ClientCPU  float64          `json:"clientCPUMicrosPerOp"`
	LastEvent  *Latency         `json:"lastEventMicros,omitempty"` // Watch: the last event of each round
	// Of the servers whose pids were given, added up.
	ServerCPU float64 `json:"serverCPUMicrosPerOp,omitempty"`
	RSSBefore int64   `json:"rssBytesBefore,omitempty"` // when the measurement began
	RSSAfter  int64   `json:"rssBytesAfter,omitempty"`

	Hist *Histogram `json:"-"`
}

// Latency is in microseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func latencyOf(h *Histogram) Latency {
	return Latency{Mean: micros(h.Mean()), P50: micros(h.Quantile(0.5)), P99: micros(h.Quantile(0.99)), P999: micros(h.Quantile(0.999)),
		Max: micros(h.Max())}
}

// Run makes what the workload needs, warms up, measures, and removes what it made.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	switch cfg.Workload {
	case Watch:
		return runWatch(ctx, &cfg)
	case Sessions, Churn:
		return runSessions(ctx, &cfg)
	}
	return runRequests(ctx, &cfg)
}

// runRequests is for the workloads that send requests on standing connections.
func runRequests(ctx context.Context, cfg *Config) (*Result, error) {
	conns, err := dialAll(ctx, cfg, cfg.Conns)
	defer func() { leave(conns) }()
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.nc.Close()
		}
	})()
	if err := prepare(cfg, conns); err != nil {
		return nil, fmt.Errorf("make the znodes: %w", err)
	}
	m := newMeter(cfg)
	lanes := make([]*lane, len(conns))
	for i, c := range conns {
		lanes[i] = &lane{id: i, cfg: cfg, clock: m.clock, c: c, data: payload(cfg.Size), keys: cfg.Root + "/k", parent: cfg.Root + "/c"}
		if cfg.Rate > 0 {
			lanes[i].silence = &m.silence
		}
		if cfg.Count > 0 {
			lanes[i].want = share(cfg.Count, i, len(conns))
		}
		m.counters = append(m.counters, &lanes[i].ops)
	}
	res, err := m.run(ctx, func() {
		var wg sync.WaitGroup
		for _, l := range lanes {
			wg.Go(l.run)
		}
		wg.Wait()
	})
	if err != nil {
		return nil, err
	}
	if err := res.collect(ctx, lanes); err != nil {
		return nil, err
	}
	res.Silence = micros(time.Duration(m.silence.longest.Load()))
	if cfg.Keep {
		return res, nil
	}
	if res.Unanswered > 0 { // the lanes' connections are full of them
		if lanes[0].c, err = cfg.Dial.open(ctx, cfg.Servers[0], cfg.Timeout, 0, nil); err != nil {
			return res, err
		}
		defer leave([]*conn{lanes[0].c})
	}
	return res, cleanUp(cfg, lanes)
}

// share is the i-th of n parts of total.
func share(total int64, i, n int) int64 {
	s := total / int64(n)
	if int64(i) < total%int64(n) {
		s++
	}
	return s
}

// collect adds up what the lanes found.
func (res *Result) collect(ctx context.Context, lanes []*lane) error {
	var errs []error
	for _, l := range lanes {
		res.Hist.Merge(&l.hist)
		res.Unanswered += l.unanswered
		for code, n := range l.errs {
			res.Errors[code.Name()] += n
		}
		if l.failed != nil {
			errs = append(errs, fmt.Errorf("connection %d: %w", l.id, l.failed))
		}
	}
	res.Latency = latencyOf(res.Hist)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(errs) > 3 {
		errs = append(errs[:3], fmt.Errorf("and %d more", len(errs)-3))
	}
	return errors.Join(errs...)
}

// dialAll opens n connections, dealt out over the servers.
func dialAll(ctx context.Context, cfg *Config, n int) ([]*conn, error) {
	const atOnce = 64
	conns := make([]*conn, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for w := range min(atOnce, n) {
		wg.Go(func() {
			for i := w; i < n; i += atOnce {
				conns[i], errs[i] = cfg.Dial.open(ctx, cfg.Servers[i%len(cfg.Servers)], cfg.Timeout, 0, nil)
				if errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	conns = slices.DeleteFunc(conns, func(c *conn) bool { return c == nil })
	if err := errors.Join(errs...); err != nil {
		return conns, &dialError{err}
	}
	return conns, nil
}

// dialError is that not all connections could be opened, so that nothing was made on the servers.
type dialError struct{ err error }

func (e *dialError) Unwrap() error { return e.err }

// Error has each reason once, however many connections have it.
func (e *dialError) Error() string {
	lines := strings.Split(e.err.Error(), "\n")
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

func payload(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// prepare makes the znodes that the workload works on.
func prepare(cfg *Config, conns []*conn) error {
	first := conns[0]
	if err := first.create(cfg.Root, nil); err != nil && !errors.Is(err, proto.ErrNodeExists) {
		return fmt.Errorf("%s: %w", cfg.Root, err)
	}
	if err := makeWhatIsUsed(cfg, first); err != nil {
		return fmt.Errorf("below %s: %w", cfg.Root, err)
	}
	return settle(conns)
}

func makeWhatIsUsed(cfg *Config, c *conn) error {
	switch cfg.Workload {
	case Children:
		if err := c.create(cfg.Root+"/c", nil); err != nil {
			return err
		}
		return c.pipeline(tenChildren, createRequest(c, cfg.Root+"/c/n", payload(cfg.Size)), nil)
	case Create:
		return c.create(cfg.Root+"/c", nil)
	case Fill:
		return c.pipeline(fillParents(cfg), func(dst []byte, i int) []byte {
			return c.createFrame(dst, fillParent(cfg.Root, int64(i)*fillFanout), nil)
		}, nil)
	case Churn, Sessions:
		return nil
	default:
		return makeKeys(cfg, c)
	}
}

const tenChildren = 10

func fillParents(cfg *Config) int { return int((cfg.Count + fillFanout - 1) / fillFanout) }

func makeKeys(cfg *Config, c *conn) error {
	return c.pipeline(cfg.Keys, createRequest(c, cfg.Root+"/k", payload(cfg.Size)), nil)
}

// settle waits until every connection's server has applied what was written before.
func settle(conns []*conn) error {
	for _, o := range conns {
		if r, err := o.call(proto.OpSync, func(dst []byte) []byte { return proto.AppendString(dst, "/") }); err != nil || r.err != proto.OK {
			return errors.Join(err, r.err.Err())
		}
	}
	return nil
}

func (c *conn) createFrame(dst []byte, path string, data []byte) []byte {
	dst, mark := c.begin(dst, proto.OpCreate)
	dst = proto.AppendBuffer(proto.AppendString(dst, path), data)
	return proto.EndFrame(proto.AppendInt32(append(dst, openACL...), int32(proto.FlagPersistent)), mark)
}

func (c *conn) create(path string, data []byte) error {
	c.nc.SetDeadline(time.Now().Add(c.timeout))
	defer c.nc.SetDeadline(time.Time{})
	if _, err := c.nc.Write(c.createFrame(nil, path, data)); err != nil {
		return err
	}
	r, err := c.answer()
	return errors.Join(err, r.err.Err())
}

// createRequest makes creates of prefix and a number.
func createRequest(c *conn, prefix string, data []byte) func([]byte, int) []byte {
	return func(dst []byte, i int) []byte {
		dst, mark := c.begin(dst, proto.OpCreate)
		dst = proto.AppendBuffer(appendPath(dst, prefix, int64(i)), data)
		return proto.EndFrame(proto.AppendInt32(append(dst, openACL...), int32(proto.FlagPersistent)), mark)
	}
}
