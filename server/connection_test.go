package server

import (
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// The rows 1 to 20 of the table of tricky cases, and what stands around them.

func TestConnectWithoutReadOnlyByte(t *testing.T) {
	s := serving(t, nil)
	c := s.dial()
	c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 5000}))
	b := c.frame()
	require.Len(t, b, 36)
	require.NoError(t, c.ConnectResponse.Decode(proto.NewReader(b)))
	require.False(t, c.HasReadOnly)
	require.EqualValues(t, 5000, c.TimeOut)
}

func TestTimeoutIsNegotiated(t *testing.T) {
	s := serving(t, nil)
	f := func(wanted, got int32) {
		t.Helper()
		c := s.dial()
		c.shake(&proto.ConnectRequest{TimeOut: wanted, HasReadOnly: true})
		require.Equal(t, got, c.TimeOut)
		require.Len(t, c.Passwd, 16)
		require.EqualValues(t, 1, uint64(c.SessionID)>>56)
	}
	f(1, 4000)
	f(0, 4000)
	f(-5, 4000)
	f(2147483647, 40000)
	f(7000, 7000)
}

func TestReattach(t *testing.T) {
	s := serving(t, nil)
	first := s.connect()
	require.Equal(t, proto.OK, first.create("/e", nil, proto.FlagEphemeral).Err)

	second := s.dial()
	second.shake(&proto.ConnectRequest{TimeOut: 9000, SessionID: first.SessionID, Passwd: first.Passwd, HasReadOnly: true})
	require.Equal(t, first.SessionID, second.SessionID)
	require.Equal(t, first.Passwd, second.Passwd)
	require.EqualValues(t, 9000, second.TimeOut)
	first.gone()
	r := second.get("/e", false)
	require.Equal(t, proto.OK, r.Err)

	require.Equal(t, proto.OK, second.call(1, proto.OpCloseSession, nil).Err)
	second.gone()
	s.refusesSession(second.SessionID, second.Passwd)
	other := s.connect()
	gone := other.get("/e", false)
	require.Equal(t, proto.ErrNoNode, gone.Err)
}

// refusesSession expects the answer that a client takes for expiry.
func (s *solo) refusesSession(id int64, password []byte) {
	s.t.Helper()
	c := s.dial()
	c.shake(&proto.ConnectRequest{TimeOut: 4000, SessionID: id, Passwd: password, HasReadOnly: true})
	require.Equal(s.t, proto.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: true}, c.ConnectResponse)
	c.gone()
}

// The password is checked before the live connection is touched: whoever has only the id can do no harm.
func TestWrongPasswordDoesNotTouchTheLiveConnection(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	wrong := append([]byte(nil), c.Passwd...)
	wrong[3] ^= 1
	s.refusesSession(c.SessionID, wrong)
	s.refusesSession(c.SessionID, nil)
	s.refusesSession(c.SessionID, []byte{})
	s.refusesSession(c.SessionID+1, c.Passwd)
	require.Equal(t, proto.OK, c.create("/a", nil, 0).Err)
}

func TestClientAheadIsClosed(t *testing.T) {
	s := serving(t, nil)
	c := s.dial()
	c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, LastZxidSeen: 1 << 40, HasReadOnly: true}))
	c.gone()
	ok := s.dial()
	ok.shake(&proto.ConnectRequest{TimeOut: 4000, LastZxidSeen: -1, HasReadOnly: true})
	require.NotZero(t, ok.SessionID)
}

func TestStrangersAreClosed(t *testing.T) {
	s := serving(t, nil)
	f := func(first string) {
		t.Helper()
		c := s.dial()
		c.write([]byte(first))
		c.gone()
	}
	f("GET / HTTP/1.1\r\n\r\n")
	f("\x16\x03\x01\x02\x00\x01\x00")
	f("\x00\x00\x00\x04abcd")                                                                        // too short for a handshake
	f("\x00\x00\x00\x00")                                                                            // empty
	f("\x7f\xff\xff\xff")                                                                            // 2 GiB
	f("\xff\xff\xff\xfb")                                                                            // negative
	f("abcd")                                                                                        // not a word
	f("RUOK")                                                                                        // words are case-sensitive
	f("\x00\x00\x00\x2d" + string(make([]byte, 24)) + "\x00\x00\xff\xff" + string(make([]byte, 17))) // password beyond the frame
	require.Eventually(t, func() bool { return s.rep.stats.strangers.Load() == 9 }, patience, time.Millisecond)
	s.connect()
}

