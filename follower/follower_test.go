package follower

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// rig is one follower of server 1 whose leader is the test.
type rig struct {
	t    *testing.T
	f    *Follower
	l    *zab.Local
	fx   *zab.Effects
	now  zab.Instant
	ops  []uint64 // disk operations that are not done
	recs []txn.Record
	all  []zab.Effect
}

// history is n records of epoch e behind prev.
func history(prev zab.Position, e txn.Epoch, n int) (recs []txn.Record) {
	for i := range n {
		d := txn.NewDraft(&txn.Txn{Body: &txn.Delete{Path: fmt.Sprintf("/%d", i)}}, &txn.Request{})
		z := prev.Zxid + 1
		if prev.Zxid.Epoch() != e {
			z = txn.MakeZxid(e, 1)
		}
		r := d.Seal(z, prev.Zxid, prev.Chain)
		prev = zab.Position{Zxid: r.Zxid, Chain: r.Chain}
		recs = append(recs, r)
	}
	return recs
}

func end(recs []txn.Record) zab.Position {
	if len(recs) == 0 {
		return zab.Position{}
	}
	r := recs[len(recs)-1]
	return zab.Position{Zxid: r.Zxid, Chain: r.Chain}
}

func newRig(t *testing.T, hard zab.HardState, log []txn.Record, applied int) *rig {
	cfg := zab.DefaultConfig()
	cfg.Self = 2
	cfg.Members.Servers = []zab.Server{{ID: 1}, {ID: 2}, {ID: 3}}
	r := &rig{t: t, fx: &zab.Effects{}, recs: log}
	table := zab.EpochTable{Whole: true}
	for _, x := range log[:applied] {
		table.Extend(x.Zxid, x.Chain)
	}
	at := end(log[:applied])
	r.l = zab.NewLocal(&cfg, hard, zab.NewHistory(zab.Position{}, at, at.Zxid, table, log[applied:], cfg.TailBytes), r.fx)
	r.f = New(r.l, r.fx, 1, false, 0)
	r.take()
	return r
}

// step gives events and returns what the follower asked for.
func (r *rig) step(evs ...zab.Event) []zab.Effect {
	for _, ev := range evs {
		if d, ok := ev.(zab.DiskDone); ok {
			r.l.Done(d)
		}
	}
	r.f.Step(r.now, evs)
	return r.take()
}

func (r *rig) take() []zab.Effect {
	fx := r.fx.Take()
	for _, e := range fx {
		switch e := e.(type) {
		case zab.Append:
			r.ops = append(r.ops, e.ID)
		case zab.SaveHardState:
			r.ops = append(r.ops, e.ID)
		case zab.Truncate:
			r.ops = append(r.ops, e.ID)
		case zab.InstallSnapshot:
			r.ops = append(r.ops, e.ID)
		case zab.Initialize:
			r.ops = append(r.ops, e.ID)
		}
	}
	r.all = append(r.all, fx...)
	return fx
}

// disk completes the oldest operation.
func (r *rig) disk() []zab.Effect {
	id := r.ops[0]
	r.ops = r.ops[1:]
	return r.step(zab.DiskDone{ID: id})
}

func (r *rig) settle() {
	for len(r.ops) > 0 {
		r.disk()
	}
}

func (r *rig) hear(p zab.Packet) []zab.Effect { return r.step(zab.Received{Conn: 9, Packet: p}) }

// discovered takes a rig to where the sync header is due.
func (r *rig) discovered(e txn.Epoch) *rig {
	r.step(zab.Dialed{Conn: 9, Peer: 1})
	r.hear(&zab.LeaderInfo{Epoch: e, ClusterID: 0xc1})
	r.settle()
	require.Equal(r.t, stageHeader, r.f.stage)
	return r
}

// serving takes it to the end.
func (r *rig) serving(e txn.Epoch) *rig {
	r.discovered(e)
	r.hear(&zab.Diff{From: end(r.recs)})
	r.hear(&zab.NewLeader{Epoch: e, End: end(r.recs)})
	r.settle()
	r.hear(&zab.UpToDate{Epoch: e, Commit: end(r.recs).Zxid})
	r.settle()
	require.Equal(r.t, stageServing, r.f.stage)
	r.all = nil
	return r
}

