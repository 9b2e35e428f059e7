package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func local(c *Config) { c.LocalSessions, c.UpgradeSessions = true, true }

func (s *solo) sessions() (global, local int) {
	s.do(func() { global = s.rep.machine.SessionCount() })
	return global, s.rep.locals.len()
}

func TestLocalSessionIsNoTransaction(t *testing.T) {
	s := serving(t, local)
	before := s.rep.LastZxid()
	c := s.connect()
	require.Equal(t, before, s.rep.LastZxid())
	global, mine := s.sessions()
	require.Equal(t, []int{0, 1}, []int{global, mine})
	require.Equal(t, proto.OK, c.create("/a", nil, 0).Err)
	require.Equal(t, proto.OK, c.set("/a", "x").Err)
	require.Contains(t, s.word("mntr"), "\nzk_local_sessions\t1\n")

	again := s.attach(c)
	require.Equal(t, c.SessionID, again.SessionID)
	c.gone()
	r := again.call(7, proto.OpCloseSession, nil)
	require.Equal(t, proto.ReplyHeader{Xid: 7, Zxid: int64(before) + 2}, r.ReplyHeader, "no transaction either")
	again.gone()
	s.refusesSession(c.SessionID, c.ConnectResponse.Passwd)
	require.Zero(t, s.rep.locals.len())
}

func TestFirstEphemeralUpgradesALocalSession(t *testing.T) {
	s := serving(t, local)
	mk := func(path string, flags proto.CreateFlags) *proto.CreateRequest {
		return &proto.CreateRequest{Path: path, ACL: proto.OpenACL(), Flags: flags}
	}
	multi := raw(proto.AppendMulti(nil, []proto.MultiOp{{Op: proto.OpCreate, Request: mk("/p", 0)}, {Op: proto.OpCreate2, Request: mk("/m", 1)}}))
	for path, q := range map[string][]byte{
		"/e": request(1, proto.OpCreate, mk("/e", proto.FlagEphemeral)),
		"/m": proto.AppendFrame(nil, &proto.RequestHeader{Xid: 1, Op: proto.OpMulti}, multi),
	} {
		c := s.connect()
		c.write(append(append([]byte(nil), q...), request(2, proto.OpCloseSession, nil)...)) // closed as what it became
		require.Equal(t, proto.OK, c.reply().Err)
		require.EqualValues(t, 2, c.reply().Xid)
		c.gone()
		d := s.connect()
		d.write(q)
		r := d.reply()
		if path == "/m" { // /p is there
			require.Equal(t, proto.OK, r.Err)
		}
		require.True(t, path == "/m" || r.Err == proto.OK)
		global, mine := s.sessions()
		require.Equal(t, []int{1, 0}, []int{global, mine}, path)
		e := s.attach(d)
		require.Equal(t, d.SessionID, e.SessionID)
		require.Equal(t, proto.OK, e.call(3, proto.OpCloseSession, nil).Err)
		global, mine = s.sessions()
		require.Equal(t, []int{0, 0}, []int{global, mine})
		n := 0
		s.do(func() { n = s.rep.machine.EphemeralCount() })
		require.Zero(t, n)
	}
}

func TestEphemeralOnLocalSessionWithoutUpgrading(t *testing.T) {
	s := serving(t, func(c *Config) { c.LocalSessions = true })
	c := s.connect()
	require.Equal(t, proto.ErrEphemeralOnLocalSession, c.create("/e", nil, proto.FlagEphemeral).Err)
	require.Equal(t, proto.ErrEphemeralOnLocalSession, c.create("no path", nil, proto.FlagEphemeralSequential).Err, "before the path")
	require.Equal(t, proto.ErrMarshalling, c.call(1, proto.OpCreate, nil).Err)
	require.Equal(t, proto.OK, c.create("/p", nil, 0).Err)
	require.Equal(t, proto.OK, c.call(2, proto.OpCreateContainer, &proto.CreateRequest{Path: "/c", ACL: proto.OpenACL(), Flags: proto.FlagEphemeral}).Err,
		"a container is none")
}

func TestUpgradeThatIsRefused(t *testing.T) {
	s := serving(t, local)
	c := s.connect()
	s.do(func() { s.refuse = txn.RefusedPendingFull })
	require.Equal(t, proto.ErrThrottledOp, c.create("/e", nil, proto.FlagEphemeral).Err)
	_, mine := s.sessions()
	require.Equal(t, 1, mine)
	s.do(func() { s.refuse = txn.NotRefused })
	require.Equal(t, proto.OK, c.create("/e", nil, proto.FlagEphemeral).Err)
	global, mine := s.sessions()
	require.Equal(t, []int{1, 0}, []int{global, mine})
}

// A session that only its server knows outlives a change of role there, and is refused elsewhere.
func TestLocalSessionStaysWhereItIs(t *testing.T) {
	cfg := testConfig()
	local(&cfg)
	s := newSolo(t, cfg, listen(t))
	t.Cleanup(s.stop)
	f := s.join()
	s.do(func() { s.lead(); f.srv.Serve(zab.Following, 1, 1) })
	c := s.connect()
	s.freeze()
	s.do(s.lead)
	require.Equal(t, proto.OK, c.create("/a", nil, 0).Err)
	f.client.refusesSession(c.SessionID, c.ConnectResponse.Passwd)
}

func TestLocalSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial, end := expiringWith(t, local)
		defer end()
		c := dial()
		c.shake(&proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true})
		for range 5 {
			time.Sleep(3 * time.Second)
			c.send(1, proto.OpPing, nil)
			c.reply()
			s.do(func() { require.Empty(t, s.rep.Touched(), "no business of the leader") })
		}
		last := time.Now()
		c.gone()
		require.GreaterOrEqual(t, time.Since(last), 4*time.Second)
		require.LessOrEqual(t, time.Since(last), 7*time.Second)
		require.Zero(t, s.rep.locals.len())
	})
}

// However short a tick is, a local session ends within two of them.
func TestLocalSessionExpiresInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, dial, end := expiringWith(t, func(c *Config) { local(c); c.TickTime = 100 * time.Millisecond })
		defer end()
		c := dial()
		c.shake(&proto.ConnectRequest{TimeOut: 200, HasReadOnly: true})
		last := time.Now()
		c.gone()
		require.GreaterOrEqual(t, time.Since(last), 200*time.Millisecond)
		require.LessOrEqual(t, time.Since(last), 400*time.Millisecond)
	})
}

// A local session that is being upgraded lives on while its client is heard, however long the upgrade takes.
func TestASlowUpgradeKeepsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial, end := expiringWith(t, local)
		defer end()
		c := dial()
		c.shake(&proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true})
		s.stall()
		c.send(1, proto.OpCreate, &proto.CreateRequest{Path: "/e", ACL: proto.OpenACL(), Flags: proto.FlagEphemeral})
		for range 9 {
			time.Sleep(time.Second)
			c.send(proto.XidPing, proto.OpPing, nil)
			s.do(func() { s.rep.Touched() })
		}
		s.unstall()
		r := c.reply()
		require.EqualValues(t, 1, r.Xid)
		require.Equal(t, proto.OK, r.Err)
		require.Zero(t, s.rep.locals.len())
	})
}
