package server

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// cutOff takes the leader away from a server and waits until it serves reads only.
func (s *solo) cutOff() {
	s.looking.Store(true)
	s.freeze()
	time.Sleep(5 * time.Second)
}

func TestReadOnlyMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial, end := expiringWith(t, func(c *Config) { c.ReadOnlyMode = true })
		defer end()
		word := func(w string) string {
			c := dial()
			c.write([]byte(w))
			b, err := io.ReadAll(c.nc)
			require.NoError(t, err)
			return string(b)
		}
		hello := &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true, ReadOnly: true}
		before := dial()
		before.shake(hello)
		require.False(t, before.ConnectResponse.ReadOnly)
		before.create("/a", []byte("x"), 0)
		require.Equal(t, "rw", word("isro"))
		s.cutOff()
		before.gone()

		require.Equal(t, "ro", word("isro"))
		require.Contains(t, word("srvr"), "Mode: read-only\n")
		c := dial()
		c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true}))
		c.gone() // it wants to write
		c = dial()
		c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, SessionID: before.SessionID, Passwd: before.Passwd, HasReadOnly: true, ReadOnly: true}))
		c.gone() // a session of the ensemble
		c = dial()
		c.shake(&proto.ConnectRequest{TimeOut: 4000, SessionID: before.SessionID + 1, Passwd: before.Passwd, HasReadOnly: true, ReadOnly: true})
		require.Zero(t, c.SessionID)
		c.gone()

		c = dial()
		c.shake(hello)
		require.NotZero(t, c.SessionID)
		require.True(t, c.ConnectResponse.ReadOnly)
		r := c.get("/a", true)
		require.Equal(t, "x", r.data(t))
		for _, op := range []proto.Op{proto.OpCreate, proto.OpCreate2, proto.OpCreateTTL, proto.OpCreateContainer, proto.OpDelete, proto.OpDeleteContainer,
			proto.OpSetData, proto.OpSetACL, proto.OpSync, proto.OpMulti, proto.OpReconfig} {
			require.Equal(t, proto.ErrNotReadOnly, c.call(1, op, nil).Err, "%v: before anything is looked at", op)
		}
		require.Equal(t, proto.OK, c.call(2, proto.OpAddWatch, &proto.AddWatchRequest{Path: "/a"}).Err)
		require.Equal(t, proto.OK, c.call(3, proto.OpWhoAmI, nil).Err)
		for range 4 {
			time.Sleep(3 * time.Second)
			c.send(4, proto.OpPing, nil)
			c.reply()
		}
		again := dial()
		again.shake(&proto.ConnectRequest{TimeOut: 4000, SessionID: c.SessionID, Passwd: c.Passwd, HasReadOnly: true, ReadOnly: true})
		require.Equal(t, c.SessionID, again.SessionID)
		c.gone()
		require.Equal(t, proto.OK, again.call(5, proto.OpCloseSession, nil).Err)
		again.gone()

		silent := dial()
		silent.shake(hello)
		at := time.Now()
		silent.gone()
		require.LessOrEqual(t, time.Since(at), 7*time.Second)

		last := dial()
		last.shake(hello)
		s.looking.Store(false)
		s.do(s.lead)
		last.gone()
		require.Zero(t, s.rep.locals.len())
		require.Equal(t, "rw", word("isro"))
		last2 := dial()
		last2.shake(&proto.ConnectRequest{TimeOut: 4000, SessionID: last.SessionID, Passwd: last.Passwd, HasReadOnly: true, ReadOnly: true})
		require.Zero(t, last2.SessionID, "nobody knows it")
		last2.gone()
	})
}

func TestNoReadOnlyModeUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dial, end := expiringWith(t, func(*Config) {})
		defer end()
		s.cutOff()
		c := dial()
		c.write(proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 4000, HasReadOnly: true, ReadOnly: true}))
		c.gone()
	})
}
