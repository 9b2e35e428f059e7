package quorum

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// network is an ensemble in memory: real election cores, role cores that only play discovery (leaderPlay, followerPlay), a mesh and
// data connections with random delays, and a disk that takes a while. Everything comes from one seed.
type network struct {
	t     *testing.T
	rng   random
	now   zab.Instant
	queue agenda
	order uint64
	hosts map[zab.ServerID]*host
	ids   []zab.ServerID
	conns map[zab.ConnID]*wire
	conn  zab.ConnID
	cut   map[[2]zab.ServerID]bool // no traffic either way
	last  map[string]zab.Instant   // FIFO per direction
	gen   map[[2]zab.ServerID]int  // generation of the election connection
	delay time.Duration            // largest, one way
	led   map[txn.Epoch]zab.ServerID
	moves int  // establishments
	whole bool // real leader and follower cores instead of the play
}

type host struct {
	id      zab.ServerID
	server  server
	disk    zab.HardState
	log     []txn.Record // on disk; whole only
	node    *Node
	core    func() *stubCore
	alive   bool
	hung    bool // its disk completes nothing
	life    int
	due     zab.Instant
	inbox   []zab.Event
	waiting bool
}

type wire struct {
	from, to zab.ServerID
	open     bool
}

type happening struct {
	at    zab.Instant
	order uint64
	do    func()
}

type agenda []happening

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

func newNetwork(t *testing.T, seed uint64, delay time.Duration, servers ...server) *network {
	w := &network{t: t, rng: newRandom(seed), hosts: map[zab.ServerID]*host{}, conns: map[zab.ConnID]*wire{},
		cut: map[[2]zab.ServerID]bool{}, last: map[string]zab.Instant{}, gen: map[[2]zab.ServerID]int{}, delay: delay,
		led: map[txn.Epoch]zab.ServerID{}}
	for _, s := range servers {
		w.hosts[s.self] = &host{id: s.self, server: s, disk: s.recovered().Hard}
		w.ids = append(w.ids, s.self)
	}
	return w
}

func (w *network) at(t zab.Instant, do func()) {
	w.order++
	heap.Push(&w.queue, happening{at: t, order: w.order, do: do})
}

// travel delivers do after a random delay, behind what went the same way before.
func (w *network) travel(way string, do func()) {
	t := w.now.Add(time.Duration(w.rng.next()%uint64(w.delay)) + 1)
	t = max(t, w.last[way]+1)
	w.last[way] = t
	w.at(t, do)
}

func pair(a, b zab.ServerID) [2]zab.ServerID { return [2]zab.ServerID{min(a, b), max(a, b)} }

func (w *network) start(id zab.ServerID) {
	h := w.hosts[id]
	h.alive, h.inbox = true, nil
	h.life++
	rec := h.server.recovered()
	rec.Hard = h.disk
	rec.Fresh = rec.Fresh && h.disk.Accepted == 0 && !h.disk.Recovering
	cfg := h.server.config()
	cfg.Seed = w.rng.next()
	if w.whole {
		rec.Hist = zab.NewHistory(zab.Position{}, zab.Position{}, 0, zab.EpochTable{Whole: true}, h.log, 1<<20)
	}
	h.node = New(cfg, rec, w.now)
	if !w.whole {
		h.core = stub(h.node)
		w.play(h)
	}
	w.wake(h)
	for _, other := range w.ids {
		w.connect(id, other)
	}
}

// play gives the node role cores that play discovery.
func (w *network) play(h *host) {
	leader, follower := h.node.cores.leader, h.node.cores.follower
	h.node.cores.leader = func(local *zab.Local, fx *zab.Effects, now zab.Instant) roleCore {
		c := leader(local, fx, now)
		playLeader(w, h, h.core(), now)
		return c
	}
	h.node.cores.follower = func(local *zab.Local, fx *zab.Effects, l zab.ServerID, observer bool, now zab.Instant) roleCore {
		c := follower(local, fx, l, observer, now)
		playFollower(h.core(), now)
		return c
	}
}

// connect makes the election connection between two live hosts, after a while.
func (w *network) connect(a, b zab.ServerID) {
	if a == b {
		return
	}
	p := pair(a, b)
	w.gen[p]++
	gen := w.gen[p]
	w.at(w.now.Add(w.delay+time.Duration(w.rng.next()%uint64(5*w.delay))), func() {
		if w.gen[p] != gen || w.cut[p] || !w.hosts[a].alive || !w.hosts[b].alive {
			return
		}
		w.event(a, zab.MeshUp{Peer: b})
		w.event(b, zab.MeshUp{Peer: a})
	})
}

