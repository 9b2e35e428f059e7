package leader_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// world drives a pump at random and watches it. In place of elections it lets anybody lead whom it likes: discovery is what must keep
// that safe (§5).
type world struct {
	*pump
	rnd       *rand.Rand
	committed []txn.Record // the longest sequence that anybody has applied
	leaders   map[txn.Epoch]zab.ServerID
	next      uint64
	bad       string
}

func newWorld(t testing.TB, seed uint64) *world {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := &world{pump: newPump(t, 2+rnd.IntN(4)), rnd: rnd, leaders: map[txn.Epoch]zab.ServerID{}}
	w.cfg.TailBytes = 1 + rnd.IntN(2000)
	w.cfg.InflightBytes, w.cfg.InflightCount = 1+rnd.IntN(3000), 1+rnd.IntN(10)
	w.cfg.BatchBytes, w.cfg.BatchCount = 1+rnd.IntN(1000), 1+rnd.IntN(5)
	w.cfg.DiffMinBytes = int64(rnd.IntN(2000))
	w.check = w.watch
	for i := range w.nodes {
		w.cfg.Members.Servers[i].Observer = i >= 3 && rnd.IntN(4) == 0
	}
	for _, n := range w.nodes {
		n.boot()
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}

// watch checks what an effect promises against the platters (I-12) and what is applied against everybody (I-2).
func (w *world) watch(n *node, e zab.Effect) {
	switch e := e.(type) {
	case zab.Fatal:
		w.fail("node %d: fatal %d %s\n%s", n.id, e.Code, e.Reason, e.Dump)
	case zab.Established:
		if other, taken := w.leaders[e.Epoch]; taken && other != n.id { // I-7
			w.fail("epoch %d has leaders %d and %d", e.Epoch, other, n.id)
		}
		w.leaders[e.Epoch] = n.id
		w.complete(n)
	case zab.Send:
		w.watchSend(n, e.Packet)
	case zab.Apply:
		w.watchApply(n, e.Records)
	case zab.Append:
		if e.Commit > e.Records[len(e.Records)-1].Zxid {
			w.fail("node %d: commit hint %v on a batch that ends at %v", n.id, e.Commit, e.Records[len(e.Records)-1].Zxid)
		}
	case zab.Truncate:
		if e.To.Zxid < n.local.Hist.Applied {
			w.fail("node %d cuts to %v below %v", n.id, e.To.Zxid, n.local.Hist.Applied)
		}
	}
}

// complete is I-11: who is established has everything that was committed before, unless a later leader was.
func (w *world) complete(n *node) {
	newest := n.lead.Established()
	for e := range w.leaders {
		newest = max(newest, e)
	}
	if newest != n.lead.Established() || len(w.committed) == 0 {
		return
	}
	if last := w.committed[len(w.committed)-1]; n.disk.end() < last.Zxid {
		w.fail("leader %d of epoch %d ends at %v, committed is %v", n.id, newest, n.disk.end(), last.Zxid)
	}
}

func (w *world) watchSend(n *node, p zab.Packet) {
	hard := n.disk.hard
	ok := true
	switch p := p.(type) {
	case *zab.LeaderInfo:
		ok = hard.Accepted == p.Epoch && hard.AcceptedLeader == n.id
	case *zab.AckEpoch:
		ok = n.disk.end() == p.Last.Zxid && hard.Current == p.Current && (!p.Vote || hard.Accepted == p.Epoch)
	case *zab.NewLeader:
		ok = hard.Current == p.Epoch && (n.lead.Established() != 0 || n.disk.has(p.End.Zxid)) // O3 is about the first
	case *zab.Ack:
		ok = hard.Current == p.Epoch && n.disk.has(p.Durable)
	}
	if !ok {
		w.fail("node %d promises %s, but its disk has %+v and ends at %v", n.id, packetText(p), hard, n.disk.end())
	}
}

func (w *world) watchApply(n *node, recs []txn.Record) {
	at := n.from
	if len(n.applied) > 0 {
		at = n.applied[len(n.applied)-1].Zxid
	}
	i := 0
	if at != 0 {
		i = 1 + slices.IndexFunc(w.committed, func(r txn.Record) bool { return r.Zxid == at })
		if i == 0 {
			w.fail("node %d stands at %v, which nobody has committed", n.id, at)
			return
		}
	}
	for _, r := range recs {
		if !n.disk.has(r.Zxid) {
			w.fail("node %d applies %v before it is durable", n.id, r.Zxid)
		}
		if i == len(w.committed) {
			w.newCommit(r)
		} else if c := w.committed[i]; c.Zxid != r.Zxid || c.Chain != r.Chain {
			w.fail("node %d applies %v where %v was applied", n.id, r.Zxid, c.Zxid)
		}
		i++
	}
}

// newCommit is I-14: a majority has it on disk.
func (w *world) newCommit(r txn.Record) {
	w.committed = append(w.committed, r)
	if !w.cfg.Members.Satisfied(func(id zab.ServerID) bool { return w.node(id).disk.has(r.Zxid) && !w.node(id).disk.hard.Recovering }) {
		w.fail("%v is applied and no majority holds it", r.Zxid)
	}
}

func (w *world) observer(n *node) bool { return !w.cfg.Members.Voter(n.id) }

// mayLead: only those whose vote counts stand for election.
func (w *world) mayLead(n *node) bool { return !w.observer(n) && !n.disk.hard.Recovering }

// wipe takes a voter's disk away. It comes back as RECOVERING, as quorum would have it, and only while a majority remembers everything.
func (w *world) wipe(n *node) {
	intact := func(id zab.ServerID) bool { return id != n.id && !w.node(id).disk.hard.Recovering }
	if w.observer(n) || !w.cfg.Members.Satisfied(intact) {
		return
	}
	w.next++
	n.disk = disk{table: zab.EpochTable{Whole: true}, hard: zab.HardState{Recovering: true, RecoveryID: w.next}}
	w.crash(n)
}

func (d *disk) end() txn.Zxid {
	if n := len(d.records); n > 0 {
		return d.records[n-1].Zxid
	}
	return d.base.Zxid
}

func (d *disk) has(z txn.Zxid) bool {
	return z <= d.base.Zxid || slices.ContainsFunc(d.records, func(r txn.Record) bool { return r.Zxid == z })
}

// move makes one random thing happen.
func (w *world) move() {
	n := w.nodes[w.rnd.IntN(len(w.nodes))]
	switch k := w.rnd.IntN(100); {
	case k < 35:
		n.step()
	case k < 65:
		if len(w.pipes) > 0 {
			if x := w.pipes[w.rnd.IntN(len(w.pipes))]; len(x.queue) > 0 {
				w.deliver(x)
			}
		}
	case k < 82:
		if len(n.disk.queue) > 0 {
			n.complete()
		}
	case k < 92:
		if n.idle() {
			return
		}
		w.next++
		n.submit(w.next, string(binary.BigEndian.AppendUint64(make([]byte, w.rnd.IntN(200)), w.next)))
	case k < 95:
		w.assign(n)
	case k < 96:
		w.snapshot(n)
	case k < 97:
		w.cut(n.id, w.nodes[w.rnd.IntN(len(w.nodes))].id)
	case k < 98:
		w.now = w.now.Add(time.Duration(w.rnd.IntN(300)) * time.Millisecond)
		n.inbox = append(n.inbox, zab.Tick{})
	case w.rnd.IntN(4) == 0:
		w.crash(n)
	case w.rnd.IntN(12) == 0:
		w.wipe(n)
	case w.rnd.IntN(6) == 0 && !n.idle():
		n.inbox = append(n.inbox, zab.Stop{})
	}
}

// assign gives an idle node a role, once its disk is idle too.
func (w *world) assign(n *node) {
	if !n.idle() || !n.local.Idle() || len(n.inbox) > 0 && n.settle() {
		return
	}
	for _, o := range w.nodes {
		if o.lead != nil && w.rnd.IntN(4) > 0 {
			n.becomeFollower(o.id, w.observer(n))
			return
		}
	}
	if w.mayLead(n) {
		n.becomeLeader()
	}
}

// settle gives an idle node's leftovers to Local only. It reports whether the disk is still busy.
func (n *node) settle() bool {
	n.step()
	return !n.local.Idle()
}

// snapshot takes one of what is applied, and sometimes forgets the log before it.
func (w *world) snapshot(n *node) {
	h := n.local.Hist
	chain, ok := h.ChainAt(h.Applied)
	if !ok || h.Applied == 0 || h.Applied == h.Snapshot.Zxid || len(n.disk.queue) > 0 {
		return
	}
	at := zab.Position{Zxid: h.Applied, Chain: chain}
	table := h.Table.Clone()
	table.Cut(at)
	n.disk.snap, n.disk.snapAt = at, table
	h.Snapshot, h.SnapSize = at, 1
	if w.rnd.IntN(2) == 0 {
		h.Base = at
		n.disk.base, n.disk.table = at, table.Clone()
		n.disk.records = slices.DeleteFunc(slices.Clone(n.disk.records), func(r txn.Record) bool { return r.Zxid <= at.Zxid })
	}
}

// heal stops the faults, lets the best history lead and expects everybody to agree in the end (I-47).
func (w *world) heal() {
	for len(w.pipes) > 0 {
		w.cut(w.pipes[0].from, w.pipes[0].to)
	}
	for range 3 {
		for _, n := range w.nodes {
			for len(n.disk.queue) > 0 {
				n.complete()
			}
			n.step()
		}
	}
	for _, n := range w.nodes {
		w.crash(n)
	}
	able := slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return !w.mayLead(n) })
	best := slices.MaxFunc(able, func(a, b *node) int {
		if b.local.Vote().Better(a.local.Vote()) {
			return -1
		}
		return 1
	})
	best.becomeLeader()
	for range 40 { // long enough for a re-epoch
		for _, n := range w.nodes {
			if n.idle() {
				w.rejoin(n, best)
			}
		}
		w.run()
		w.pass(100 * time.Millisecond)
	}
	best.submit(1<<40, "/last")
	w.run()
	w.pass(200 * time.Millisecond)
	if len(w.committed) == 0 {
		w.fail("nothing was committed in the end")
		return
	}
	for _, n := range w.nodes {
		if n.idle() {
			w.fail("node %d left in peace: %s", n.id, leaveText(n.left))
		}
		if n.local.Hard.Recovering {
			w.fail("node %d was not readmitted", n.id)
		}
		if h := n.local.Hist; h.Applied != w.committed[len(w.committed)-1].Zxid || h.End != best.local.Hist.End {
			w.fail("node %d ends at %v applied %v, leader %d at %v", n.id, h.End.Zxid, h.Applied, best.id, best.local.Hist.End.Zxid)
		}
	}
}

