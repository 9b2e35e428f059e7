package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// runWatch runs rounds of the fan-out. In each, every one of Conns connections sets a watch on every one of Keys znodes; when all are
// armed a further connection sets all the znodes, and the round is over when the last of Conns × Keys events has come. Latency is from
// the moment the round's sets were made to each event; Ops and Rate count events, in the time between arming: Seconds is the rounds'
// time alone. RSSBefore is without watches, RSSAfter with those of the first round.
func runWatch(ctx context.Context, cfg *Config) (*Result, error) {
	conns, err := dialAll(ctx, cfg, cfg.Conns+1)
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
	w := &fanOut{cfg: cfg, writer: conns[0], conns: conns[1:], hists: make([]Histogram, len(conns)-1)}
	if w.poll = newPoller(w.conns); w.poll != nil {
		defer w.poll.close()
	}
	m := newMeter(cfg)
	m.counters = append(m.counters, &w.events)
	var failed error
	res, err := m.run(ctx, func() { failed = w.rounds(ctx, &m.clock) })
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	w.into(res)
	if cfg.Keep {
		return res, nil
	}
	return res, cleanUp(cfg, []*lane{{cfg: cfg, c: w.writer}})
}

type fanOut struct {
	cfg    *Config
	writer *conn
	conns  []*conn
	poll   *poller // nil: a goroutine waits for each connection
	events atomic.Int64

	hists    []Histogram // one per connection
	last     Histogram   // the last event of each round
	counted  int64       // events in measured rounds
	spent    time.Duration
	cpu      time.Duration // of the servers in measured rounds, from the first set to the last event
	rss0     int64
	rssArmed int64
}

func (w *fanOut) rounds(ctx context.Context, k *clock) error {
	before, err := ProcessUsage(w.cfg.Pids)
	if err != nil {
		return err
	}
	w.rss0 = before.RSS
	for n := int64(0); w.cfg.Count == 0 || n < w.cfg.Count; n++ {
		if k.now() >= k.end && w.counted > 0 || ctx.Err() != nil {
			return nil
		}
		if err := w.round(ctx, k); err != nil {
			return fmt.Errorf("round %d: %w", n+1, err)
		}
	}
	return nil
}

// each runs f for every watching connection at once.
func (w *fanOut) each(f func(i int, c *conn) error) error {
	errs := make([]error, len(w.conns))
	var wg sync.WaitGroup
	for i, c := range w.conns {
		wg.Go(func() { errs[i] = f(i, c) })
	}
	wg.Wait()
	return firstError(errs...)
}

func (w *fanOut) round(ctx context.Context, k *clock) error {
	arm := func(_ int, c *conn) error {
		return c.pipeline(w.cfg.Keys, func(dst []byte, i int) []byte {
			dst, mark := c.begin(dst, proto.OpExists)
			return proto.EndFrame(append(appendPath(dst, w.cfg.Root+"/k", int64(i)), 1), mark)
		}, nil)
	}
	if err := w.each(arm); err != nil {
		return fmt.Errorf("set the watches: %w", err)
	}
	before, err := ProcessUsage(w.cfg.Pids)
	if err != nil {
		return err
	}
	if w.rssArmed == 0 {
		w.rssArmed = before.RSS
	}
	measured := k.now() >= k.begin // a round that began in time may end late, so there is at least one
	start := time.Now()
	var wg sync.WaitGroup
	var setting error
	wg.Go(func() { setting = w.setAll() })
	if w.poll != nil {
		err = w.awaitAll(ctx, start, measured)
	} else {
		err = w.each(func(i int, c *conn) error { return w.await(i, c, start, measured) })
	}
	took := time.Since(start)
	wg.Wait()
	if err = errors.Join(err, setting); err != nil || !measured {
		return err
	}
	after, err := ProcessUsage(w.cfg.Pids)
	w.last.Record(took)
	w.spent += took
	w.cpu += after.CPU - before.CPU
	w.counted += int64(len(w.conns) * w.cfg.Keys)
	return err
}

func (w *fanOut) setAll() error {
	data := payload(w.cfg.Size)
	return w.writer.pipeline(w.cfg.Keys, func(dst []byte, i int) []byte {
		dst, mark := w.writer.begin(dst, proto.OpSetData)
		dst = proto.AppendBuffer(appendPath(dst, w.cfg.Root+"/k", int64(i)), data)
		return proto.EndFrame(proto.AppendInt32(dst, -1), mark)
	}, nil)
}

// await reads one connection's events.
func (w *fanOut) await(i int, c *conn, start time.Time, measured bool) error {
	c.nc.SetReadDeadline(time.Now().Add(w.cfg.Timeout))
	for n := 0; n < w.cfg.Keys; {
		f, err := c.frame()
		if err != nil {
			return fmt.Errorf("%d of %d events: %w", n, w.cfg.Keys, err)
		}
		event, err := w.take(i, f, start, measured)
		if err != nil {
			return err
		}
		n += event
	}
	return nil
}

// take counts a frame if it is an event, and returns 1 then.
func (w *fanOut) take(i int, frame []byte, start time.Time, measured bool) (int, error) {
	r, err := parseReply(frame)
	if err != nil || r.xid != proto.XidNotification {
		return 0, err
	}
	w.events.Add(1)
	if measured {
		w.hists[i].Record(time.Since(start))
	}
	return 1, nil
}

// pollEvery is how long awaitAll waits before it looks at the clock.
const pollEvery = 100 * time.Millisecond

// awaitAll reads all connections' events on one goroutine: a thousand that are woken for one event each cost more than the servers.
func (w *fanOut) awaitAll(ctx context.Context, start time.Time, measured bool) error {
	missing := make([]int, len(w.conns))
	for i, c := range w.conns {
		c.nc.SetReadDeadline(start.Add(w.cfg.Timeout))
		missing[i] = w.cfg.Keys
	}
	for left := len(w.conns); left > 0; {
		ready, err := w.poll.wait(pollEvery)
		if err == nil && len(ready) == 0 && time.Since(start) > w.cfg.Timeout {
			err = fmt.Errorf("%d connections miss events: %w", left, os.ErrDeadlineExceeded)
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
		for _, i := range ready {
			before := missing[i]
			if missing[i], err = w.drain(int(i), before, start, measured); err != nil {
				return err
			}
			if before > 0 && missing[i] <= 0 {
				left--
			}
		}
	}
	return nil
}

// drain reads once from a connection that misses so many events, and returns how many it misses then.
func (w *fanOut) drain(i, missing int, start time.Time, measured bool) (int, error) {
	c := w.conns[i]
	if err := c.fill(); err != nil {
		return missing, fmt.Errorf("%d of %d events: %w", w.cfg.Keys-missing, w.cfg.Keys, err)
	}
	for {
		f, ok, err := c.ready()
		if err != nil || !ok {
			return missing, err
		}
		event, err := w.take(i, f, start, measured)
		if err != nil {
			return missing, err
		}
		missing -= event
	}
}

// into replaces what the meter cannot know.
func (w *fanOut) into(res *Result) {
	for i := range w.hists {
		res.Hist.Merge(&w.hists[i])
	}
	res.Latency = latencyOf(res.Hist)
	last := latencyOf(&w.last)
	res.LastEvent = &last
	res.Ops, res.Seconds, res.Rate, res.ServerCPU = w.counted, w.spent.Seconds(), 0, 0
	if w.spent > 0 {
		res.Rate = float64(w.counted) / w.spent.Seconds()
		res.ServerCPU = micros(w.cpu) / float64(w.counted)
	}
	res.RSSBefore, res.RSSAfter = w.rss0, w.rssArmed
}
