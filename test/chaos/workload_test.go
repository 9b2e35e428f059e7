package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// The folders of the workload. Nodes below kept are never deleted.
const (
	kept  = "/kept/"
	loose = "/loose/"
	queue = "/queue/"
	alive = "/alive/"
)

const (
	keptKeys       = 6
	looseGroups    = 2  // of sessions that work on the same nodes
	opsPerNode     = 60 // then a group goes on to another node, so that checking stays cheap
	sessionTimeout = 20 * time.Second
	opTimeout      = 15 * time.Second
	thinking       = 12 * time.Millisecond // longest pause of a session between two ops
)

// workload is the sessions of one run.
type workload struct {
	t    *testing.T
	e    *ensemble
	h    *history
	seed uint64

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	values  atomic.Int64
	group   [looseGroups]atomic.Int64 // ops so far
	expired atomic.Int64              // sessions that ended though nobody wanted it

	mu   sync.Mutex
	live map[*client.Client]string // open sessions with their ephemeral
	late []*client.Client          // closed when all checks are done
}

func startWorkload(t *testing.T, e *ensemble, seed uint64) *workload {
	w := &workload{t: t, e: e, h: &history{began: time.Now()}, seed: seed, live: map[*client.Client]string{}}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	t.Cleanup(func() {
		w.cancel()
		w.wg.Wait()
		for c := range w.live {
			c.Close()
		}
	})
	root, err := client.Dial(t.Context(), e.connect(), client.WithSessionTimeout(sessionTimeout))
	require.NoError(t, err)
	for _, dir := range []string{kept, loose, queue, alive} {
		_, err := root.Create(t.Context(), strings.TrimSuffix(dir, "/"), nil, client.Persistent, nil)
		require.NoError(t, err)
	}
	for i := range keptKeys {
		o := w.h.call(root, op{Kind: create, Key: w.keptKey(i), Value: "first", Expect: -1}, w.carryOut(root))
		require.Equal(t, done, o.Result)
	}
	require.NoError(t, root.Close())
	work := []func(*session){w.keep, w.keep, w.keep, w.keep, w.loosen, w.loosen, w.loosen, w.loosen, w.pair, w.count, w.count, w.comeAndGo}
	addrs := slices.Repeat([]string{e.connect()}, len(work))
	for _, p := range e.procs { // these stay with one server each, so that there are writers at all of them all the time
		work, addrs = append(work, w.keep), append(addrs, p.client)
	}
	for i, f := range work {
		w.wg.Go(func() {
			s := &session{w: w, name: fmt.Sprintf("s%d", i), i: i, addrs: addrs[i], rng: rand.New(rand.NewPCG(seed, uint64(i)))}
			for w.ctx.Err() == nil {
				s.open()
				for s.c != nil && s.c.Err() == nil && pause(w.ctx.Done(), rand.N(thinking)) {
					f(s)
				}
			}
		})
	}
	return w
}

func (w *workload) keptKey(i int) string { return kept + strconv.Itoa(i) }

// session is one worker with its present session.
type session struct {
	w     *workload
	name  string
	i, n  int
	addrs string
	rng   *rand.Rand
	c     *client.Client
}

// free: it may move to another server, so it has no excuse for losing its session.
func (s *session) free() bool { return strings.Contains(s.addrs, ",") }

// open begins a session with an ephemeral of its own.
func (s *session) open() {
	if s.c != nil && s.c.Err() != nil {
		if errors.Is(s.c.Err(), client.ErrSessionExpired) && s.free() {
			s.w.expired.Add(1)
		}
		s.w.forget(s.c)
	}
	c, err := client.Dial(s.w.ctx, s.addrs, client.WithSessionTimeout(sessionTimeout))
	if err != nil {
		s.c = nil
		return
	}
	s.c = c
	s.n++
	if !s.free() {
		context.AfterFunc(s.w.ctx, func() { c.Close() })
		return
	}
	s.w.vouch(c, fmt.Sprintf("%s%s-%d", alive, s.name, s.n))
}