func sent[P zab.Packet](fx []zab.Effect) (ps []P) {
	for _, e := range fx {
		if s, ok := e.(zab.Send); ok {
			if p, ok := s.Packet.(P); ok {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

func the[E zab.Effect](fx []zab.Effect) (found []E) {
	for _, e := range fx {
		if x, ok := e.(E); ok {
			found = append(found, x)
		}
	}
	return found
}

func TestWhatTheSyncHeaderMayAskFor(t *testing.T) {
	log := history(zab.Position{}, 1, 4)
	at := func(n int) zab.Position { return end(log[:n]) }
	other := func(p zab.Position) zab.Position { p.Chain++; return p }
	for _, c := range []struct {
		name       string
		applied    int
		recovering bool
		packet     zab.Packet
		fatal      int
		reject     bool
		bye        zab.ByeCode // 0: it stays
	}{
		{name: "DIFF from the end", packet: &zab.Diff{From: at(4)}},
		{name: "DIFF from elsewhere", packet: &zab.Diff{From: at(2)}, bye: zab.ByeSyncGap},
		{name: "DIFF on another history", packet: &zab.Diff{From: other(at(4))}, fatal: zab.ExitBrokenInvariant},
		{name: "TRUNC above what is applied", applied: 2, packet: &zab.Trunc{To: at(3)}},
		{name: "TRUNC to what is applied", applied: 2, packet: &zab.Trunc{To: at(2)}},
		{name: "TRUNC to nothing", packet: &zab.Trunc{}},
		{name: "TRUNC below it: R-31", applied: 2, packet: &zab.Trunc{To: at(1)}, fatal: zab.ExitTruncation},
		{name: "TRUNC below it while recovering", applied: 2, recovering: true, packet: &zab.Trunc{To: at(1)}, reject: true},
		{name: "TRUNC on another history", packet: &zab.Trunc{To: other(at(2))}, fatal: zab.ExitBrokenInvariant},
		{name: "TRUNC where no record is", packet: &zab.Trunc{To: zab.Position{Zxid: 7}}, reject: true},
		{name: "TRUNC beyond the end", packet: &zab.Trunc{To: zab.Position{Zxid: txn.MakeZxid(2, 1)}}, bye: zab.ByeSyncGap},
		{name: "SNAP above", packet: &zab.SnapBegin{At: zab.Position{Zxid: txn.MakeZxid(2, 7)}, CommonKnown: true, Common: at(4).Zxid}},
		{name: "SNAP above, common point unknown", packet: &zab.SnapBegin{At: zab.Position{Zxid: txn.MakeZxid(2, 7)}}},
		{name: "SNAP below the common point: R-67", packet: &zab.SnapBegin{At: at(2), CommonKnown: true, Common: at(3).Zxid}, reject: true},
		{name: "SNAP below what is applied: R-57", applied: 3, packet: &zab.SnapBegin{At: at(2)}, reject: true},
		{name: "SNAP below it while recovering", applied: 3, recovering: true, packet: &zab.SnapBegin{At: at(2)}},
		{name: "SNAP that undoes what is applied: R-31", applied: 3,
			packet: &zab.SnapBegin{At: zab.Position{Zxid: txn.MakeZxid(2, 7)}, CommonKnown: true, Common: at(1).Zxid}, fatal: zab.ExitTruncation},
		{name: "records without a header", packet: &zab.Propose{Records: log}, bye: zab.ByeProtocol},
		{name: "NEWLEADER without a header", packet: &zab.NewLeader{Epoch: 5}, bye: zab.ByeProtocol},
		{name: "UPTODATE without NEWLEADER", packet: &zab.UpToDate{Epoch: 5}, bye: zab.ByeProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			hard := zab.HardState{Accepted: 1, AcceptedLeader: 1, Current: 1, Recovering: c.recovering}
			r := newRig(t, hard, log, c.applied).discovered(5)
			fx := r.hear(c.packet)
			fatal, closed := the[zab.Fatal](fx), the[zab.Close](fx)
			require.Len(t, sent[*zab.SyncReject](fx), map[bool]int{true: 1}[c.reject])
			switch {
			case c.fatal != 0:
				require.Len(t, fatal, 1)
				require.Equal(t, c.fatal, fatal[0].Code)
				require.Empty(t, the[zab.Truncate](fx), "files stay as they are")
				require.NotNil(t, r.f.Leave())
			case c.bye != 0:
				require.Len(t, closed, 1)
				require.Equal(t, c.bye, closed[0].Bye.Code)
			default:
				require.Empty(t, fatal)
				require.Nil(t, r.f.Leave())
			}
		})
	}
}

func TestWhichEpochsAreAccepted(t *testing.T) {
	for _, c := range []struct {
		name       string
		hard       zab.HardState
		observer   bool
		recovering bool
		epoch      txn.Epoch
		vote, bye  bool
	}{
		{name: "a larger one", hard: zab.HardState{Accepted: 4, AcceptedLeader: 3}, epoch: 5, vote: true},
		{name: "the same of the same leader: D7", hard: zab.HardState{Accepted: 5, AcceptedLeader: 1}, epoch: 5, vote: true},
		{name: "the same of another leader", hard: zab.HardState{Accepted: 5, AcceptedLeader: 3}, epoch: 5},
		{name: "a smaller one", hard: zab.HardState{Accepted: 6, AcceptedLeader: 1}, epoch: 5, bye: true},
		{name: "a larger one while recovering", hard: zab.HardState{Accepted: 4, AcceptedLeader: 3, Recovering: true}, epoch: 5},
		{name: "beyond all: R-64", epoch: txn.MaxEpoch + 1, bye: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.hard, nil, 0)
			r.step(zab.Dialed{Conn: 9, Peer: 1})
			fx := r.hear(&zab.LeaderInfo{Epoch: c.epoch, ClusterID: 0xc1})
			if c.bye {
				require.NotNil(t, r.f.Leave())
				return
			}
			require.Empty(t, sent[*zab.AckEpoch](fx), "the promise is not on disk (O2)")
			r.settle()
			acks := sent[*zab.AckEpoch](r.all)
			require.Len(t, acks, 1)
			require.Equal(t, c.vote, acks[0].Vote)
			require.EqualValues(t, 0xc1, r.l.Hard.ClusterID)
		})
	}
}

func TestAnObserverPromisesNothing(t *testing.T) {
	r := newRig(t, zab.HardState{Accepted: 9, AcceptedLeader: 3, Current: 2}, nil, 0)
	r.f.observer = true
	r.discovered(5)
	r.hear(&zab.Diff{})
	r.hear(&zab.NewLeader{Epoch: 5})
	r.settle()
	require.Equal(t, zab.HardState{ClusterID: 0xc1, Accepted: 9, AcceptedLeader: 3, Current: 5}, r.l.Hard)

	r = newRig(t, zab.HardState{Accepted: 9, AcceptedLeader: 3, Current: 6}, nil, 0)
	r.f.observer = true
	r.step(zab.Dialed{Conn: 9, Peer: 1})
	r.hear(&zab.LeaderInfo{Epoch: 5})
	require.NotNil(t, r.f.Leave(), "older than its own history")
}

func TestAGapIsNotLoggedOver(t *testing.T) {
	log := history(zab.Position{}, 1, 5)
	r := newRig(t, zab.HardState{Accepted: 1, AcceptedLeader: 1, Current: 1}, log[:2], 0).serving(1)
	fx := r.hear(&zab.Propose{Records: log[3:]})
	require.Empty(t, the[zab.Append](fx))
	require.Equal(t, zab.ByeSyncGap, the[zab.Close](fx)[0].Bye.Code)
	require.True(t, r.f.Leave().Lost)
}

func TestDialling(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0)
	dials := 0
	for r.f.Leave() == nil {
		r.step(zab.DialFailed{Peer: 1, Refused: true})
		require.Less(t, r.f.Deadline(), r.now.Add(time.Second))
		r.now = r.f.Deadline()
		dials += len(the[zab.Dial](r.step(zab.Tick{})))
	}
	require.True(t, r.f.Leave().Unreachable)
	require.False(t, r.f.Leave().Lost)
	require.Equal(t, zab.Instant(r.l.Cfg.ConnectLimit), r.now)
	require.Greater(t, dials, 10)
}

