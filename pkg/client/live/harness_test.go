// Package live tests pkg/client and its recipes against real servers: three zkd processes that a test may kill, or, with
// ZKD_LIVE_SERVERS=host:port,…, any ensemble that runs, such as Apache ZooKeeper's. With ZKD_LIVE_JARS=DIR the three are
// Apache's, from the jars in that folder, and are killed as zkd's are.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/internal/ports"
	"github.com/zkd-project/zkd/pkg/client"
)

// patience bounds every wait for something that must happen. It is no timing claim.
const patience = 120 * time.Second

// foreign is a connect string of servers that are not ours to kill; their ticks are 2 s.
var foreign = os.Getenv("ZKD_LIVE_SERVERS")

// jars is the folder of Apache ZooKeeper's classes, if the ensemble is to be one of these; "" for zkd.
var jars = os.Getenv("ZKD_LIVE_JARS")

// long makes the fault tests ten times as long.
var long = os.Getenv("ZKD_LIVE_LONG") != ""

var ensemble *cluster

func TestMain(m *testing.M) {
	code := 1
	func() {
		if foreign == "" {
			dir, err := os.MkdirTemp("", "zkd-live-")
			if err != nil {
				panic(err)
			}
			defer os.RemoveAll(dir)
			if ensemble, err = startCluster(dir, 3); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			defer ensemble.stop()
		}
		code = m.Run()
	}()
	os.Exit(code)
}

type cluster struct {
	bin     string
	members []*member
}

type member struct {
	dir, addr string
	mu        sync.Mutex // guards what follows
	cmd       *exec.Cmd
}

func startCluster(dir string, n int) (*cluster, error) {
	c := &cluster{bin: filepath.Join(dir, "zkd")}
	if jars != "" {
		c.bin = "java"
	} else if out, err := exec.Command("go", "build", "-o", c.bin, "../../../cmd/zkd").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build zkd: %w\n%s", err, out)
	}
	free, err := ports.Free(3 * n)
	if err != nil {
		return nil, err
	}
	var servers strings.Builder
	for i := range n {
		fmt.Fprintf(&servers, "server.%d=127.0.0.1:%d:%d\n", i+1, free[3*i], free[3*i+1])
	}
	for i := range n {
		m := &member{dir: filepath.Join(dir, strconv.Itoa(i+1)), addr: fmt.Sprintf("127.0.0.1:%d", free[3*i+2])}
		cfg := fmt.Sprintf("tickTime=300\ninitLimit=20\nsyncLimit=20\nmaxClientCnxns=0\nextendedTypesEnabled=true\nadmin.enableServer=false\n"+
			"clientPortAddress=127.0.0.1\ndataDir=%s\nclientPort=%d\n%s", m.dir, free[3*i+2], servers.String())
		if err := errors.Join(os.MkdirAll(m.dir, 0o700),
			os.WriteFile(filepath.Join(m.dir, "zoo.cfg"), []byte(cfg), 0o600),
			os.WriteFile(filepath.Join(m.dir, "myid"), []byte(strconv.Itoa(i+1)), 0o600)); err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
		if err := c.start(m); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) start(m *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"--config", filepath.Join(m.dir, "zoo.cfg")}
	if jars != "" {
		args = []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", filepath.Join(jars, "*"),
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(m.dir, "zoo.cfg")}
	}
	m.cmd = exec.Command(c.bin, args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log // a file, which needs no goroutine
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return m.cmd.Start()
}

func (m *member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

func (c *cluster) stop() {
	for _, m := range c.members {
		m.kill()
	}
}

func (c *cluster) servers() string {
	var addrs []string
	for _, m := range c.members {
		addrs = append(addrs, m.addr)
	}
	return strings.Join(addrs, ",")
}

// restart kills the member that serves addr and starts it again.
func (c *cluster) restart(t *testing.T, addr string) {
	t.Helper()
	for _, m := range c.members {
		if m.addr == addr {
			m.kill()
			require.NoError(t, c.start(m))
			return
		}
	}
	t.Fatalf("no member serves %s", addr)
}

func servers() string {
	if foreign != "" {
		return foreign
	}
	return ensemble.servers()
}

// ours skips a test that kills servers or needs their short ticks.
func ours(t *testing.T) {
	if foreign != "" {
		t.Skip("these servers are not ours")
	}
}

// needs skips a test of what came with ZooKeeper 3.minor if the servers are older.
func needs(t *testing.T, minor int) {
	t.Helper()
	if n := minorVersion(t); n < minor {
		t.Skipf("ZooKeeper 3.%d: needs 3.%d", n, minor)
	}
}

// minorVersion is that of the servers' ZooKeeper, 9 for ours.
func minorVersion(t *testing.T) int {
	t.Helper()
	if foreign == "" {
		return 9
	}
	first, _, _ := strings.Cut(foreign, ",")
	nc, err := net.Dial("tcp", first)
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Write([]byte("srvr"))
	require.NoError(t, err)
	answer, err := io.ReadAll(nc)
	require.NoError(t, err)
	var n int
	_, err = fmt.Sscanf(string(answer), "Zookeeper version: 3.%d.", &n)
	require.NoError(t, err, string(answer))
	return n
}

// guard fails a test that leaves a goroutine behind, and gives it a context that ends some day.
func guard(t *testing.T) context.Context {
	before := goleak.IgnoreCurrent()
	limit := patience
	if long {
		limit *= 10
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(func() {
		cancel()
		goleak.VerifyNone(t, before)
	})
	return ctx
}

var run = time.Now().UnixNano() // tells runs against one ensemble apart

var roots sync.Map // by *testing.T

// root is the chroot of a test.
func root(t *testing.T) string {
	name := fmt.Sprintf("/live-%s-%x", strings.ReplaceAll(t.Name(), "/", "-"), run+int64(rounds.Add(1)))
	known, _ := roots.LoadOrStore(t, name)
	return known.(string)
}

var rounds atomic.Int64

// dial opens a session below a chroot of the test's own, which it makes.
func dial(ctx context.Context, t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	root := root(t)
	if foreign == "" {
		opts = append([]client.Option{client.WithSessionTimeout(5 * time.Second)}, opts...)
	}
	plain, err := client.Dial(ctx, servers())
	require.NoError(t, err)
	require.NoError(t, plain.CreateAll(ctx, root, nil))
	require.NoError(t, plain.Close())
	c, err := client.Dial(ctx, servers()+root, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.Sync(ctx, "/"))
	return c
}

// wire is a network that a test can cut.
type wire struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, errors.New("network is unreachable")
	}
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		w.mu.Lock()
		w.conns = append(w.conns, nc)
		w.mu.Unlock()
	}
	return nc, err
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, nc := range w.conns {
			nc.Close()
		}
		w.conns = nil
	}
}
