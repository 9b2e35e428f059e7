package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// Ack is one write that a server has acknowledged.
type Ack struct{ Sent, Got time.Time }

// Probe writes to one server, one set at a time, without a pause, and remembers when each was acknowledged. When its connection ends
// it tries again and again to get its session back, as a client would that knows only this server. It is how a fail-over looks from
// outside.
type Probe struct {
	addr    string
	path    string
	timeout time.Duration
	cancel  context.CancelFunc
	done    chan struct{}

	mu   sync.Mutex
	acks []Ack
	lost bool // the session was refused
}

const (
	probeRetry = time.Millisecond
	// probePatience is how long a server may leave a write or a handshake unanswered before the probe connects anew.
	probePatience = 5 * time.Second
)

// StartProbe makes the znode, if it is not there, and starts writing to it. Stop must be called.
func StartProbe(ctx context.Context, addr, path string, timeout time.Duration) (*Probe, error) {
	c, err := dial(ctx, addr, timeout, 0, nil)
	if err != nil {
		return nil, err
	}
	if err := c.create(path, nil); err != nil && !errors.Is(err, proto.ErrNodeExists) {
		c.nc.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Probe{addr: addr, path: path, timeout: timeout, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.run(ctx, c)
	}()
	return p, nil
}

// Stop ends the probe; its session is left to expire.
func (p *Probe) Stop() {
	p.cancel()
	<-p.done
}

// Since returns the acknowledgements that came after t, oldest first, and whether the session was lost.
func (p *Probe) Since(t time.Time) (acks []Ack, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := len(p.acks)
	for i > 0 && p.acks[i-1].Got.After(t) {
		i--
	}
	return append(acks, p.acks[i:]...), p.lost
}

func (p *Probe) run(ctx context.Context, c *conn) {
	session, passwd := c.session, c.passwd
	for ctx.Err() == nil {
		stop := context.AfterFunc(ctx, func() { c.nc.Close() })
		p.write(c)
		stop()
		c.nc.Close()
		if c = p.again(ctx, session, passwd); c == nil {
			return
		}
	}
	c.nc.Close()
}

// write writes until the connection ends.
func (p *Probe) write(c *conn) {
	data := payload(16)
	for {
		c.nc.SetDeadline(time.Now().Add(probePatience))
		sent := time.Now()
		r, err := c.call(proto.OpSetData, func(dst []byte) []byte {
			return proto.AppendInt32(proto.AppendBuffer(proto.AppendString(dst, p.path), data), -1)
		})
		if err != nil {
			return
		}
		if r.err != proto.OK { // refused for now
			time.Sleep(probeRetry)
			continue
		}
		p.mu.Lock()
		p.acks = append(p.acks, Ack{sent, time.Now()})
		p.mu.Unlock()
	}
}

// again attaches to the session; nil if it is lost or ctx has ended.
func (p *Probe) again(ctx context.Context, session int64, passwd []byte) *conn {
	for ctx.Err() == nil {
		c, err := dial(ctx, p.addr, min(p.timeout, probePatience), session, passwd)
		if err == nil {
			return c
		}
		if errors.Is(err, proto.ErrSessionExpired) {
			p.mu.Lock()
			p.lost = true
			p.mu.Unlock()
			return nil
		}
		time.Sleep(probeRetry)
	}
	return nil
}

// FirstRead connects to a server, reads the root, and returns when that has worked; it tries until ctx ends.
func FirstRead(ctx context.Context, addr string) error {
	for {
		err := readOnce(ctx, addr)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(probeRetry):
		}
	}
}

func readOnce(ctx context.Context, addr string) error {
	c, err := dial(ctx, addr, probePatience, 0, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	c.nc.SetDeadline(time.Now().Add(probePatience))
	r, err := c.call(proto.OpExists, func(dst []byte) []byte { return append(proto.AppendString(dst, "/"), 0) })
	return errors.Join(err, r.err.Err())
}