// vouch makes the ephemeral of a session.
func (w *workload) vouch(c *client.Client, path string) {
	for w.ctx.Err() == nil && c.Err() == nil {
		ctx, cancel := bounded(w.ctx)
		_, err := c.Create(ctx, path, nil, client.Ephemeral, nil)
		cancel()
		if err == nil || errors.Is(err, client.ErrNodeExists) {
			w.mu.Lock()
			w.live[c] = path
			w.mu.Unlock()
			return
		}
	}
	c.Close()
}

func (w *workload) forget(c *client.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.live, c)
}

// carryOut does what an op says and fills in the answer.
func (w *workload) carryOut(c *client.Client) func(o *op) error {
	return func(o *op) (err error) {
		ctx, cancel := context.WithTimeout(w.t.Context(), opTimeout)
		defer cancel()
		var st client.Stat
		switch o.Kind {
		case fresh:
			if err := c.Sync(ctx, o.Key); err != nil {
				return err
			}
			fallthrough
		case read:
			var data []byte
			data, st, err = c.Get(ctx, o.Key)
			o.Value = string(data)
		case set, cas:
			st, err = c.Set(ctx, o.Key, []byte(o.Value), o.Expect)
		case create:
			_, st, err = c.CreateStat(ctx, o.Key, []byte(o.Value), client.Persistent, nil)
		case remove:
			return c.Delete(ctx, o.Key, o.Expect)
		}
		o.Version, o.Zxid = st.Version, st.Mzxid
		return err
	}
}

func (s *session) do(o op) *op {
	if o.Kind != cas && o.Kind != remove {
		o.Expect = client.AnyVersion
	}
	if o.Kind == set || o.Kind == cas || o.Kind == create {
		o.Value = fmt.Sprintf("%s.%d", s.name, s.w.values.Add(1))
	}
	return s.w.h.call(s.c, o, s.w.carryOut(s.c))
}

// keep works on nodes that stay.
func (w *workload) keep(s *session) {
	key := w.keptKey(s.rng.IntN(keptKeys))
	switch s.rng.IntN(6) {
	case 0:
		s.do(op{Kind: fresh, Key: key})
	case 1, 2:
		s.do(op{Kind: read, Key: key})
	case 3:
		s.do(op{Kind: set, Key: key})
	default:
		if seen := s.do(op{Kind: read, Key: key}); seen.Result == done {
			s.do(op{Kind: cas, Key: key, Expect: seen.Version})
		}
	}
}

// loosen works with others on a node that comes and goes.
func (w *workload) loosen(s *session) {
	g := s.i % looseGroups
	key := fmt.Sprintf("%s%d-%d", loose, g, w.group[g].Add(1)/opsPerNode)
	switch s.rng.IntN(8) {
	case 0, 1, 2:
		s.do(op{Kind: fresh, Key: key})
	case 3:
		s.do(op{Kind: set, Key: key})
	case 4, 5:
		s.do(op{Kind: create, Key: key})
	case 6:
		s.do(op{Kind: cas, Key: key, Expect: int32(s.rng.IntN(4))})
	default:
		s.do(op{Kind: remove, Key: key, Expect: int32(s.rng.IntN(3)) - 1})
	}
}

