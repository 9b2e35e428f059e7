package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// loading is a server whose order of the znodes is not there before the channel is closed.
func loading(t *testing.T) (*solo, chan struct{}) {
	s := newSolo(t, testConfig(), listen(t))
	t.Cleanup(s.stop)
	fill := make(chan struct{})
	s.rep.machineCfg.Aside = func(do func()) func(wait bool) bool {
		end := make(chan struct{})
		go func() {
			defer close(end)
			<-fill
			do()
		}()
		return func(wait bool) bool {
			if wait {
				<-end
			}
			select {
			case <-end:
				return true
			default:
				return false
			}
		}
	}
	s.do(func() {
		s.rep.Begin()
		must(s.rep.Clear())
		s.rep.Ready()
	})
	s.do(s.lead)
	return s, fill
}

// queued is how many requests wait in the queues.
func (s *solo) queued() (n int) {
	for _, c := range s.rep.reg.attached() {
		c.mu.Lock()
		n += c.q.len()
		c.mu.Unlock()
	}
	return n
}

func (r *reply) children(t testing.TB) []string {
	var m proto.GetChildrenResponse
	require.NoError(t, m.Decode(proto.NewReader(r.body)))
	return m.Children
}

// A list that is asked for before the order of the znodes is there holds up its own connection, and nobody else: neither others' reads and writes nor what is
// applied. What is behind it on its connection stays behind it.
func TestAnEarlyListHoldsUpItsConnectionOnly(t *testing.T) {
	s, fill := loading(t)
	early, behind, other := s.connect(), s.connect(), s.connect()
	list := func(xid int32) []byte { return request(xid, proto.OpGetChildren, &proto.PathWatchRequest{Path: "/"}) }
	create := func(xid int32, path string) []byte {
		return request(xid, proto.OpCreate, &proto.CreateRequest{Path: path, ACL: proto.OpenACL()})
	}

	early.write(append(list(1), append(create(2, "/early"), list(3)...)...))
	behind.write(append(create(1, "/behind"), list(2)...)) // the list's turn comes when the create is applied
	r := behind.reply()
	require.EqualValues(t, 1, r.Xid)
	require.Eventually(t, func() bool { return s.queued() == 4 }, patience, time.Millisecond)

	require.Equal(t, proto.OK, other.create("/other", []byte("x"), 0).Err)
	require.Equal(t, proto.OK, other.set("/other", "y").Err)
	r = other.get("/other", false)
	require.Equal(t, "y", r.data(t))
	r = other.call(9, proto.OpExists, &proto.PathWatchRequest{Path: "/early"})
	require.Equal(t, proto.ErrNoNode, r.Err, "a write was done before the list that stands before it")
	s.do(func() { require.Nil(t, s.rep.Snapshot()) })
	require.Equal(t, 4, s.queued())

	close(fill)
	r = early.reply()
	require.EqualValues(t, 1, r.Xid)
	require.Equal(t, []string{"behind", "other", "zookeeper"}, r.children(t))
	r = early.reply()
	require.EqualValues(t, 2, r.Xid)
	require.Equal(t, proto.OK, r.Err)
	r = early.reply()
	require.EqualValues(t, 3, r.Xid)
	require.Equal(t, []string{"behind", "early", "other", "zookeeper"}, r.children(t))
	r = behind.reply()
	require.EqualValues(t, 2, r.Xid)
	require.Contains(t, r.children(t), "behind")
	s.do(func() { require.NotNil(t, s.rep.Snapshot()) })
}
