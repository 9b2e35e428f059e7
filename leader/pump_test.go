package leader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/follower"
	"github.com/zkd-project/zkd/leader"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// pump is an ensemble in memory: real leader and follower cores, a fake shell around each, connections as queues and disks whose
// completions the test gives out one by one. Roles are given by the test in place of quorum.
type pump struct {
	t     testing.TB
	cfg   zab.Config
	now   zab.Instant
	nodes []*node // ids are 1, 2, 3, …
	pipes []*pipe
	conns zab.ConnID
	trace strings.Builder
	check func(n *node, fx zab.Effect) // invariants, before each effect is carried out
}

// pipe is one direction of a data connection.
type pipe struct {
	from, to zab.ServerID
	conn     zab.ConnID
	queue    []zab.Event
	held     bool
}

// disk is what survives a crash, and the operations that are not done.
type disk struct {
	hard    zab.HardState
	base    zab.Position
	table   zab.EpochTable // at base
	snap    zab.Position
	snapAt  zab.EpochTable
	records []txn.Record
	queue   []zab.Effect
	held    bool
}

type node struct {
	p       *pump
	id      zab.ServerID
	local   *zab.Local
	fx      *zab.Effects
	lead    *leader.Leader
	follow  *follower.Follower
	inbox   []zab.Event
	again   []zab.Event // answers within the turn
	disk    disk
	applied []txn.Record // since start, behind disk.base of that start
	from    txn.Zxid     // applied starts behind it
	fatal   *zab.Fatal
	left    *zab.Leave
	ending  bool // sessions are ending: AskSession says so
	unknown bool // AskSession knows no session
	receive *zab.SnapBegin
}

func newPump(t testing.TB, n int) *pump {
	p := &pump{t: t, cfg: zab.DefaultConfig()}
	p.cfg.GatherLimit = 0
	p.cfg.ClusterID, p.cfg.Secret = 0xc1, []byte("0123456789abcdef")
	for i := 1; i <= n; i++ {
		p.cfg.Members.Servers = append(p.cfg.Members.Servers, zab.Server{ID: zab.ServerID(i)})
		p.nodes = append(p.nodes, &node{p: p, id: zab.ServerID(i), disk: disk{table: zab.EpochTable{Whole: true}}})
	}
	return p
}

func (p *pump) node(id zab.ServerID) *node { return p.nodes[id-1] }

func (p *pump) printf(format string, args ...any) { fmt.Fprintf(&p.trace, format+"\n", args...) }

// boot starts a process from what its disk holds.
func (n *node) boot() {
	cfg := n.p.cfg
	cfg.Self = n.id
	n.disk.queue = nil
	n.inbox, n.again, n.lead, n.follow, n.left, n.receive = nil, nil, nil, nil, nil, nil
	n.applied, n.from = nil, n.disk.base.Zxid
	n.fx = &zab.Effects{}
	h := zab.NewHistory(n.disk.base, n.disk.base, n.disk.base.Zxid, n.disk.table.Clone(), n.disk.records, cfg.TailBytes)
	h.Snapshot, h.SnapSize = n.disk.snap, 1
	n.local = zab.NewLocal(&cfg, n.disk.hard, h, n.fx)
}

func (n *node) becomeLeader() {
	n.left, n.follow = nil, nil
	n.lead = leader.New(n.local, n.fx, n.p.now)
	n.perform()
}

func (n *node) becomeFollower(of zab.ServerID, observer bool) {
	n.left, n.lead = nil, nil
	n.follow = follower.New(n.local, n.fx, of, observer, n.p.now)
	n.perform()
}

func (n *node) idle() bool { return n.lead == nil && n.follow == nil }

// step gives the core everything that waits and carries out what it asks for.
func (n *node) step() {
	evs := n.inbox
	n.inbox = nil
	if n.local == nil {
		return
	}
	for _, ev := range evs {
		if done, ok := ev.(zab.DiskDone); ok {
			n.local.Done(done)
		}
	}
	n.stepWith(evs)
}

func (n *node) stepWith(evs []zab.Event) {
	var left *zab.Leave
	switch {
	case n.lead != nil:
		n.lead.Step(n.p.now, evs)
		left = n.lead.Leave()
	case n.follow != nil:
		n.follow.Step(n.p.now, evs)
		left = n.follow.Leave()
	}
	n.perform()
	if left != nil && !n.idle() {
		n.lead, n.follow, n.left = nil, nil, left
		n.p.printf("%d LEAVES %s", n.id, leaveText(left))
	}
}