func TestFramesInASession(t *testing.T) {
	s := serving(t, nil)
	f := func(b []byte) {
		t.Helper()
		c := s.connect()
		c.write(b)
		c.gone()
	}
	f([]byte("\xff\xff\xff\xfb"))
	f(binary.BigEndian.AppendUint32(nil, 1048576))
	f([]byte("\x00\x00\x00\x00"))
	f([]byte("\x00\x00\x00\x07abcdefg"))
	f([]byte("ruok"))

	c := s.connect()
	q := &proto.CreateRequest{Path: "/big", ACL: proto.OpenACL()}
	q.Data = make([]byte, 1048575-len(request(1, proto.OpCreate, q))+4)
	frame := request(1, proto.OpCreate, q)
	require.Len(t, frame, 1048575+4)
	c.write(frame)
	require.Equal(t, proto.OK, c.reply().Err)
	got := c.get("/big", false)
	require.Len(t, got.data(t), len(q.Data))
}

func TestUnknownOpIsAnsweredInItsTurn(t *testing.T) {
	s := serving(t, nil)
	f := func(op proto.Op) {
		t.Helper()
		c := s.connect()
		s.stall()
		c.write(append(request(7, proto.OpCreate, &proto.CreateRequest{Path: "/u", ACL: proto.OpenACL(), Flags: 2}), append(request(8, op, nil),
			request(9, proto.OpPing, nil)...)...))
		require.Eventually(t, func() bool { return s.held() > 0 }, patience, time.Millisecond)
		s.unstall()
		require.EqualValues(t, 7, c.reply().Xid)
		require.Equal(t, proto.ReplyHeader{Xid: 8, Zxid: -1, Err: proto.ErrUnimplemented}, c.reply().ReplyHeader)
		c.gone()
		require.Equal(t, c.SessionID, s.attach(c).SessionID, "the session lives on")
	}
	f(99)
	f(0)
	f(-1)
	f(proto.OpCheck)
	f(proto.OpCreateSession)
}

func TestPing(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.send(77, proto.OpPing, nil)
	require.Equal(t, proto.ReplyHeader{Xid: -2, Zxid: int64(txn.MakeZxid(1, 2))}, c.reply().ReplyHeader)
}

func TestCloseSession(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.write(append(request(5, proto.OpCloseSession, nil), request(6, proto.OpCreate, &proto.CreateRequest{Path: "/late", ACL: proto.OpenACL()})...))
	require.Equal(t, proto.ReplyHeader{Xid: 5, Zxid: int64(txn.MakeZxid(1, 3))}, c.reply().ReplyHeader)
	c.gone()
	late := s.connect().get("/late", false)
	require.Equal(t, proto.ErrNoNode, late.Err)
}

func TestRequestsMayFollowTheHandshakeAtOnce(t *testing.T) {
	s := serving(t, nil)
	c := s.dial()
	b := proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true})
	b = append(b, request(1, proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()})...)
	b = append(b, request(2, proto.OpExists, &proto.PathWatchRequest{Path: "/a"})...)
	for i := range b { // in every cut
		c.write(b[i : i+1])
	}
	require.NoError(t, c.ConnectResponse.Decode(proto.NewReader(c.frame())))
	require.Equal(t, proto.OK, c.reply().Err)
	require.Equal(t, proto.OK, c.reply().Err)
}

func TestMalformedRecordKeepsTheConnection(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	r := c.call(3, proto.OpCreate, nil)
	require.Equal(t, proto.ErrMarshalling, r.Err)
	require.NotZero(t, r.Zxid)
	require.Equal(t, proto.ErrMarshalling, c.call(4, proto.OpGetData, nil).Err)
	require.Equal(t, proto.OK, c.create("/x", nil, 0).Err)
}

func TestNotServingClosesHandshakes(t *testing.T) {
	cfg := testConfig()
	ln := listen(t)
	s := newSolo(t, cfg, ln)
	t.Cleanup(s.stop)
	c := s.dial()
	c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true}))
	c.gone()
	require.Equal(t, notServing, s.word("srvr"))
	require.Equal(t, "imok", s.word("ruok"))
}

