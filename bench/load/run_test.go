package load_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/bench/echo"
	"github.com/zkd-project/zkd/bench/load"
	"github.com/zkd-project/zkd/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startEcho(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&echo.Server{Size: 100}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return ln.Addr().String()
}

func TestEachWorkloadCountsWhatItWasTold(t *testing.T) {
	addr := startEcho(t)
	for _, w := range load.Workloads {
		if w == load.Watch {
			continue // nothing fires here; bench/compare runs it on zkd
		}
		t.Run(w, func(t *testing.T) {
			res, err := load.Run(context.Background(), load.Config{Servers: []string{addr}, Workload: w, Conns: 3, InFlight: 5, Size: 100,
				Keys: 20, Count: 1001, Pids: []int{os.Getpid()}})
			require.NoError(t, err)
			require.EqualValues(t, 1001, res.Ops)
			require.EqualValues(t, 1001, res.Hist.Count())
			require.Empty(t, res.Errors)
			require.Positive(t, res.Latency.P50)
			require.LessOrEqual(t, res.Latency.P50, res.Latency.Max)
			require.Positive(t, res.RSSAfter)
		})
	}
}

// lastWrite remembers what was written last.
type lastWrite struct {
	net.Conn
	b []byte
}

func (c *lastWrite) Write(b []byte) (int, error) {
	c.b = append(c.b[:0], b...)
	return c.Conn.Write(b)
}

func TestSessionsAreClosedAtTheEnd(t *testing.T) {
	var mu sync.Mutex
	var conns []*lastWrite
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		c := &lastWrite{Conn: nc}
		conns = append(conns, c)
		return c, err
	}
	_, err := load.Run(context.Background(), load.Config{Servers: []string{startEcho(t)}, Workload: load.Get, Conns: 3, InFlight: 5, Count: 100, Dial: dial})
	require.NoError(t, err)
	require.Len(t, conns, 3)
	for _, c := range conns {
		require.Len(t, c.b, 12, "a frame with nothing but a header")
		require.Equal(t, proto.OpCloseSession, proto.Op(int32(binary.BigEndian.Uint32(c.b[8:]))))
	}
}

func TestATimedRunMeasuresAfterTheWarmUp(t *testing.T) {
	addr := startEcho(t)
	res, err := load.Run(context.Background(), load.Config{Servers: []string{addr}, Workload: load.Get, Conns: 2, InFlight: 4,
		Warmup: 50 * time.Millisecond, Duration: 300 * time.Millisecond})
	require.NoError(t, err)
	require.Positive(t, res.Ops)
	require.Positive(t, res.Seconds)
	require.Less(t, res.Seconds, 60.0)
	require.Positive(t, res.Rate)
}

func TestTheOpenLoopKeepsToTheRate(t *testing.T) {
	addr := startEcho(t)
	res, err := load.Run(context.Background(), load.Config{Servers: []string{addr}, Workload: load.Set, Conns: 2, Rate: 1000,
		Duration: 300 * time.Millisecond})
	require.NoError(t, err)
	require.LessOrEqual(t, res.Hist.Count(), int64(300), "more than were due")
	require.Positive(t, res.Hist.Count())
}

func TestACrowdIsOpen(t *testing.T) {
	crowd, err := load.OpenCrowd(context.Background(), []string{startEcho(t)}, 200, time.Minute)
	require.NoError(t, err)
	require.Zero(t, crowd.Lost())
	crowd.Close()
}

// A server that stands still is in every latency of what was due meanwhile, not in one.
func TestTheOpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	back, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const pause = 200 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- (&echo.Server{}).Serve(ctx, back) }()
	release := make(chan struct{})
	go stall(ln, back.Addr().String(), release, func() { time.AfterFunc(pause, func() { close(release) }) })
	res, err := load.Run(ctx, load.Config{Servers: []string{ln.Addr().String()}, Workload: load.Get, Conns: 1, Keys: 1, Rate: 1000,
		Duration: 2 * pause, Keep: true})
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-ended)
	require.Greater(t, res.Hist.Quantile(0.75), pause/4, "half of the requests were due while nothing was answered")
	require.GreaterOrEqual(t, res.Silence, 1e6*(pause/2).Seconds(), "no reply came in all that time")
}

// A server that takes less than is due leaves requests without an answer; they count with the time that they have waited.
func TestAnOpenLoopDoesNotWaitForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for some seconds")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	back := startEcho(t)
	release := make(chan struct{})
	defer close(release)
	go stall(ln, back, release, func() {})
	res, err := load.Run(context.Background(), load.Config{Servers: []string{ln.Addr().String()}, Workload: load.Get, Conns: 1, Keys: 1,
		Rate: 1000, Duration: 300 * time.Millisecond, Keep: true})
	require.NoError(t, err)
	require.Positive(t, res.Unanswered)
	require.Greater(t, res.Hist.Quantile(0.9), 4*time.Second)
	require.Greater(t, res.Silence, 4e6, "a silence that never ends counts as well")
}