func (n *node) perform() {
	for _, e := range n.fx.Take() {
		if n.p.check != nil {
			n.p.check(n, e)
		}
		n.carryOut(e)
	}
	if again := n.again; len(again) > 0 { // the state's answers, in the same turn
		n.again = nil
		n.stepWith(again)
	}
}

func (n *node) carryOut(e zab.Effect) {
	p := n.p
	if s := effectText(e); s != "" {
		p.printf("%d %s", n.id, s)
	}
	switch e := e.(type) {
	case zab.Dial:
		p.dial(n, e.Peer)
	case zab.Send:
		if pipe := p.pipe(n.id, e.Conn); pipe != nil {
			pipe.queue = append(pipe.queue, zab.Received{Conn: e.Conn, Packet: e.Packet, Epoch: e.Epoch})
		}
	case zab.Close:
		if pipe := p.pipe(n.id, e.Conn); pipe != nil {
			bye := e.Bye
			pipe.queue = append(pipe.queue, zab.Received{Conn: e.Conn, Packet: &bye}, zab.ConnDown{Conn: e.Conn})
		}
	case zab.Append, zab.SaveHardState, zab.Truncate, zab.InstallSnapshot, zab.Initialize:
		n.disk.queue = append(n.disk.queue, e)
	case zab.ReadLog:
		n.readLog(e)
	case zab.SendSnapshot:
		if pipe := p.pipe(n.id, e.Conn); pipe != nil {
			begin := &zab.SnapBegin{At: n.disk.snap, Common: e.Common, CommonKnown: e.CommonKnown, Size: 1, Table: n.disk.snapAt.Clone()}
			pipe.queue = append(pipe.queue, zab.Received{Conn: e.Conn, Packet: begin}, zab.Received{Conn: e.Conn, Packet: &zab.SnapEnd{}})
			n.inbox = append(n.inbox, zab.SnapshotSent{Conn: e.Conn, At: n.disk.snap})
		}
	case zab.ReceiveSnapshot:
		n.receive = &e.Begin
	case zab.Prepare:
		var drafts []txn.Draft
		for i := range e.Requests {
			drafts = append(drafts, n.draft(&e.Requests[i]))
		}
		n.again = append(n.again, zab.Prepared{Drafts: drafts})
	case zab.AskSession:
		n.again = append(n.again, zab.SessionState{Conn: e.Conn, Ask: e.Ask, Known: !n.unknown, Ending: n.ending})
	case zab.Apply:
		n.applied = append(n.applied, e.Records...)
	case zab.Fatal:
		n.fatal = &e
	}
}

// draft is the state: whatever is asked comes to the same kind of transaction, and "/refuse" to none.
func (n *node) draft(r *txn.Request) txn.Draft {
	if string(r.Payload) == "/refuse" {
		return txn.RefuseDraft(r, txn.RefusedSessionMoved)
	}
	t := &txn.Txn{Header: txn.Header{Session: r.Session, Cxid: r.Cxid, Origin: r.Origin, Conn: r.Conn, Op: r.Op}}
	switch r.Op {
	case txn.OpSecret:
		t.Body = &txn.Secret{Secret: r.Payload}
	case txn.OpReadmit:
		sid, id, _ := txn.ParseReadmit(r.Payload)
		t.Body = &txn.Readmit{Server: sid, RecoveryID: id}
	case proto.OpCloseSession:
		t.Body = &txn.CloseSession{}
	default:
		t.Body = &txn.Delete{Path: string(r.Payload)}
	}
	return txn.NewDraft(t, r)
}

func (n *node) readLog(e zab.ReadLog) {
	i := slices.IndexFunc(n.disk.records, func(r txn.Record) bool { return r.Prev == e.After })
	if i < 0 {
		n.inbox = append(n.inbox, zab.LogRead{Conn: e.Conn, After: e.After, Gone: true})
		return
	}
	j, size := i, 0
	for j < len(n.disk.records) && (j == i || size+len(n.disk.records[j].Bytes) <= e.MaxBytes) {
		size += len(n.disk.records[j].Bytes)
		j++
	}
	n.inbox = append(n.inbox, zab.LogRead{Conn: e.Conn, After: e.After, Records: n.disk.records[i:j:j]})
}

func (p *pump) dial(n *node, peer zab.ServerID) {
	if p.node(peer).lead == nil {
		n.inbox = append(n.inbox, zab.DialFailed{Peer: peer, Refused: true})
		return
	}
	p.conns++
	p.pipes = append(p.pipes, &pipe{from: n.id, to: peer, conn: p.conns}, &pipe{from: peer, to: n.id, conn: p.conns})
	n.inbox = append(n.inbox, zab.Dialed{Conn: p.conns, Peer: peer})
	p.node(peer).inbox = append(p.node(peer).inbox, zab.Accepted{Conn: p.conns, Peer: n.id})
}