func TestSilenceOfTheLeader(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0).serving(1)
	for range 30 {
		r.now = r.now.Add(100 * time.Millisecond)
		r.hear(&zab.Ping{Nonce: 1})
	}
	require.Nil(t, r.f.Leave())
	r.now = r.f.Deadline()
	r.step(zab.Tick{})
	require.True(t, r.f.Leave().Lost)

	// ten seconds in which this process did not run are not the leader's silence; the ping is in the socket.
	r = newRig(t, zab.HardState{}, nil, 0).serving(1)
	r.now = r.now.Add(10 * time.Second)
	r.step(zab.Tick{})
	require.Nil(t, r.f.Leave())
	r.now = r.f.Deadline()
	r.step(zab.Tick{})
	require.NotNil(t, r.f.Leave(), "it was not")

	// Nor is time in which it ran and did not read.
	r = newRig(t, zab.HardState{}, nil, 0).serving(1)
	for range 30 {
		r.now = r.f.Deadline()
		r.step(zab.Tick{}, zab.Unread{Conn: r.f.conn})
	}
	require.Nil(t, r.f.Leave())
	r.now = r.f.Deadline()
	r.step(zab.Tick{}, zab.Unread{Conn: r.f.conn + 1})
	require.NotNil(t, r.f.Leave(), "that was another connection")
}

