package server

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// pipelined sends n requests in batches of 100 and reads as many replies of replyBytes each.
func pipelined(b *testing.B, c *client, one []byte, replyBytes int) {
	const batch = 100
	var reqs []byte
	for range batch {
		reqs = append(reqs, one...)
	}
	in := make([]byte, batch*replyBytes)
	b.ResetTimer()
	for left := b.N; left > 0; left -= batch {
		n := min(batch, left)
		c.write(reqs[:n*len(one)])
		_, err := io.ReadFull(c.nc, in[:n*replyBytes])
		require.NoError(b, err)
	}
}

// The time per operation includes the client's share.
func BenchmarkPipelinedGetData(b *testing.B) {
	b.ReportAllocs()
	s := serving(b, nil)
	c := s.connect()
	c.create("/bench", make([]byte, 100), 0)
	pipelined(b, c, request(1, proto.OpGetData, &proto.PathWatchRequest{Path: "/bench"}), 4+16+4+100+68)
}

func BenchmarkPipelinedSetData(b *testing.B) {
	b.ReportAllocs()
	s := serving(b, nil)
	c := s.connect()
	c.create("/bench", make([]byte, 100), 0)
	pipelined(b, c, request(1, proto.OpSetData, &proto.SetDataRequest{Path: "/bench", Data: make([]byte, 100), Version: -1}), 4+16+68)
}

// The floor: the same bytes through the same sockets with nothing between.
func BenchmarkEcho(b *testing.B) {
	ln := listen(b)
	go func() {
		nc, err := ln.Accept()
		if err == nil {
			_, _ = io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc})
			_ = nc.Close()
		}
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	c := newClient(b, nc)
	pipelined(b, c, make([]byte, 192), 192)
	require.NoError(b, nc.Close())
	require.NoError(b, ln.Close())
}

func BenchmarkPing(b *testing.B) {
	s := serving(b, nil)
	c := s.connect()
	one, in := request(1, proto.OpPing, nil), make([]byte, 20)
	for b.Loop() {
		c.write(one)
		_, err := io.ReadFull(c.nc, in)
		require.NoError(b, err)
	}
}

// BenchmarkFire is a change with many watches elsewhere and one recursive watch above.
func BenchmarkFire(b *testing.B) {
	t := newWatchTable()
	c, d := &conn{id: 1}, &conn{id: 2}
	for i := range 100_000 {
		t.add(c, "/some/where/node"+string(rune('a'+i%26))+string(rune(i)), watchData)
	}
	t.add(d, "/some", watchRecursive)
	var hit []*conn
	b.ReportAllocs()
	for b.Loop() {
		hit = t.fire(proto.EventNodeDataChanged, "/some/where/else/deep", hit[:0])
	}
	require.Len(b, hit, 1)
}

// TestIdleConnectionIsSmall measures what a session costs that only pings.
func TestIdleConnectionIsSmall(t *testing.T) {
	const n = 500
	s := serving(t, nil)
	measure := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := measure()
	nets := make([]net.Conn, n)
	for i := range nets {
		c := s.connect()
		c.send(1, proto.OpPing, nil)
		c.reply()
		nets[i] = c.nc
	}
	per := (measure() - before) / n
	t.Logf("%d bytes for a session, the test's own end of it included", per)
	require.Less(t, per, uint64(14<<10))
	runtime.KeepAlive(nets)
}

// TestWatchIsSmall measures a watch beyond the bytes of its path: each on a path of its own, and many on the same paths.
func TestWatchIsSmall(t *testing.T) {
	for _, c := range []struct{ paths, conns, most int }{{100_000, 1, 100}, {1000, 100, 40}} {
		paths := make([]string, c.paths)
		for i := range paths {
			paths[i] = fmt.Sprintf("/some/application/node-%06d", i)
		}
		conns := make([]conn, c.conns)
		table := newWatchTable()
		heap := func() int {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := heap()
		for i := range conns {
			for _, p := range paths {
				table.add(&conns[i], p, watchData)
			}
		}
		per := (heap() - before) / (c.paths * c.conns)
		t.Logf("%d bytes for a watch, %d paths and %d connections", per, c.paths, c.conns)
		require.Less(t, per, c.most)
		require.Equal(t, c.paths*c.conns, table.size())
		runtime.KeepAlive(paths)
	}
}