// stall passes one connection on and, once it has seen a hundred requests or so, says that it stalls and holds back everything until
// release is closed.
func stall(ln net.Listener, to string, release <-chan struct{}, stalls func()) {
	a, err := ln.Accept()
	if err != nil {
		return
	}
	defer a.Close()
	b, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer b.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		buf := make([]byte, 64<<10)
		for {
			n, err := b.Read(buf)
			if err != nil {
				return
			}
			if _, err := a.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for seen, held := 0, false; ; {
		n, err := a.Read(buf)
		if err != nil {
			break
		}
		if seen += n; seen > 2000 && !held {
			held = true
			stalls()
			<-release
		}
		if _, err := b.Write(buf[:n]); err != nil {
			break
		}
	}
	b.Close()
	<-back
}

func TestTheCommandWritesATableAndJSON(t *testing.T) {
	addr := startEcho(t)
	var out, errs bytes.Buffer
	args := []string{"get", "-conns", "2", "-inflight", "3", "-count", "50", "-quiet"}
	require.Equal(t, 0, load.Command(context.Background(), "bench", load.Config{Servers: []string{addr}}, args, &out, &errs), errs.String())
	require.Contains(t, out.String(), "get, 2 connections × 3 in flight")
	require.Empty(t, errs.String())
	out.Reset()
	require.Equal(t, 0, load.Command(context.Background(), "bench", load.Config{Servers: []string{addr}}, append(args, "-json"), &out, &errs))
	require.Equal(t, 1, strings.Count(out.String(), "\n"), "one object on one line, as of every command of zkcli")
	var res load.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &res))
	require.EqualValues(t, 50, res.Ops)
}

func TestWrongUsageIsSaid(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown workload":          {"gett"},
		"no server is given":        {"get"},
		"fill needs a count":        {"fill"},
		"watch has no open loop":    {"watch", "-rate", "5"},
		"one workload, then flags":  {"get", "set"},
		"pid \"x\"":                 {"get", "-pids", "x"},
		"flag provided but not def": {"get", "-frobnicate"},
		"is no path of a znode":     {"get", "-root", "a"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, load.Command(context.Background(), "bench", load.Config{}, args, &out, &errs), want)
		require.Contains(t, errs.String(), want)
	}
}

func TestTheHelpSaysWhatEachWorkloadDoes(t *testing.T) {
	var out, errs bytes.Buffer
	require.Equal(t, 0, load.Command(context.Background(), "bench", load.Config{}, []string{"-help"}, &out, &errs))
	for _, w := range load.Workloads {
		require.Regexp(t, "(?m)^  "+w+" +[a-z-]{3}", errs.String())
	}
}

func TestAServerThatIsNotThereFailsTheRun(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	ln.Close()
	var out, errs bytes.Buffer
	require.Equal(t, 1, load.Command(context.Background(), "bench", load.Config{Servers: []string{addr}}, []string{"get", "-quiet"}, &out, &errs))
	require.Equal(t, 1, strings.Count(errs.String(), addr), "each reason once")
	require.NotContains(t, errs.String(), "is left at")
}

func TestFewerRequestsThanConnectionsAreSentOnce(t *testing.T) {
	for _, w := range []string{load.Get, load.Fill, load.Sessions} {
		res, err := load.Run(context.Background(), load.Config{Servers: []string{startEcho(t)}, Workload: w, Conns: 16, Count: 10, Keys: 20})
		require.NoError(t, err, w)
		require.EqualValues(t, 10, res.Ops, w)
	}
}

func TestWhatIsKeptIsNamed(t *testing.T) {
	var out, errs bytes.Buffer
	cfg := load.Config{Servers: []string{startEcho(t)}, Chroot: "/app"}
	require.Zero(t, load.Command(context.Background(), "bench", cfg, []string{"get", "-quiet", "-root", "/here", "-count", "5", "-keep"}, &out, &errs))
	require.Equal(t, "What it made is at /here.\n", errs.String())
}

func TestABrokenRunSaysWhatItLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	back := startEcho(t)
	release := make(chan struct{})
	defer close(release)
	go stall(ln, back, release, func() {})
	var out, errs bytes.Buffer
	cfg := load.Config{Servers: []string{ln.Addr().String()}}
	args := []string{"get", "-quiet", "-root", "/here", "-conns", "1", "-keys", "1", "-duration", "100ms", "-timeout", "300ms"}
	require.Equal(t, 1, load.Command(context.Background(), "bench", cfg, args, &out, &errs))
	require.Contains(t, errs.String(), "What it made is left at /here;")
}

func TestAnInterruptedRunSaysWhatItLeft(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	cfg := load.Config{Servers: []string{startEcho(t)}, Chroot: "/app"}
	require.Equal(t, 1, load.Command(ctx, "bench", cfg, []string{"get", "-quiet", "-root", "/here", "-duration", "1m"}, &out, &errs))
	require.Contains(t, errs.String(), "What it made is left at /here;")
}
