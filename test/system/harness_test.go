package system

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/ports"
	"github.com/zkd-project/zkd/pkg/client"
)

// long asks for the forms of the tests that take minutes.
var long = os.Getenv("ZKD_LONG") != ""

var zkdBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "zkd-system-")
	if err != nil {
		panic(err)
	}
	zkdBinary = filepath.Join(dir, "zkd")
	build := exec.Command("go", "build", "-o", zkdBinary, "../../cmd/zkd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// patience bounds every wait for something that must happen. It is no timing claim.
const patience = 60 * time.Second

// process is one zkd server with its folder, across restarts.
type process struct {
	t      *testing.T
	id     int
	dir    string
	client string // address for clients
	env    []string
	binary string // empty: zkdBinary

	mu     sync.Mutex
	log    bytes.Buffer
	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

// cluster is an ensemble of processes on loopback.
type cluster struct {
	t     *testing.T
	procs []*process
}

// newCluster lays out n servers; settings are further lines of every zoo.cfg. Nothing is started.
func newCluster(t *testing.T, n int, settings ...string) *cluster {
	c := &cluster{t: t}
	p, err := ports.Free(3 * n)
	require.NoError(t, err)
	var servers []string
	for i := range n {
		if n > 1 {
			servers = append(servers, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, p[3*i], p[3*i+1]))
		}
	}
	for i := range n {
		pr := &process{t: t, id: i + 1, dir: t.TempDir(), client: fmt.Sprintf("127.0.0.1:%d", p[3*i+2])}
		c.procs = append(c.procs, pr)
		lines := append([]string{"tickTime=2000", "initLimit=10", "syncLimit=5", "maxClientCnxns=0", "clientPortAddress=127.0.0.1",
			"dataDir=" + pr.dir, fmt.Sprintf("clientPort=%d", p[3*i+2])}, settings...)
		pr.write("zoo.cfg", strings.Join(append(lines, servers...), "\n")+"\n")
		pr.write("myid", strconv.Itoa(pr.id))
	}
	t.Cleanup(func() {
		for _, p := range c.procs {
			p.kill()
		}
		if t.Failed() {
			for _, p := range c.procs {
				t.Logf("log of server %d:\n%s", p.id, p.logText())
			}
		}
	})
	return c
}

func (p *process) write(name, content string) {
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600))
}

// Write takes the process's log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) logText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) start() {
	binary := zkdBinary
	if p.binary != "" {
		binary = p.binary
	}
	cmd := exec.Command(binary, "--config", filepath.Join(p.dir, "zoo.cfg"))
	cmd.Stderr, cmd.Env = p, append(os.Environ(), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(p.t, cmd.Start())
	p.cmd, p.exited = cmd, make(chan struct{})
	go func(done chan struct{}) {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(done)
	}(p.exited)
}

func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) {
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// kill is kill -9, and waits for the end.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// stop is SIGTERM; the exit code must be 0.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	require.Equal(p.t, 0, p.exitCode(), "exit code of a graceful stop; log:\n%s", p.logText())
}

// exitCode waits for the end.
func (p *process) exitCode() int {
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("server %d does not end; log:\n%s", p.id, p.logText())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (c *cluster) start() {
	for _, p := range c.procs {
		p.start()
	}
	c.waitServing(c.procs...)
}

func (c *cluster) waitServing(procs ...*process) {
	c.t.Helper()
	for _, p := range procs {
		eventually(c.t, fmt.Sprintf("server %d serves", p.id), func() bool { return p.mode() != "" })
	}
}

// eventually polls: processes cannot be asked to tell.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if ok() {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("in vain: %s", what)
}

// word asks a four-letter word; "" if the server does not answer.
func (p *process) word(w string) string {
	nc, err := net.DialTimeout("tcp", p.client, time.Second)
	if err != nil {
		return ""
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(nc, w); err != nil {
		return ""
	}
	b, _ := io.ReadAll(nc)
	return string(b)
}

// mode is what srvr says: leader, follower, standalone, or "".
func (p *process) mode() string {
	for _, line := range strings.Split(p.word("srvr"), "\n") {
		if m, ok := strings.CutPrefix(line, "Mode: "); ok {
			return m
		}
	}
	return ""
}

func (p *process) mntr(key string) string {
	for _, line := range strings.Split(p.word("mntr"), "\n") {
		if v, ok := strings.CutPrefix(line, key+"\t"); ok {
			return v
		}
	}
	return ""
}

// digest is the tree's digest with the zxid at which it is that.
func (p *process) digest() string {
	text := p.word("mntr")
	get := func(key string) string {
		_, rest, _ := strings.Cut(text, key+"\t")
		v, _, _ := strings.Cut(rest, "\n")
		return v
	}
	return get("zk_applied_zxid") + " " + get("zk_digest")
}

func (c *cluster) leader() *process {
	c.t.Helper()
	var found *process
	eventually(c.t, "a leader", func() bool {
		for _, p := range c.procs {
			if p.running() && (p.mode() == "leader" || p.mode() == "standalone") {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// others are the running servers without those given.
func (c *cluster) others(not ...*process) []*process {
	var out []*process
	for _, p := range c.procs {
		skip := !p.running()
		for _, n := range not {
			skip = skip || p == n
		}
		if !skip {
			out = append(out, p)
		}
	}
	return out
}

// sameDigest waits until all running servers hold the same tree.
func (c *cluster) sameDigest() string {
	c.t.Helper()
	var first string
	eventually(c.t, "equal digests", func() bool {
		first = ""
		for _, p := range c.others() {
			d := p.digest()
			if first == "" {
				first = d
			}
			if d != first || d == " " {
				return false
			}
		}
		return first != ""
	})
	return first
}

func connect(procs ...*process) string {
	var addrs []string
	for _, p := range procs {
		addrs = append(addrs, p.client)
	}
	return strings.Join(addrs, ",")
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, procs ...*process) *client.Client {
	t.Helper()
	c, err := client.Dial(within(t), connect(procs...), client.WithSessionTimeout(20*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