// disconnect breaks it; active says how the other side sees it.
func (w *network) disconnect(a, b zab.ServerID, active bool) {
	p := pair(a, b)
	w.gen[p]++
	for _, x := range [][2]zab.ServerID{{a, b}, {b, a}} {
		w.travel(fmt.Sprint("mesh", x), func() { w.event(x[0], zab.MeshDown{Peer: x[1], Active: active}) })
	}
}

func (w *network) kill(id zab.ServerID) {
	h := w.hosts[id]
	h.alive, h.inbox = false, nil
	for _, other := range w.ids {
		if other != id {
			w.disconnect(id, other, true)
		}
	}
	for c := zab.ConnID(1); c <= w.conn; c++ {
		if x := w.conns[c]; x.from == id || x.to == id {
			w.closeWire(c)
		}
	}
}

// isolate cuts id off without a word: both sides notice after HbTimeout, or when it is healed before.
func (w *network) isolate(id zab.ServerID) {
	for _, other := range w.ids {
		if other == id {
			continue
		}
		p := pair(id, other)
		w.cut[p] = true
		w.gen[p]++
		gen := w.gen[p]
		w.at(w.now.Add(time.Second), func() {
			if w.gen[p] == gen {
				w.notice(p)
			}
		})
	}
}

// notice lets both sides of a pair see that their connections are gone.
func (w *network) notice(p [2]zab.ServerID) {
	w.gen[p]++
	w.event(p[0], zab.MeshDown{Peer: p[1]})
	w.event(p[1], zab.MeshDown{Peer: p[0]})
	for c := zab.ConnID(1); c <= w.conn; c++ {
		if x := w.conns[c]; pair(x.from, x.to) == p {
			w.closeWire(c)
		}
	}
}

func (w *network) heal(id zab.ServerID) {
	for _, other := range w.ids {
		if other != id {
			delete(w.cut, pair(id, other))
			w.notice(pair(id, other))
			w.connect(id, other)
		}
	}
}

func (w *network) closeWire(c zab.ConnID) {
	x := w.conns[c]
	if x == nil || !x.open {
		return
	}
	x.open = false
	for _, id := range []zab.ServerID{x.from, x.to} {
		w.travel(fmt.Sprint("data", c, id), func() { w.event(id, zab.ConnDown{Conn: c}) })
	}
}

func (w *network) event(id zab.ServerID, ev zab.Event) {
	h := w.hosts[id]
	if h.alive {
		h.inbox = append(h.inbox, ev)
		w.wake(h)
	}
}

// wake steps h a moment later, with all that waits by then.
func (w *network) wake(h *host) {
	if h.waiting {
		return
	}
	h.waiting = true
	life := h.life
	w.at(w.now.Add(10*time.Microsecond), func() {
		h.waiting = false
		if h.alive && h.life == life {
			evs := h.inbox
			h.inbox = nil
			w.step(h, evs)
		} else if h.alive {
			w.wake(h)
		}
	})
}

func (w *network) step(h *host, evs []zab.Event) {
	for _, e := range h.node.Step(w.now, evs) {
		w.perform(h, e)
	}
	w.check(h)
	due, life := h.node.Deadline(), h.life
	if due != zab.Never && due != h.due {
		h.due = due
		w.at(max(due, w.now), func() {
			if h.alive && h.life == life && h.due == due {
				h.due = 0
				w.event(h.id, zab.Tick{})
			}
		})
	}
}

