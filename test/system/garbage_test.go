package system

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/proto"
)

// resident is the process's memory in KiB.
func (p *process) resident() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	for _, l := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(v)[0])
			require.NoError(p.t, err)
			return n
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}

// closesOn sends bytes to a port and waits until the server closes the connection.
func closesOn(t *testing.T, addr string, b []byte) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer nc.Close()
	_, _ = nc.Write(b) // the server may have closed already
	nc.SetReadDeadline(time.Now().Add(patience))
	_, err = io.Copy(io.Discard, nc)
	require.False(t, os.IsTimeout(err), "left open after %q", b[:min(len(b), 16)])
}

func TestGarbageHurtsNobody(t *testing.T) {
	c := newCluster(t, 3)
	c.start()
	p := c.procs[0]
	cl := dial(t, p)
	elections := p.mntr("zk_elections")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	closesOn(t, p.client, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	// It is told of after the connection was closed; the next garbage from here would otherwise be the one line that this source has.
	require.Eventually(t, func() bool { return strings.Contains(p.logText(), "HTTP") }, patience, time.Millisecond)
	for _, b := range [][]byte{
		{0x7f, 0xff, 0xff, 0xff}, {0x80, 0, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0},
		{0, 0, 0, 4, 1, 2, 3, 4}, []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
	} {
		closesOn(t, p.client, b)
	}
	peerPorts := []string{}
	for _, l := range strings.Split(fileText(t, p.dir+"/zoo.cfg"), "\n") {
		if v, ok := strings.CutPrefix(l, "server.1="); ok {
			parts := strings.Split(v, ":")
			peerPorts = append(peerPorts, parts[0]+":"+parts[1], parts[0]+":"+parts[2])
		}
	}
	require.Len(t, peerPorts, 2)
	for range 100 {
		b := make([]byte, 16+rng.IntN(200)) // a whole head, and a length that nobody believes: less would only be waited for
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		binary.BigEndian.PutUint32(b, 1<<31-1-uint32(rng.IntN(1<<20)))
		closesOn(t, p.client, b)
		closesOn(t, peerPorts[rng.IntN(2)], b)
	}
	// A good handshake, then frames cut anywhere and a length of 2 GiB.
	for cut := range 40 {
		_, nc := attach(t, p, 0, make([]byte, 16))
		b, mark := proto.BeginFrame(nil)
		b = (&proto.RequestHeader{Xid: 1, Op: proto.OpGetData}).Append(b)
		b = proto.EndFrame((&proto.PathWatchRequest{Path: "/zookeeper"}).Append(b), mark)
		_, err := nc.Write(b[:min(cut, len(b)-1)])
		require.NoError(t, err)
		nc.Close()
	}
	_, nc := attach(t, p, 0, make([]byte, 16))
	_, err := nc.Write([]byte{0x7f, 0xff, 0xff, 0xff})
	require.NoError(t, err)
	nc.SetReadDeadline(time.Now().Add(patience))
	_, err = io.Copy(io.Discard, nc)
	require.False(t, os.IsTimeout(err))

	_, err = cl.Create(within(t), "/still", nil, client.Persistent, nil)
	require.NoError(t, err)
	require.Equal(t, elections, p.mntr("zk_elections"), "no role was lost")
	said := 0
	for _, l := range strings.Split(p.logText(), "\n") {
		if strings.Contains(l, "HTTP") {
			said++
			t.Logf("saw: %s", l)
		}
	}
	require.Equal(t, 1, said, "one line about HTTP for one source")
}

func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	n := 2000
	if long {
		n = 10_000
	}
	c := newCluster(t, 1)
	c.start()
	p := c.procs[0]
	cl := dial(t, p)
	before := p.resident()
	var open []net.Conn
	defer func() {
		for _, nc := range open {
			nc.Close()
		}
	}()
	for range n {
		nc, err := net.Dial("tcp", p.client)
		if err != nil {
			break // this side ran out of descriptors
		}
		open = append(open, nc)
	}
	_, err := cl.Create(within(t), "/alive", nil, client.Persistent, nil)
	require.NoError(t, err)
	during := p.resident()
	perConn := (during - before) * 1024 / len(open)
	require.Less(t, perConn, 64<<10, "bytes of resident memory per connection that says nothing")
	t.Logf("saw: %d connections that say nothing, %d KiB resident before and %d KiB with them; clients are served", len(open), before, during)
}

func fileText(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}