// pair writes two nodes in one transaction.
func (w *workload) pair(s *session) {
	a, b := s.rng.IntN(keptKeys), s.rng.IntN(keptKeys-1)
	if b >= a {
		b++
	}
	second := op{Session: s.c.SessionID(), Kind: set, Key: w.keptKey(b), Expect: -1, Value: fmt.Sprintf("%s.%d", s.name, w.values.Add(1))}
	first := s.w.h.call(s.c, op{Kind: set, Key: w.keptKey(a), Expect: -1, Value: fmt.Sprintf("%s.%d", s.name, w.values.Add(1))}, func(o *op) error {
		ctx, cancel := context.WithTimeout(w.t.Context(), opTimeout)
		defer cancel()
		var m client.Multi
		ra, rb := m.Set(o.Key, []byte(o.Value), -1), m.Set(second.Key, []byte(second.Value), -1)
		err := s.c.Multi(ctx, &m)
		o.Version, o.Zxid, second.Version, second.Zxid = ra.Stat.Version, ra.Stat.Mzxid, rb.Stat.Version, rb.Stat.Mzxid
		return err
	})
	second.Call, second.Return, second.Result, second.Error, second.View = first.Call, first.Return, first.Result, first.Error, first.View
	w.h.add(&second)
	if first.Result == done && first.Zxid != second.Zxid {
		w.t.Errorf("the two halves of a multi have zxids %x and %x", first.Zxid, second.Zxid)
	}
}

// count makes sequential nodes.
func (w *workload) count(s *session) {
	mode := client.PersistentSequential
	if s.rng.IntN(2) == 0 {
		mode = client.EphemeralSequential
	}
	made := w.h.call(s.c, op{Kind: seq, Key: queue, Expect: -1}, func(o *op) error {
		ctx, cancel := context.WithTimeout(w.t.Context(), opTimeout)
		defer cancel()
		name, st, err := s.c.CreateStat(ctx, queue+"n", nil, mode, nil)
		if err == nil {
			o.Key, o.Zxid = name, st.Czxid
		}
		return err
	})
	if made.Result == done && s.rng.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(w.t.Context(), opTimeout)
		defer cancel()
		_ = s.c.Delete(ctx, made.Key, client.AnyVersion) // what becomes of it does not matter: the numbers do
	}
}

// comeAndGo opens sessions that end: closed, or left to expire.
func (w *workload) comeAndGo(s *session) {
	if !pause(w.ctx.Done(), 300*time.Millisecond) {
		return
	}
	var mu sync.Mutex
	var conns []net.Conn
	cut := false
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if cut {
			return nil, errors.New("cut")
		}
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			conns = append(conns, nc)
		}
		return nc, err
	}
	c, err := client.Dial(w.ctx, w.e.connect(), client.WithSessionTimeout(4*time.Second), client.WithDialer(dialer))
	if err != nil {
		return
	}
	s.n++
	w.vouch(c, fmt.Sprintf("%s%s-%d", alive, s.name, s.n))
	w.forget(c)
	if s.rng.IntN(2) == 0 {
		c.Close()
		return
	}
	mu.Lock()
	cut = true
	for _, nc := range conns {
		nc.Close()
	}
	mu.Unlock()
	w.mu.Lock()
	w.late = append(w.late, c)
	w.mu.Unlock()
}

// watchers follow kept nodes by watches alone; the session is like any other.
type watcher struct {
	key    string
	seen   atomic.Int64 // zxid of the last read
	events atomic.Int64
}

func (w *workload) watch(key string) *watcher {
	x := &watcher{key: key}
	w.wg.Go(func() {
		c, err := client.Dial(w.ctx, w.e.connect(), client.WithSessionTimeout(sessionTimeout))
		if err != nil {
			return
		}
		w.vouch(c, alive+"watcher"+strings.ReplaceAll(key, "/", "-"))
		for {
			_, st, wt, err := c.GetW(w.t.Context(), key)
			if err != nil {
				if c.Err() != nil {
					w.t.Errorf("watcher of %s: %v", key, c.Err())
					return
				}
				if w.t.Context().Err() != nil {
					return
				}
				continue
			}
			if old := x.seen.Load(); st.Mzxid < old {
				w.t.Errorf("the watcher of %s goes back from zxid %x to %x", key, old, st.Mzxid)
			}
			x.seen.Store(st.Mzxid)
			select {
			case <-wt.C():
				x.events.Add(1)
			case <-w.ctx.Done(): // the last change may still be on its way
				select {
				case <-wt.C():
					x.events.Add(1)
				case <-time.After(3 * time.Second):
					return
				}
			}
		}
	})
	return x
}