func TestLimits(t *testing.T) {
	s := serving(t, func(c *Config) { c.MaxClientCnxns = 2 })
	a, b := s.connect(), s.connect()
	s.dial().gone()
	require.NoError(t, a.nc.Close())
	require.Eventually(t, func() bool { n, _ := s.rep.reg.counts(); return n == 1 }, patience, time.Millisecond)
	s.connect()
	b.send(1, proto.OpPing, nil)
	b.reply()
}

func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	s := serving(t, func(c *Config) { c.MaxHandshaking = 10 })
	old := s.connect()
	first := s.dial()
	first.write([]byte{0})
	require.Eventually(t, func() bool { n, _ := s.rep.reg.counts(); return n == 2 }, patience, time.Millisecond)
	for range 9 {
		s.dial().write([]byte{0})
	}
	require.Eventually(t, func() bool { n, _ := s.rep.reg.counts(); return n == 11 }, patience, time.Millisecond)
	s.connect() // gets in, and the oldest of the silent ones makes room
	first.gone()
	old.send(1, proto.OpPing, nil)
	old.reply()
}

// Silent connections cannot use up the places of clients, only clients can.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	s := serving(t, func(c *Config) { c.MaxConns = 3 })
	for range 10 {
		s.dial().write([]byte{0})
	}
	clients := []*client{s.connect(), s.connect(), s.connect()}
	s.dial().gone()
	for _, c := range clients {
		c.send(1, proto.OpPing, nil)
		c.reply()
	}
	s.rep.reg.mu.Lock()
	defer s.rep.reg.mu.Unlock()
	require.Empty(t, s.rep.reg.early)
	require.Empty(t, s.rep.reg.arrived)
}

func TestAuth(t *testing.T) {
	s := serving(t, func(c *Config) { c.SuperDigest = proto.DigestID([]byte("super:secret")) })
	c := s.connect()
	f := func(scheme string, auth []byte, want proto.ErrCode) {
		t.Helper()
		c := s.connect()
		c.send(-4, proto.OpAuth, &proto.AuthPacket{Scheme: scheme, Auth: auth})
		require.Equal(t, proto.ReplyHeader{Xid: -4, Err: want}, c.reply().ReplyHeader)
		if want != proto.OK {
			c.gone()
		}
	}
	f("digest", []byte("bob:secret"), proto.OK)
	f("digest", nil, proto.ErrAuthFailed)
	f("ip", nil, proto.OK)
	for _, scheme := range []string{"world", "super", "auth", "sasl", "x509", "", "nonsense"} {
		f(scheme, []byte("x"), proto.ErrAuthFailed)
	}

	locked := []proto.ACL{{Perms: proto.PermAll, ID: proto.ID{Scheme: "digest", ID: proto.DigestID([]byte("bob:secret"))}}}
	require.Equal(t, proto.OK, c.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/locked", ACL: locked}).Err)
	require.Equal(t, proto.ErrNoAuth, c.get("/locked", false).Err)
	c.send(-4, proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: []byte("bob:secret")})
	require.Equal(t, proto.OK, c.reply().Err)
	require.Equal(t, proto.OK, c.get("/locked", false).Err)
	again := s.attach(c)
	require.Equal(t, proto.ErrNoAuth, again.get("/locked", false).Err, "ids belong to the connection")
	again.send(-4, proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: []byte("super:secret")})
	require.Equal(t, proto.OK, again.reply().Err)
	require.Equal(t, proto.OK, again.get("/locked", false).Err)
}

// An auth packet is answered at once, and what came before it keeps the ids of then.
func TestAuthOvertakes(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	locked := []proto.ACL{{Perms: proto.PermAll, ID: proto.ID{Scheme: "digest", ID: proto.DigestID([]byte("bob:secret"))}}}
	c.call(1, proto.OpCreate, &proto.CreateRequest{Path: "/locked", ACL: locked})
	s.stall()
	b := request(2, proto.OpCreate, &proto.CreateRequest{Path: "/w", ACL: proto.OpenACL()})
	b = append(b, request(3, proto.OpGetData, &proto.PathWatchRequest{Path: "/locked"})...)
	b = append(b, request(-4, proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: []byte("bob:secret")})...)
	b = append(b, request(4, proto.OpGetData, &proto.PathWatchRequest{Path: "/locked"})...)
	c.write(b)
	require.EqualValues(t, -4, c.reply().Xid)
	s.unstall()
	require.Equal(t, proto.OK, c.reply().Err)
	require.Equal(t, proto.ErrNoAuth, c.reply().Err)
	require.Equal(t, proto.OK, c.reply().Err)
}

