package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// way is the direction between two servers.
type way struct{ from, to int }

// wire carries bytes one way, over however many connections. Blocked, it keeps them back as a network does that loses packets which TCP
// sends again: they arrive when it is open, unless the connection is reset before.
type wire struct {
	mu      sync.Mutex
	blocked bool
	refuse  bool // of new connections
	delay   time.Duration
	rate    int           // bytes a second of each connection; 0: plenty
	changed chan struct{} // closed and replaced at each change
}

func (w *wire) set(f func(w *wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
	close(w.changed)
	w.changed = make(chan struct{})
}

// wait returns when the wire is open, or false when gone is closed first.
func (w *wire) wait(gone <-chan struct{}) bool {
	for {
		w.mu.Lock()
		blocked, changed := w.blocked, w.changed
		w.mu.Unlock()
		select {
		case <-gone:
			return false
		default:
		}
		if !blocked {
			return true
		}
		select {
		case <-gone:
			return false
		case <-changed:
		}
	}
}

func (w *wire) latency() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delay
}

// takes is how long n bytes are on their way, beyond the delay.
func (w *wire) takes(n int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rate == 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(w.rate)
}

// network is all proxies of an ensemble.
type network struct {
	wires map[way]*wire
	down  chan struct{} // closed at the end

	mu     sync.Mutex
	relays map[*relay]bool
	wg     sync.WaitGroup
}

func newNetwork(t *testing.T, n int) *network {
	nw := &network{wires: map[way]*wire{}, down: make(chan struct{}), relays: map[*relay]bool{}}
	for from := range n {
		for to := range n {
			if from != to {
				nw.wires[way{from, to}] = &wire{changed: make(chan struct{})}
			}
		}
	}
	t.Cleanup(func() {
		close(nw.down)
		nw.reset(func(way) bool { return true })
		nw.wg.Wait()
	})
	return nw
}

// open makes a proxy for connections that from dials to target, an address of to, and returns its address.
func (nw *network) open(t *testing.T, from, to int, target string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nw.wg.Go(func() {
		<-nw.down
		ln.Close()
	})
	nw.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			nw.wg.Go(func() { nw.relay(nc, way{from, to}, target) })
		}
	})
	return ln.Addr().String()
}

// relay is one connection through a proxy.
type relay struct {
	way         way // of the dial
	front, back net.Conn
	once        sync.Once
	gone        chan struct{}
}

// abort resets both ends.
func (r *relay) abort() {
	r.once.Do(func() {
		close(r.gone)
		for _, nc := range []net.Conn{r.front, r.back} {
			if tc, ok := nc.(*net.TCPConn); ok {
				_ = tc.SetLinger(0)
				tc.Close()
			}
		}
	})
}

func (nw *network) relay(front net.Conn, w way, target string) {
	there, back := nw.wires[w], nw.wires[way{w.to, w.from}]
	there.mu.Lock()
	refuse := there.refuse
	there.mu.Unlock()
	r := &relay{way: w, front: front, gone: make(chan struct{})}
	defer r.abort()
	if refuse || !there.wait(nw.down) || !back.wait(nw.down) {
		return
	}
	var err error
	if r.back, err = net.DialTimeout("tcp", target, time.Second); err != nil {
		return
	}
	nw.mu.Lock()
	nw.relays[r] = true
	nw.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.pump(r.front, r.back, there) })
	both.Go(func() { r.pump(r.back, r.front, back) })
	both.Wait()
	nw.mu.Lock()
	delete(nw.relays, r)
	nw.mu.Unlock()
}

type chunk struct {
	due  time.Time
	data []byte
	err  error
}

// pump carries what src says to dst over w, in order, each piece not before its delay.
func (r *relay) pump(src, dst net.Conn, w *wire) {
	queue := make(chan chunk, 64)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for {
			buf := make([]byte, 32<<10)
			n, err := src.Read(buf)
			select {
			case queue <- chunk{time.Now().Add(w.latency()), buf[:n], err}:
			case <-r.gone:
				return
			}
			if err != nil {
				return
			}
		}
	})
	for {
		var c chunk
		select {
		case c = <-queue:
		case <-r.gone:
			return
		}
		if wait := time.Until(c.due); wait > 0 && !pause(r.gone, wait) {
			return
		}
		if takes := w.takes(len(c.data)); takes > 0 && !pause(r.gone, takes) {
			return
		}
		if !w.wait(r.gone) {
			return
		}
		if len(c.data) > 0 {
			if _, err := dst.Write(c.data); err != nil {
				r.abort()
				return
			}
		}
		switch {
		case c.err == nil:
		case errors.Is(c.err, io.EOF):
			_ = dst.(*net.TCPConn).CloseWrite()
			return
		default:
			r.abort()
			return
		}
	}
}

// pause waits, but not beyond the end of gone.
func pause(gone <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
		return false
	}
}

// each changes the wires that which picks.
func (nw *network) each(which func(way) bool, f func(w *wire)) {
	for at, w := range nw.wires {
		if which(at) {
			w.set(f)
		}
	}
}

// reset breaks all connections that were dialled over wires which picks.
func (nw *network) reset(which func(way) bool) {
	nw.mu.Lock()
	var hit []*relay
	for r := range nw.relays {
		if which(r.way) {
			hit = append(hit, r)
		}
	}
	nw.mu.Unlock()
	for _, r := range hit {
		r.abort()
	}
}

func (nw *network) heal() {
	nw.each(func(way) bool { return true }, func(w *wire) { w.blocked, w.refuse, w.delay, w.rate = false, false, 0, 0 })
}

func from(i int) func(way) bool  { return func(w way) bool { return w.from == i } }
func to(i int) func(way) bool    { return func(w way) bool { return w.to == i } }
func touch(i int) func(way) bool { return func(w way) bool { return w.from == i || w.to == i } }
func between(i, j int) func(way) bool {
	return func(w way) bool { return w == way{i, j} || w == way{j, i} }
}
func block(w *wire) { w.blocked = true }