func (w *network) perform(h *host, e zab.Effect) {
	switch e := e.(type) {
	case zab.Tell:
		p := pair(h.id, e.To)
		gen := w.gen[p]
		w.travel(fmt.Sprint("mesh", [2]zab.ServerID{e.To, h.id}), func() {
			if w.gen[p] == gen {
				w.event(e.To, zab.Heard{From: h.id, Notification: e.Notification})
			}
		})
	case zab.SaveHardState:
		w.write(h, e.ID, func() { h.disk = e.State })
	case zab.Append:
		w.write(h, e.ID, func() { h.log = append(h.log, e.Records...) })
	case zab.Truncate:
		w.write(h, e.ID, func() {
			for len(h.log) > 0 && h.log[len(h.log)-1].Zxid > e.To.Zxid {
				h.log = h.log[:len(h.log)-1]
			}
		})
	case zab.Initialize:
		w.write(h, e.ID, func() {})
	case zab.Prepare:
		var drafts []txn.Draft
		for i := range e.Requests {
			req := &e.Requests[i]
			var body txn.Body = &txn.Secret{Secret: req.Payload}
			if sid, rid, ok := txn.ParseReadmit(req.Payload); req.Op == txn.OpReadmit && ok {
				body = &txn.Readmit{Server: sid, RecoveryID: rid}
			}
			drafts = append(drafts, txn.NewDraft(&txn.Txn{Body: body}, req))
		}
		w.step(h, []zab.Event{zab.Prepared{Drafts: drafts}})
	case zab.Fatal:
		require.Failf(w.t, "fatal", "%d: %s", h.id, e.Reason)
	case zab.ReadLog, zab.SendSnapshot, zab.InstallSnapshot:
		require.Failf(w.t, "not played", "%T", e)
	case zab.Dial:
		w.travel("dial", func() {
			to := w.hosts[e.Peer]
			if !to.alive || w.cut[pair(h.id, e.Peer)] {
				w.event(h.id, zab.DialFailed{Peer: e.Peer, Refused: !to.alive})
				return
			}
			w.conn++
			c := w.conn
			w.conns[c] = &wire{from: h.id, to: e.Peer, open: true}
			w.event(h.id, zab.Dialed{Conn: c, Peer: e.Peer})
			w.event(e.Peer, zab.Accepted{Conn: c, Peer: h.id})
		})
	case zab.Send:
		x := w.conns[e.Conn]
		to := x.to
		if to == h.id {
			to = x.from
		}
		if !x.open {
			return
		}
		w.travel(fmt.Sprint("data", e.Conn, to), func() {
			if !w.cut[pair(x.from, x.to)] { // what was sent before a close still arrives
				w.event(to, zab.Received{Conn: e.Conn, Packet: e.Packet})
			}
		})
	case zab.Close:
		if x := w.conns[e.Conn]; x.open && e.Bye.Code != zab.ByeNone {
			w.perform(h, zab.Send{Conn: e.Conn, Packet: &e.Bye})
		}
		w.closeWire(e.Conn)
	}
}

// write carries out a disk operation of h after a while, behind the earlier ones.
func (w *network) write(h *host, id uint64, do func()) {
	way, life := fmt.Sprint("disk", h.id), h.life
	done := max(w.now.Add(time.Millisecond+time.Duration(w.rng.next()%uint64(4*time.Millisecond))), w.last[way]+1)
	w.last[way] = done
	w.at(done, func() {
		if h.life == life && h.alive && !h.hung {
			do()
			w.event(h.id, zab.DiskDone{ID: id})
		}
	})
}

// check holds what must always hold: one leader an epoch, and votes that state the disk (I-7, I-24).
func (w *network) check(h *host) {
	m := h.node.notification()
	if m.State == zab.Leading && m.EstablishedEpoch > 0 {
		if l, ok := w.led[m.EstablishedEpoch]; ok {
			require.Equal(w.t, l, h.id, "two leaders in epoch %d", m.EstablishedEpoch)
		} else {
			w.led[m.EstablishedEpoch] = h.id
			w.moves++
		}
	}
	if m.Vote.Leader == h.id {
		require.Equal(w.t, h.disk.Current, m.Vote.Epoch)
		require.True(w.t, m.Votable)
	}
}

func (w *network) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.queue) > 0 && w.queue[0].at <= end {
		x := heap.Pop(&w.queue).(happening)
		w.now = x.at
		x.do()
	}
	w.now = end
}

// settle runs until f holds; it fails after limit.
func (w *network) settle(limit time.Duration, f func() bool, what string) time.Duration {
	start := w.now
	for w.now.Sub(start) < limit {
		if f() {
			return w.now.Sub(start)
		}
		w.run(time.Millisecond)
	}
	for _, id := range w.ids {
		if h := w.hosts[id]; h.alive {
			w.t.Logf("%d: %s %+v", id, notificationString(h.node.notification()), h.node.Status())
		}
	}
	require.Failf(w.t, "not in time", "%s within %v", what, limit)
	return 0
}

// leader returns the established leader that all of ids agree on, 0 if there is none.
func (w *network) leader(ids ...zab.ServerID) zab.ServerID {
	var l zab.ServerID
	var e txn.Epoch
	for _, id := range ids {
		m := w.hosts[id].node.notification()
		if m.EstablishedEpoch == 0 || l != 0 && (m.Leader != l || m.EstablishedEpoch != e) {
			return 0
		}
		l, e = m.Leader, m.EstablishedEpoch
	}
	if h := w.hosts[l]; !h.alive || h.node.notification().State != zab.Leading {
		return 0
	}
	return l
}