func TestFourLetterWords(t *testing.T) {
	s := serving(t, func(c *Config) {
		c.FourLetterWhitelist, c.Built = []string{"*"}, time.Date(2026, 11, 29, 8, 30, 0, 0, time.UTC)
	})
	c := s.connect()
	c.create("/e", []byte("x"), proto.FlagEphemeral)
	c.get("/e", true)
	f := func(word string, want ...string) {
		t.Helper()
		got := s.word(word)
		for _, w := range want {
			require.Regexp(t, w, got)
		}
	}
	f("ruok", "^imok$")
	f("isro", "^rw$")
	f("srvr", `^Zookeeper version: 3\.9\.5-zkd, built on 11/29/2026 08:30 UTC\n`, `\nLatency min/avg/max: \d+/[\d.]+/\d+\nReceived: 6\nSent: 5\nConnections: 2\nOutstanding: 0\nZxid: 0x100000003\nMode: standalone\nNode count: 6\n$`)
	f("stat", `\nClients:\n /127.0.0.1:\d+\[1\]\(queued=0,recved=3,sent=3\)\n`, `\n\nLatency`)
	f("cons", `,sid=0x1[0-9a-f]+,lop=GETD,est=\d+,to=4000,lcxid=0x3ea,lzxid=0x100000003,lresp=\d+,llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+\)\n`)
	f("mntr", `\nzk_znode_count\t6\n`, `\nzk_watch_count\t1\n`, `\nzk_ephemerals_count\t1\n`, `\nzk_server_state\tstandalone\n`, `\nzk_synced_followers\t1\n`,
		`\nzk_pending_syncs\t1\n`, `\nzk_approximate_data_size\t\d+\n`, `\nzk_epoch\t1\n`, `\nzk_open_file_descriptor_count\t\d+\n`)
	f("conf", `secureClientPort=-1\n`, `dataLogSize=0\n`, `tickTime=2000\n`, `minSessionTimeout=4000\n`, `serverId=0\n`)
	f("dump", `ephemeral nodes dump:\nSessions with Ephemerals \(1\):\n0x1[0-9a-f]+:\n\t/e\n`, `Global Sessions\(1\):\n0x1[0-9a-f]+\t4000ms\n`)
	f("wchs", `^1 connections watching 1 paths\nTotal watches:1\n$`)
	f("wchp", `^/e\n\t0x1[0-9a-f]+\n`)
	f("wchc", `^0x1[0-9a-f]+\n\t/e\n`)
	f("envi", `\nzookeeper.version=3.9.5-zkd, built on `)
	f("dirs", `^datadir_size: 0\nlogdir_size: 0\n$`)
	f("hash", `0x100000003`)
	f("crst", `^Connection stats reset.\n$`)
	f("srst", `^Server stats reset.\n$`)
	require.Zero(t, s.rep.stats.received.Load())
	f("gtmk", `^306$`)
	f("\xff\xf4\xff\xfd", `^$`)

	plain := serving(t, func(c *Config) { c.FourLetterWhitelist = []string{"srvr"} })
	require.Equal(t, "ruok is not executed because it is not in the whitelist.\n", plain.word("ruok"))
	require.Contains(t, plain.word("srvr"), "Mode: standalone")
}

// word sends a four-letter word in two pieces and returns the whole answer, when the server does not count its connection any more.
func (s *solo) word(w string) string {
	before, _ := s.rep.reg.counts()
	c := s.dial()
	c.write([]byte(w[:2]))
	c.write([]byte(w[2:]))
	b, err := io.ReadAll(c.nc)
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool { n, _ := s.rep.reg.counts(); return n <= before }, patience, time.Millisecond)
	return string(b)
}
