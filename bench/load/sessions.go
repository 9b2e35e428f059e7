package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// runSessions opens and closes sessions, Conns of them side by side, for Sessions and Churn. A life counts when it is over; its
// latency is the whole life.
func runSessions(ctx context.Context, cfg *Config) (*Result, error) {
	c, err := cfg.Dial.open(ctx, cfg.Servers[0], cfg.Timeout, 0, nil)
	if err != nil {
		return nil, &dialError{err}
	}
	defer leave([]*conn{c})
	if err := prepare(cfg, []*conn{c}); err != nil {
		return nil, fmt.Errorf("make the znodes: %w", err)
	}
	m := newMeter(cfg)
	lanes := make([]*lane, cfg.Conns)
	for i := range lanes {
		lanes[i] = &lane{id: i, cfg: cfg, clock: m.clock, data: payload(cfg.Size), keys: fmt.Sprintf("%s/e%d-", cfg.Root, i),
			errs: map[proto.ErrCode]int64{}}
		if cfg.Count > 0 {
			lanes[i].want = share(cfg.Count, i, len(lanes))
		}
		m.counters = append(m.counters, &lanes[i].ops)
	}
	res, err := m.run(ctx, func() {
		var wg sync.WaitGroup
		for _, l := range lanes {
			wg.Go(func() { l.failed = l.lives(ctx) })
		}
		wg.Wait()
	})
	if err != nil {
		return nil, err
	}
	if err := res.collect(ctx, lanes); err != nil || cfg.Keep {
		return res, err
	}
	lanes[0].c = c
	return res, cleanUp(cfg, lanes)
}

// lives opens and closes sessions until the run ends.
func (l *lane) lives(ctx context.Context) error {
	for n := int64(0); l.want == 0 || n < l.want; n++ {
		start := l.clock.now()
		if start >= l.clock.end || ctx.Err() != nil {
			return nil
		}
		if err := l.life(ctx, n); err != nil {
			return err
		}
		now := l.clock.now()
		if l.clock.measuring(now) {
			l.hist.Record(now - start)
		}
		l.ops.Add(1)
	}
	return nil
}

func (l *lane) life(ctx context.Context, n int64) error {
	c, err := l.cfg.Dial.open(ctx, l.cfg.Servers[l.id%len(l.cfg.Servers)], l.cfg.Timeout, 0, nil)
	if err != nil {
		return err
	}
	defer c.drop()
	c.nc.SetDeadline(time.Now().Add(l.cfg.Timeout))
	if l.cfg.Workload == Churn {
		r, err := c.call(proto.OpCreate, func(dst []byte) []byte {
			return l.createBody(appendPath(dst, l.keys, n), proto.FlagEphemeral)
		})
		if err = errors.Join(err, r.err.Err()); err != nil {
			return fmt.Errorf("create an ephemeral: %w", err)
		}
	}
	if _, err := c.call(proto.OpCloseSession, nil); err != nil {
		return fmt.Errorf("close the session: %w", err)
	}
	return nil
}

// Crowd is sessions that are held open and do nothing but ping.
type Crowd struct {
	conns []*conn
	stop  chan struct{}
	wg    sync.WaitGroup
	lost  atomic.Int64
}

// OpenCrowd opens n idle sessions. The caller must Close the Crowd.
func OpenCrowd(ctx context.Context, servers []string, n int, timeout time.Duration) (*Crowd, error) {
	cfg := Config{Servers: servers, Timeout: timeout}
	conns, err := dialAll(ctx, &cfg, n)
	cr := &Crowd{conns: conns, stop: make(chan struct{})}
	if err != nil {
		cr.Close()
		return nil, err
	}
	cr.wg.Go(cr.ping)
	return cr, nil
}

// ping keeps the sessions alive. The replies wait in the sockets: they are small, and a crowd does not live for hours.
func (cr *Crowd) ping() {
	tick := time.NewTicker(cr.conns[0].timeout / 3)
	defer tick.Stop()
	b, mark := proto.BeginFrame(nil)
	ping := proto.EndFrame(proto.AppendInt32(proto.AppendInt32(b, proto.XidPing), int32(proto.OpPing)), mark)
	for {
		for _, c := range cr.conns {
			if _, err := c.nc.Write(ping); err != nil {
				cr.lost.Add(1)
			}
		}
		select {
		case <-cr.stop:
			return
		case <-tick.C:
		}
	}
}

// Lost is how many pings could not be sent.
func (cr *Crowd) Lost() int64 { return cr.lost.Load() }

// Close closes the connections; their sessions expire.
func (cr *Crowd) Close() {
	close(cr.stop)
	cr.wg.Wait()
	for _, c := range cr.conns {
		c.drop()
	}
}