// goesOn waits for more acknowledged writes, up to a limit; it returns how long the first took.
func (w *workload) goesOn(limit time.Duration) (time.Duration, bool) {
	began, from := time.Now(), w.h.acked.Load()
	var first time.Duration
	ok := within(limit, func() bool {
		n := w.h.acked.Load()
		if first == 0 && n > from {
			first = time.Since(began)
		}
		return n >= from+25
	})
	return first, ok
}

// end stops the sessions' work and checks everything. It returns what is wrong.
func (w *workload) end(watchers []*watcher) (bad []string) {
	w.cancel()
	w.wg.Wait()
	e := w.e
	digest := e.sameDigest()
	root, err := client.Dial(w.t.Context(), e.connect(), client.WithSessionTimeout(sessionTimeout))
	require.NoError(w.t, err)
	defer root.Close()
	keys := map[string]bool{}
	for _, o := range w.h.ops {
		if strings.HasPrefix(o.Key, kept) || strings.HasPrefix(o.Key, loose) {
			keys[o.Key] = true
		}
	}
	final := map[string]int64{}
	for key := range keys {
		o := w.h.call(root, op{Kind: fresh, Key: key, Expect: -1}, w.carryOut(root))
		if o.Result != done && o.Result != none {
			bad = append(bad, fmt.Sprintf("final read of %s: %s %s", key, o.Result, o.Error))
		}
		final[key] = o.Zxid
	}
	for _, x := range watchers {
		if x.seen.Load() != final[x.key] {
			bad = append(bad, fmt.Sprintf("the watcher of %s saw %x last, the node is at %x", x.key, x.seen.Load(), final[x.key]))
		}
	}
	bad = append(bad, w.ephemerals(root)...)
	lin, undecided := linearizable(w.h.ops)
	bad = append(bad, lin...)
	bad = append(bad, ordered(w.h.ops)...)
	bad = append(bad, chains(w.h.ops)...)
	bad = append(bad, latest(w.h.ops)...)
	bad = append(bad, numbered(w.h.ops)...)
	bad = append(bad, unexpected(w.h.ops)...)
	if n := w.expired.Load(); n > 0 {
		bad = append(bad, fmt.Sprintf("%d sessions expired though no fault lasted so long", n))
	}
	w.t.Logf("digest of all servers %s; nodes checked %d, undecided %d", digest, len(keys), undecided)
	return bad
}

// ephemerals: the open sessions have theirs, nobody else has any, once those that were left have expired.
func (w *workload) ephemerals(root *client.Client) (bad []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		for _, c := range w.late {
			go c.Close()
		}
	}()
	want := map[string]int64{}
	for c, path := range w.live {
		if c.Err() == nil {
			want[strings.TrimPrefix(path, alive)] = c.SessionID()
		}
	}
	var names []string
	within(20*time.Second, func() bool {
		var err error
		names, _, err = root.Children(w.t.Context(), strings.TrimSuffix(alive, "/"))
		return err == nil && len(names) <= len(want)
	})
	have := map[string]bool{}
	for _, n := range names {
		have[n] = true
		if want[n] == 0 {
			bad = append(bad, fmt.Sprintf("ephemeral %s is there, its session is not", n))
			continue
		}
		_, st, err := root.Get(w.t.Context(), alive+n)
		if err != nil || st.EphemeralOwner != want[n] {
			bad = append(bad, fmt.Sprintf("ephemeral %s belongs to %x, want %x (%v)", n, st.EphemeralOwner, want[n], err))
		}
	}
	for n, id := range want {
		if !have[n] {
			bad = append(bad, fmt.Sprintf("session %x is alive, its ephemeral %s is not there", id, n))
		}
	}
	return bad
}
