package difftest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

func TestPairingKeepsTheOrder(t *testing.T) {
	p := newPairing(true)
	f := func(a, b int64, want bool) { t.Helper(); require.Equal(t, want, p.match(a, b), "%d %d", a, b) }
	f(0, 0, true)
	f(-1, -1, true)
	f(0, 5, false)
	f(10, 100, true)
	f(10, 100, true)
	f(10, 101, false)
	f(11, 100, false)
	f(20, 90, false)
	f(20, 200, true)
	f(15, 201, false)
	f(15, 99, false)
	f(15, 150, true)
	require.Equal(t, pair{20, 200}, p.recent(0))
	require.Equal(t, pair{15, 150}, p.recent(1))
	require.Equal(t, pair{10, 100}, p.recent(9))
	require.Equal(t, pair{}, newPairing(true).recent(0))
}

func TestPairingOfSessionsHasNoOrder(t *testing.T) {
	p := newPairing(false)
	require.True(t, p.match(10, 100))
	require.True(t, p.match(20, 50))
	require.False(t, p.match(20, 100))
}

// replyTo is the frame of a reply to an exists or getChildren.
func replyTo(op proto.Op, zxid int64, code proto.ErrCode, body proto.Record) frame {
	h := proto.ReplyHeader{Xid: 5, Zxid: zxid, Err: code}
	b := h.Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	return decodeReply(op, b)
}

func TestCompareByKind(t *testing.T) {
	stat := proto.Stat{Czxid: 3, Mzxid: 4, Ctime: 1e12, Mtime: 1e12, Version: 1, EphemeralOwner: 77, Pzxid: 3}
	other := proto.Stat{Czxid: 103, Mzxid: 104, Ctime: 1e12 + 900, Mtime: 1e12, Version: 1, EphemeralOwner: 9077, Pzxid: 103}
	f := func(want string, change func(*proto.Stat)) {
		t.Helper()
		s := other
		change(&s)
		d := newKnown(false).compare(answer{frames: []frame{replyTo(proto.OpExists, 4, 0, &proto.StatResponse{Stat: stat})}},
			answer{frames: []frame{replyTo(proto.OpExists, 104, 0, &proto.StatResponse{Stat: s})}})
		if want == "" {
			require.Nil(t, d)
			return
		}
		require.NotNil(t, d, want)
		require.Equal(t, want, d.Field)
	}
	f("", func(*proto.Stat) {})
	f("reply.version", func(s *proto.Stat) { s.Version = 2 })
	f("reply.mzxid", func(s *proto.Stat) { s.Mzxid = 105 })
	f("reply.czxid", func(s *proto.Stat) { s.Czxid = 200 })
	f("reply.ctime", func(s *proto.Stat) { s.Ctime = 0 })
	f("reply.mtime", func(s *proto.Stat) { s.Mtime += 10 * apart.Milliseconds() })
	f("reply.ephemeralOwner", func(s *proto.Stat) { s.EphemeralOwner = 0 })
	f("reply.pzxid", func(s *proto.Stat) { s.Pzxid = 102 })
}

func TestCompareFramesAndEnds(t *testing.T) {
	ok, refused := replyTo(proto.OpDelete, 4, 0, nil), replyTo(proto.OpDelete, 4, proto.ErrNoNode, nil)
	stray := decodeReply(proto.OpDelete, append((&proto.ReplyHeader{Xid: 5, Zxid: 4}).Append(nil), 1, 0))
	f := func(want string, a, b answer) {
		t.Helper()
		d := newKnown(false).compare(a, b)
		require.NotNil(t, d)
		require.Equal(t, want, d.Field)
	}
	f("reply.err", answer{frames: []frame{ok}}, answer{frames: []frame{refused}})
	f("reply.length", answer{frames: []frame{ok}}, answer{frames: []frame{stray}})
	f("reply", answer{frames: []frame{ok}}, answer{})
	f("reply", answer{}, answer{frames: []frame{ok}})
	f("closed", answer{frames: []frame{ok}, closed: true}, answer{frames: []frame{ok}})
	f("silence", answer{silent: true}, answer{})
}

func eventOf(zxid int64, typ proto.EventType, path string) frame {
	h := proto.ReplyHeader{Xid: proto.XidNotification, Zxid: zxid}
	ev := proto.WatcherEvent{Type: typ, State: proto.StateSyncConnected, Path: path}
	return decodeEvent(ev.Append(h.Append(nil)))
}

// The ephemerals of one session may go in any order; everything else has one.
func TestEventsOfAClosingSessionAreASet(t *testing.T) {
	a := answer{frames: []frame{eventOf(7, proto.EventNodeDeleted, "/a"), eventOf(7, proto.EventNodeDeleted, "/b"), eventOf(8, proto.EventNodeDeleted, "/c")}}
	b := answer{frames: []frame{eventOf(17, proto.EventNodeDeleted, "/b"), eventOf(17, proto.EventNodeDeleted, "/a"), eventOf(18, proto.EventNodeDeleted, "/c")}}
	require.NotNil(t, newKnown(false).compare(a, b))
	k := newKnown(false)
	k.closing = [2]map[int64]bool{{7: true}, {17: true}}
	require.Nil(t, k.compare(a, b))
	b.frames[0], b.frames[2] = b.frames[2], b.frames[0]
	require.NotNil(t, k.compare(a, b))
}

func TestChildrenAreASet(t *testing.T) {
	list := func(names ...string) answer {
		return answer{frames: []frame{replyTo(proto.OpGetChildren, 4, 0, &proto.GetChildrenResponse{Children: names})}}
	}
	require.Nil(t, newKnown(false).compare(list("a", "b"), list("b", "a")))
	require.NotNil(t, newKnown(false).compare(list("a", "b"), list("b", "c")))
	require.NotNil(t, newKnown(false).compare(list("a"), list("a", "a")))
}

func TestDecodeConnectKeepsTheSession(t *testing.T) {
	res := proto.ConnectResponse{TimeOut: 4000, SessionID: 9, Passwd: make([]byte, 16), HasReadOnly: true}
	f, key := decodeConnect(res.Append(nil))
	require.EqualValues(t, 9, key.id)
	require.Len(t, key.password, 16)
	require.EqualValues(t, 4000, f.get("timeOut"))
	res.HasReadOnly = false
	short, _ := decodeConnect(res.Append(nil))
	require.NotNil(t, newKnown(false).compareFrames(f, short))
}

func TestEveryChosenDifferenceHasAReason(t *testing.T) {
	for _, c := range chosenDifferences {
		require.NotEmpty(t, c.reason, c.name)
	}
	d := &difference{Field: "event.path", A: "path=\"/\ufffd\ufffd\"", B: "path=\"/\U0001F600\""}
	require.NotNil(t, meant(step{}, d))
	d.A = "path=\"/x\ufffd\""
	require.Nil(t, meant(step{}, d))
	require.Nil(t, meant(step{}, &difference{A: "x", B: "x"}))
}
