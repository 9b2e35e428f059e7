package client

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// liar is a server that shakes hands and then answers every request with anything.
type liar struct {
	seed  uint64
	conns atomic.Uint64
	all   sync.WaitGroup
}

func (l *liar) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	rng := rand.New(rand.NewPCG(l.seed, l.conns.Add(1)))
	l.all.Go(func() {
		defer ours.Close()
		for first := true; ; first = false {
			var head [4]byte
			if _, err := io.ReadFull(ours, head[:]); err != nil {
				return
			}
			req := make([]byte, binary.BigEndian.Uint32(head[:]))
			if _, err := io.ReadFull(ours, req); err != nil {
				return
			}
			answer := proto.AppendFrame(nil, &proto.ConnectResponse{TimeOut: 9000, SessionID: testSession, Passwd: testPassword, HasReadOnly: true})
			if !first {
				answer = lie(rng, req)
			}
			if _, err := ours.Write(answer); err != nil {
				return
			}
		}
	})
	return theirs, nil
}

// lie answers a request, usually with its own xid: with a reply that is true for some request, cut and with some bytes changed.
func lie(rng *rand.Rand, req []byte) []byte {
	if rng.IntN(40) == 0 { // no frame at all
		b := make([]byte, 4+rng.IntN(40))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		binary.BigEndian.PutUint32(b, []uint32{0, 1, 15, 1 << 31, 1<<32 - 1, 1<<31 - 1, 64<<20 + 1, 64 << 20}[rng.IntN(8)])
		return b
	}
	h := proto.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(req)), Zxid: 7, Err: []proto.ErrCode{0, 0, 0, 0, 0, -101, -4, -112, -115, 77}[rng.IntN(10)]}
	if rng.IntN(20) == 0 {
		h.Xid = []int32{-1, -2, -4, -8, 0, h.Xid + 1, h.Xid - 1, -1 << 31}[rng.IntN(8)]
	}
	truths := []proto.Record{
		&proto.GetDataResponse{Data: []byte("data")}, &proto.StatResponse{}, &proto.GetChildren2Response{Children: []string{"a", "b"}},
		&proto.GetChildrenResponse{Children: []string{"a", ""}}, &proto.CreateResponse{Path: "x"}, &proto.Create2Response{Path: "/a"},
		&proto.GetACLResponse{ACL: proto.OpenACL()}, &proto.WhoAmIResponse{ClientInfo: []proto.ClientInfo{{AuthScheme: "ip", User: "u"}}},
		&proto.GetEphemeralsResponse{Ephemerals: []string{"/e"}}, &proto.GetAllChildrenNumberResponse{TotalNumber: -3},
		&proto.ErrorResponse{Err: -3}, &proto.WatcherEvent{Type: 3, State: 3, Path: "no path"}, &proto.WatcherEvent{Type: 2, State: -5},
		results{{Op: proto.OpCreate2, Path: "/a"}, {Op: proto.OpDelete}}, results{{Op: proto.OpGetData}, {Op: proto.OpGetChildren}},
	}
	body := truths[rng.IntN(len(truths))].Append(nil)
	body = body[:len(body)-min(len(body), max(0, rng.IntN(20)-10))]
	for n := rng.IntN(3); n > 0 && len(body) > 0; n-- {
		body[rng.IntN(len(body))] = []byte{0, 1, 0x7f, 0x80, 0xff, byte(rng.Uint32())}[rng.IntN(6)]
	}
	frame := h.Append(make([]byte, 4))
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// everyCall asks one thing of each kind. Answers and errors may be anything; what counts is that there is one.
func everyCall(ctx context.Context, c *Client) {
	c.Get(ctx, "/a")
	c.GetW(ctx, "/a")
	c.Exists(ctx, "/a")
	c.ExistsW(ctx, "/a")
	c.Children(ctx, "/a")
	c.ChildrenW(ctx, "/a")
	c.Create(ctx, "/a", nil, Ephemeral, nil)
	c.CreateTTL(ctx, "/a", nil, PersistentTTL, time.Second, nil)
	c.Set(ctx, "/a", nil, 1)
	c.Delete(ctx, "/a", 1)
	c.GetACL(ctx, "/a")
	c.SetACL(ctx, "/a", WorldACL(PermRead), 1)
	c.Sync(ctx, "/a")
	c.WhoAmI(ctx)
	c.Ephemerals(ctx, "/a")
	c.CountDescendants(ctx, "/a")
	c.Config(ctx)
	c.CreateAll(ctx, "/a/b/c", nil)
	c.GetQuota(ctx, "/a")
	c.RemoveWatches(ctx, "/a", AnyWatches, false)
	var m Multi
	m.Create("/a", nil, Persistent, nil)
	m.Delete("/a", 1)
	c.Multi(ctx, &m)
	var r Reads
	r.Get("/a")
	r.Children("/a")
	c.MultiRead(ctx, &r)
	if s, err := c.AddWatch(ctx, "/a", WatchTree); err == nil {
		s.Stop()
	}
	b := c.Batch(ctx)
	b.Get("/a")
	b.Create("/a", nil, Container, nil)
	b.Children("/a")
	b.Wait()
}

// Whatever the servers say, every call comes back: with its context at the latest.
func TestServersThatLie(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := &liar{seed: seed}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := Dial(ctx, "h", WithDialer(l.dial))
	require.NoError(t, err)
	var crowd sync.WaitGroup
	for range 4 {
		crowd.Go(func() {
			for range 25 {
				brief, stop := context.WithTimeout(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
				everyCall(brief, c)
				stop()
			}
		})
	}
	crowd.Wait()
	require.NoError(t, ctx.Err())
	c.Close()
	l.all.Wait()
	require.Greater(t, l.conns.Load(), uint64(1))
}
