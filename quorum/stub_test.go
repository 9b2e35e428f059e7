package quorum

import (
	"fmt"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// stubCore stands for a leader or follower core: it does what the test says and keeps what it was told.
type stubCore struct {
	local    *zab.Local
	fx       *zab.Effects
	role     zab.Role
	leader   zab.ServerID
	phase    zab.Phase
	epoch    txn.Epoch
	deadline zab.Instant
	leave    *zab.Leave
	events   []zab.Event
	onStep   func(now zab.Instant, evs []zab.Event)
}

func (c *stubCore) Step(now zab.Instant, evs []zab.Event) {
	if c.leave != nil {
		return
	}
	c.events = append(c.events, evs...)
	if c.onStep != nil {
		c.onStep(now, evs)
	}
}

func (c *stubCore) Deadline() zab.Instant  { return c.deadline }
func (c *stubCore) Leave() *zab.Leave      { return c.leave }
func (c *stubCore) Phase() zab.Phase       { return c.phase }
func (c *stubCore) Established() txn.Epoch { return c.epoch }
func (c *stubCore) Status(s *zab.Status)   { s.SyncDiff++ }

var levels = map[zab.NoteLevel]string{zab.Info: "info", zab.Warn: "warn", zab.Alarm: "alarm"}

// stub puts stub cores into n and returns a function that gives the latest.
func stub(n *Node) func() *stubCore {
	var last *stubCore
	n.cores.leader = func(local *zab.Local, fx *zab.Effects, _ zab.Instant) roleCore {
		last = &stubCore{local: local, fx: fx, role: zab.Leading, leader: n.cfg.Self, phase: zab.Discovery, deadline: zab.Never}
		return last
	}
	n.cores.follower = func(local *zab.Local, fx *zab.Effects, lead zab.ServerID, observer bool, _ zab.Instant) roleCore {
		last = &stubCore{local: local, fx: fx, role: zab.Following, leader: lead, phase: zab.Discovery, deadline: zab.Never}
		if observer {
			last.role = zab.Observing
		}
		fx.Add(zab.Dial{Peer: lead})
		return last
	}
	return func() *stubCore { return last }
}

// server describes a node under test.
type server struct {
	self              zab.ServerID
	voters, observers []zab.ServerID
	current           txn.Epoch
	end               txn.Zxid
	fresh, recovering bool
	vouched           bool
}

func (s server) config() *zab.Config {
	cfg := zab.DefaultConfig()
	cfg.Self, cfg.Seed, cfg.ClusterID = s.self, 1, 7
	cfg.Secret = []byte("secret")
	for _, id := range s.voters {
		cfg.Members.Servers = append(cfg.Members.Servers, zab.Server{ID: id})
	}
	for _, id := range s.observers {
		cfg.Members.Servers = append(cfg.Members.Servers, zab.Server{ID: id, Observer: true})
	}
	return &cfg
}

func (s server) recovered() Recovered {
	at := zab.Position{Zxid: s.end, Chain: uint64(s.end)}
	return Recovered{
		Hard:  zab.HardState{Accepted: s.current, Current: s.current, Recovering: s.recovering},
		Hist:  zab.NewHistory(at, at, s.end, zab.EpochTable{}, nil, 1<<20),
		Fresh: s.fresh, Vouched: s.vouched,
	}
}

func (s server) node() (*Node, func() *stubCore) {
	n := New(s.config(), s.recovered(), 0)
	return n, stub(n)
}

func voteString(v zab.Vote) string {
	if v.Leader == 0 {
		return "none"
	}
	low := ""
	if v.DiskLow {
		low = ",low"
	}
	return fmt.Sprintf("%d(%d,%v%s)", v.Leader, v.Epoch, v.Zxid, low)
}

func notificationString(m zab.Notification) string {
	s := fmt.Sprintf("%v round=%d", m.State, m.Round)
	if m.State == zab.Looking {
		s += " vote=" + voteString(m.Vote)
	} else {
		s += fmt.Sprintf(" leader=%d established=%d", m.Leader, m.EstablishedEpoch)
	}
	if !m.Votable {
		s += " unvotable"
	}
	if m.Fresh {
		s += " fresh"
	}
	if m.Draining {
		s += " draining"
	}
	if len(m.Unreachable) > 0 {
		s += fmt.Sprintf(" unreachable=%v", m.Unreachable)
	}
	if m.Designated != 0 {
		s += fmt.Sprintf(" designated=%d", m.Designated)
	}
	return s
}

func effectString(e zab.Effect) string {
	switch e := e.(type) {
	case zab.Tell:
		return fmt.Sprintf("tell %d #%d/%d %s", e.To, e.Notification.Seq, e.Notification.AnswerTo, notificationString(e.Notification))
	case zab.Dial:
		return fmt.Sprintf("dial %d", e.Peer)
	case zab.Close:
		return fmt.Sprintf("close conn %d: %v", e.Conn, e.Bye.Code)
	case zab.Freeze:
		return "freeze: " + e.Reason
	case zab.Note:
		s := fmt.Sprintf("note %q", e.Message)
		if e.Message == zab.NoteWaiting {
			s = fmt.Sprintf("%s note %q", levels[e.Level], e.Message) // nobody is served meanwhile: operators look for it
		}
		if e.Message == zab.NoteRole {
			s += " " + e.Role.String()
		}
		if e.Peer != 0 {
			s += fmt.Sprintf(" peer=%d", e.Peer)
		}
		return s + fmt.Sprintf(": %s", e.Reason)
	case zab.SaveHardState:
		s := fmt.Sprintf("save accepted=%d current=%d", e.State.Accepted, e.State.Current)
		if e.State.Recovering {
			s += fmt.Sprintf(" recovering=%t id!=0:%t", e.State.Recovering, e.State.RecoveryID != 0)
		}
		return s
	case zab.Serve:
		return fmt.Sprintf("serve %v leader=%d epoch=%d", e.Role, e.Leader, e.Epoch)
	case zab.Refuse:
		return fmt.Sprintf("refuse %d: %v", len(e.Refusals), e.Refusals[0].Code)
	case zab.SyncAnswer:
		return fmt.Sprintf("sync answer ok=%t", e.Synced.OK)
	case zab.RevalidateAnswer:
		return fmt.Sprintf("revalidate answer ok=%t", e.Revalidated.OK)
	}
	return fmt.Sprintf("%T", e)[len("zab."):]
}