func TestTouchesRideInTheAnswerToAPing(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0).serving(1)
	touch := zab.Touch{Session: 5, TimeoutMillis: 4000}
	pong := sent[*zab.Pong](r.step(zab.Touched{Touches: []zab.Touch{touch}}, zab.Received{Conn: 9, Packet: &zab.Ping{Nonce: 44}}))[0]
	require.EqualValues(t, 44, pong.Nonce)
	require.Equal(t, []zab.Touch{touch}, pong.Touches)
	require.Empty(t, sent[*zab.Pong](r.hear(&zab.Ping{Nonce: 45}))[0].Touches, "once")
}

func TestAnswersWaitUntilTheyAreApplied(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0).serving(1)
	r.recs = history(zab.Position{}, 1, 2)
	r.step(zab.SyncAsked{ID: 3}, zab.RevalidateAsked{Revalidate: zab.Revalidate{ID: 4, Session: 5}})
	require.Len(t, sent[*zab.Sync](r.all), 1)
	require.Len(t, sent[*zab.Revalidate](r.all), 1)
	fx := r.hear(&zab.Synced{ID: 3, Zxid: txn.MakeZxid(1, 1), OK: true})
	fx = append(fx, r.hear(&zab.Revalidated{ID: 4, OK: true, Valid: true, Zxid: txn.MakeZxid(1, 2)})...)
	require.Empty(t, the[zab.SyncAnswer](fx))
	r.hear(&zab.Propose{Records: r.recs, Commit: txn.MakeZxid(1, 1)})
	fx = r.disk()
	require.Len(t, the[zab.Apply](fx), 1)
	require.Len(t, the[zab.SyncAnswer](fx), 1)
	require.Empty(t, the[zab.RevalidateAnswer](fx))
	require.IsType(t, zab.SyncAnswer{}, fx[len(fx)-1], "applied first")
	require.Len(t, the[zab.RevalidateAnswer](r.hear(&zab.Commit{Commit: txn.MakeZxid(1, 2)})), 1)
}