// rejoin plays quorum for a node without a role: the best leads, and again if it designated itself.
func (w *world) rejoin(n, best *node) {
	for !n.local.Idle() {
		n.step()
		if len(n.disk.queue) > 0 {
			n.complete()
		}
	}
	if n == best {
		n.becomeLeader()
	} else {
		n.becomeFollower(best.id, w.observer(n))
	}
}

func TestRandomInterleavings(t *testing.T) {
	seeds := uint64(3000)
	if testing.Short() {
		seeds = 300
	}
	// What the worlds must have met to mean anything.
	words := []string{"TRUNC to", "send snapshot", "read log", "install snapshot", "HANDOVER", "ESTABLISHED", "recovering", "INFORM"}
	seen := map[string]int{}
	total := 0
	for seed := range seeds {
		w := newWorld(t, seed)
		for range 1200 {
			w.move()
			if w.bad != "" {
				break
			}
		}
		if w.bad == "" {
			w.heal()
		}
		total += len(w.committed)
		for _, word := range words {
			seen[word] += strings.Count(w.trace.String(), word)
		}
		require.Empty(t, w.bad, "seed %d\n%s", seed, w.trace.String())
	}
	t.Log(total, seen)
	require.Greater(t, total, int(seeds)*4)
	for _, word := range words {
		require.Greater(t, seen[word], int(seeds)/300, word)
	}
}