func (p *pump) pipe(from zab.ServerID, conn zab.ConnID) *pipe {
	for _, x := range p.pipes {
		if x.from == from && x.conn == conn {
			return x
		}
	}
	return nil
}

// cut breaks every connection between two nodes; what was on its way is lost.
func (p *pump) cut(a, b zab.ServerID) {
	p.pipes = slices.DeleteFunc(p.pipes, func(x *pipe) bool {
		if x.from == a && x.to == b || x.from == b && x.to == a {
			p.node(x.to).inbox = append(p.node(x.to).inbox, zab.ConnDown{Conn: x.conn, Active: true})
			return true
		}
		return false
	})
}

// crash loses what is not on the platter.
func (p *pump) crash(n *node) {
	for _, o := range p.nodes {
		if o != n {
			p.cut(n.id, o.id)
		}
	}
	n.boot()
}

// deliver takes one packet off a pipe.
func (p *pump) deliver(x *pipe) {
	ev := x.queue[0]
	x.queue = x.queue[1:]
	n := p.node(x.to)
	switch e := ev.(type) {
	case zab.ConnDown:
		p.cut(x.from, x.to)
		return
	case zab.Received:
		if _, end := e.Packet.(*zab.SnapEnd); end { // the shell's business
			if n.receive != nil {
				n.inbox = append(n.inbox, zab.SnapshotReceived{Conn: e.Conn, Begin: *n.receive})
			}
			return
		}
	}
	n.inbox = append(n.inbox, ev)
}

// complete puts the oldest disk operation on the platter.
func (n *node) complete() {
	op := n.disk.queue[0]
	n.disk.queue = n.disk.queue[1:]
	id := uint64(0)
	switch op := op.(type) {
	case zab.Append:
		id = op.ID
		n.disk.records = append(slices.Clip(n.disk.records), op.Records...)
	case zab.SaveHardState:
		id = op.ID
		n.disk.hard = op.State
	case zab.Truncate:
		id = op.ID
		n.disk.records = slices.DeleteFunc(slices.Clone(n.disk.records), func(r txn.Record) bool { return r.Zxid > op.To.Zxid })
	case zab.InstallSnapshot:
		id = op.ID
		n.disk.records, n.disk.base, n.disk.table = nil, op.Begin.At, op.Begin.Table.Clone()
		n.disk.snap, n.disk.snapAt = op.Begin.At, op.Begin.Table.Clone()
		n.applied, n.from = nil, op.Begin.At.Zxid
	case zab.Initialize:
		id = op.ID
	}
	n.inbox = append(n.inbox, zab.DiskDone{ID: id})
}

// run moves everything that is not held until nothing moves, in a fixed order.
func (p *pump) run() {
	for range 100_000 {
		if !p.runOne() {
			return
		}
	}
	require.Fail(p.t, "the ensemble never comes to rest")
}

func (p *pump) runOne() bool {
	for _, n := range p.nodes {
		if len(n.inbox) > 0 {
			n.step()
			return true
		}
	}
	for _, x := range p.pipes {
		if len(x.queue) > 0 && !x.held {
			p.deliver(x)
			return true
		}
	}
	for _, n := range p.nodes {
		if len(n.disk.queue) > 0 && !n.disk.held {
			n.complete()
			return true
		}
	}
	return false
}

// pass lets time go by in steps of ten milliseconds.
func (p *pump) pass(d time.Duration) {
	const step = 10 * time.Millisecond
	for ; d > 0; d -= step {
		p.now = p.now.Add(step)
		for _, n := range p.nodes {
			if n.due() <= p.now {
				n.inbox = append(n.inbox, zab.Tick{})
			}
		}
		p.run()
	}
}

func (n *node) due() zab.Instant {
	switch {
	case n.lead != nil:
		return n.lead.Deadline()
	case n.follow != nil:
		return n.follow.Deadline()
	}
	return zab.Never
}

func (n *node) submit(conn uint64, paths ...string) {
	var reqs []txn.Request
	for i, path := range paths {
		reqs = append(reqs, txn.Request{Session: 7, Cxid: int32(i + 1), Op: proto.OpDelete, Origin: n.id, Conn: conn, Payload: []byte(path)})
	}
	n.inbox = append(n.inbox, zab.Submit{Requests: reqs})
}