func TestNothingOfItsClientsIsLostInSilence(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0).discovered(1)
	req := txn.Request{Session: 5, Cxid: 6, Op: proto.OpDelete, Origin: 2, Conn: 7, Seq: 8}
	fx := r.step(zab.Submit{Requests: []txn.Request{req}}, zab.SyncAsked{ID: 1}, zab.RevalidateAsked{Revalidate: zab.Revalidate{ID: 2}})
	require.Equal(t, []zab.Refusal{{Session: 5, Cxid: 6, Conn: 7, Code: txn.RefusedNotLeader, Seq: 8}}, the[zab.Refuse](fx)[0].Refusals)
	require.False(t, the[zab.SyncAnswer](fx)[0].Synced.OK)
	require.False(t, the[zab.RevalidateAnswer](fx)[0].Revalidated.OK)
	r = newRig(t, zab.HardState{}, nil, 0).serving(1)
	require.Equal(t, []txn.Request{req}, sent[*zab.Requests](r.step(zab.Submit{Requests: []txn.Request{req}}))[0].Requests)
	require.Len(t, the[zab.Refuse](r.hear(&zab.Refused{Refusals: []zab.Refusal{{Conn: 7}}})), 1)
}

func TestRequestsAreCutIntoFrames(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0).serving(1)
	var reqs, got []txn.Request
	for i := range 2500 {
		reqs = append(reqs, txn.Request{Cxid: int32(i), Conn: 7, Payload: make([]byte, i%5000)})
	}
	frames := sent[*zab.Requests](r.step(zab.Submit{Requests: reqs}))
	for _, p := range frames {
		size := 0
		for i := range p.Requests {
			size += p.Requests[i].Size()
		}
		require.LessOrEqual(t, size, r.l.Cfg.BatchBytes)
		require.LessOrEqual(t, len(p.Requests), r.l.Cfg.BatchCount)
		got = append(got, p.Requests...)
	}
	require.Equal(t, reqs, got)
	require.Less(t, len(frames), 10)
}

func TestAFullDiskTakesNoRecords(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0).serving(1)
	r.l.DiskFull = true
	require.Empty(t, the[zab.Close](r.hear(&zab.Ping{Nonce: 1})))
	require.Nil(t, r.f.Leave(), "pings and reads go on")
	fx := r.hear(&zab.Propose{Records: history(zab.Position{}, 1, 1)})
	require.Empty(t, the[zab.Append](fx))
	require.NotNil(t, r.f.Leave())
}

func TestLeaving(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0).serving(1)
	fx := r.step(zab.Stop{}, zab.SyncAsked{ID: 1})
	require.Equal(t, zab.ByeGoodbye, the[zab.Close](fx)[0].Bye.Code)
	require.True(t, r.f.Leave().Stopped)
	require.Len(t, fx, 1, "nothing after that (R-43)")
	require.Empty(t, r.hear(&zab.Ping{Nonce: 1}))

	r = newRig(t, zab.HardState{}, nil, 0).serving(1)
	r.hear(&zab.Handover{Target: 2, Epoch: 1})
	require.EqualValues(t, 2, r.f.Leave().Designated)

	r = newRig(t, zab.HardState{}, nil, 0).serving(1)
	require.Empty(t, r.step(zab.ConnDown{Conn: 9}))
	require.True(t, r.f.Leave().Lost)

	r = newRig(t, zab.HardState{}, nil, 0).discovered(1)
	r.step(zab.ConnDown{Conn: 9})
	require.False(t, r.f.Leave().Lost, "never was in step")
}

// TestReadmission: only the record with the number of this very recovery ends it; the next ack says so.
func TestReadmission(t *testing.T) {
	readmit := func(prev zab.Position, server zab.ServerID, id uint64) txn.Record {
		d := txn.NewDraft(&txn.Txn{Body: &txn.Readmit{Server: server, RecoveryID: id}}, &txn.Request{})
		z := prev.Zxid + 1
		if prev.Zxid == 0 {
			z = txn.MakeZxid(1, 1)
		}
		return d.Seal(z, prev.Zxid, prev.Chain)
	}
	r := newRig(t, zab.HardState{Recovering: true, RecoveryID: 77}, nil, 0).serving(1)
	var log []txn.Record
	for _, c := range []struct {
		server zab.ServerID
		id     uint64
		over   bool
	}{{2, 76, false}, {3, 77, false}, {2, 77, true}} {
		log = append(log, readmit(end(log), c.server, c.id))
		last := log[len(log)-1]
		r.all = nil
		r.hear(&zab.Propose{Records: []txn.Record{last}})
		require.Empty(t, the[zab.SaveHardState](r.disk()), "not committed")
		r.hear(&zab.Commit{Commit: last.Zxid})
		require.Len(t, the[zab.SaveHardState](r.all), map[bool]int{true: 1}[c.over])
		for _, a := range sent[*zab.Ack](r.all) {
			require.False(t, a.Votable, "not on disk")
		}
		r.all = nil
		r.settle()
		require.Equal(t, !c.over, r.l.Hard.Recovering)
	}
	acks := sent[*zab.Ack](r.all)
	require.Len(t, acks, 1)
	require.True(t, acks[0].Votable)
}

func TestStatusSaysWhyItDoesNotServe(t *testing.T) {
	r := newRig(t, zab.HardState{}, nil, 0)
	var s zab.Status
	r.f.Status(&s)
	require.Equal(t, "dialling", s.Reason)
	require.Equal(t, zab.Discovery, s.Phase)
	r.serving(1)
	s = zab.Status{}
	r.f.Status(&s)
	require.Empty(t, s.Reason)
	require.Equal(t, zab.Broadcast, s.Phase)
	require.EqualValues(t, 1, s.SyncDiff)
	require.EqualValues(t, 1, r.f.Epoch())
}

// TestNonsenseCostsTheConnectionOnly: whatever a leader says, nothing breaks, nothing applied is cut, nothing is acked that is not on disk.
func TestNonsenseCostsTheConnectionOnly(t *testing.T) {
	log := history(zab.Position{}, 1, 6)
	for seed := range uint64(5000) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		hard := zab.HardState{Accepted: 1, AcceptedLeader: 1, Current: 1, Recovering: rnd.IntN(4) == 0, RecoveryID: 5}
		n := rnd.IntN(5)
		r := newRig(t, hard, log[:n], rnd.IntN(n+1))
		r.step(zab.Dialed{Conn: 9, Peer: 1})
		for range 40 {
			if len(r.ops) > 0 && rnd.IntN(2) == 0 {
				r.disk()
				continue
			}
			applied := r.l.Hist.Applied
			for _, e := range r.hear(nonsense(rnd, log)) {
				if cut, ok := e.(zab.Truncate); ok {
					require.GreaterOrEqual(t, cut.To.Zxid, applied, "seed %d", seed)
				}
			}
			h := r.l.Hist
			require.LessOrEqual(t, h.Applied, min(h.Commit, h.Durable), "seed %d", seed)
			require.LessOrEqual(t, h.Commit, h.End.Zxid, "seed %d", seed)
		}
		for _, a := range sent[*zab.Ack](r.all) {
			require.LessOrEqual(t, a.Durable, r.l.Hist.Durable, "seed %d", seed)
		}
	}
}

func nonsense(rnd *rand.Rand, log []txn.Record) zab.Packet {
	i := rnd.IntN(len(log))
	at := zab.Position{Zxid: log[i].Zxid, Chain: log[i].Chain}
	if rnd.IntN(5) == 0 {
		at = zab.Position{}
	}
	switch rnd.IntN(12) {
	case 0, 1:
		return &zab.LeaderInfo{Epoch: txn.Epoch(1 + rnd.IntN(3))}
	case 2:
		return &zab.Diff{From: at}
	case 3:
		return &zab.Trunc{To: at}
	case 4:
		return &zab.SnapBegin{At: at, Common: log[rnd.IntN(len(log))].Zxid, CommonKnown: rnd.IntN(2) == 0}
	case 5, 6:
		return &zab.Propose{Commit: at.Zxid, Records: log[i : i+rnd.IntN(len(log)-i)]}
	case 7:
		return &zab.NewLeader{Epoch: txn.Epoch(1 + rnd.IntN(3)), End: at}
	case 8:
		return &zab.UpToDate{Epoch: txn.Epoch(1 + rnd.IntN(3)), Commit: at.Zxid}
	case 9:
		return &zab.Ping{Nonce: rnd.Uint64(), Commit: at.Zxid}
	case 10:
		return &zab.Commit{Commit: at.Zxid}
	}
	return &zab.Pong{}
}
