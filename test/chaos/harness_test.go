package chaos

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
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
)

// long asks for the form that takes minutes.
var long = os.Getenv("ZKD_LONG") != ""

var zkdBinary string

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("4") // they wait most of the time
	}
	dir, err := os.MkdirTemp("", "zkd-chaos-")
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

// eventually polls: processes cannot be asked to tell.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !within(patience, ok) {
		t.Fatalf("in vain: %s", what)
	}
}

func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); pause(nil, 5*time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

// process is one zkd server with its folder, across restarts.
type process struct {
	t      *testing.T
	i      int // from 0
	dir    string
	data   string // dataDir
	client string // address for clients
	log    *os.File
	binary string // zkdBinary, or that of another version

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// ensemble is some processes with the network between them.
type ensemble struct {
	t     *testing.T
	net   *network
	procs []*process
}

// layout is what an ensemble is made of.
type layout struct {
	voters, observers int            // the observers have the largest numbers
	dirs              map[int]string // data folders, by server from 0; the others get one of their own
}

// newEnsemble lays out servers; settings are further lines of every zoo.cfg. Nothing is started.
func newEnsemble(t *testing.T, l layout, settings ...string) *ensemble {
	n := l.voters + l.observers
	e := &ensemble{t: t, net: newNetwork(t, n)}
	p, err := ports.Free(3 * n)
	require.NoError(t, err)
	addr := func(k int) string { return fmt.Sprintf("127.0.0.1:%d", p[k]) }
	for i := range n {
		pr := &process{t: t, i: i, dir: t.TempDir(), client: addr(3*i + 2), binary: zkdBinary}
		pr.data = pr.dir
		if d := l.dirs[i]; d != "" {
			pr.data = d
		}
		var err error
		pr.log, err = os.OpenFile(filepath.Join(pr.dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		require.NoError(t, err)
		lines := append([]string{"tickTime=2000", "initLimit=10", "syncLimit=5", "maxClientCnxns=0", "clientPortAddress=127.0.0.1",
			"dataDir=" + pr.data, fmt.Sprintf("clientPort=%d", p[3*i+2])}, settings...)
		for j := range n {
			peer, election := addr(3*j), addr(3*j+1)
			if i != j {
				peer, election = e.net.open(t, i, j, peer), e.net.open(t, i, j, election)
			}
			_, peerPort, _ := net.SplitHostPort(peer)
			_, electionPort, _ := net.SplitHostPort(election)
			role := "participant"
			if j >= l.voters {
				role = "observer"
			}
			lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%s:%s:%s", j+1, peerPort, electionPort, role))
		}
		require.NoError(t, os.WriteFile(filepath.Join(pr.dir, "zoo.cfg"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(pr.data, "myid"), []byte(strconv.Itoa(i+1)), 0o600))
		e.procs = append(e.procs, pr)
	}
	t.Cleanup(func() {
		for _, p := range e.procs {
			p.kill()
			if t.Failed() {
				t.Logf("end of the log of server %d:\n%s", p.i+1, tail(p.logText(), 16<<10))
			}
			p.log.Close()
		}
	})
	return e
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *process) logText() string {
	b, _ := os.ReadFile(p.log.Name())
	return string(b)
}

func (p *process) start() {
	cmd := exec.Command(p.binary, "--config", filepath.Join(p.dir, "zoo.cfg"))
	cmd.Stderr = p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(p.t, cmd.Start())
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.exited = cmd, done
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
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

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill is kill -9, and waits for the end.
func (p *process) kill() {
	if p.running() {
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

// stop is SIGTERM; the exit code must be 0.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	require.Equal(p.t, 0, p.exitCode(), "exit code of a graceful stop of server %d", p.i+1)
}

// exitCode waits for the end.
func (p *process) exitCode() int {
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("server %d does not end", p.i+1)
	}
	return p.cmd.ProcessState.ExitCode()
}

// word asks a four-letter word; "" if the server does not answer.
func (p *process) word(w string) string {
	nc, err := net.DialTimeout("tcp", p.client, 500*time.Millisecond)
	if err != nil {
		return ""
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := io.WriteString(nc, w); err != nil {
		return ""
	}
	b, _ := io.ReadAll(nc)
	return string(b)
}

// mode is what srvr says: leader, follower, or "".
func (p *process) mode() string {
	_, rest, _ := strings.Cut(p.word("srvr"), "Mode: ")
	m, _, _ := strings.Cut(rest, "\n")
	return m
}

func (p *process) mntr(keys ...string) []string {
	text := p.word("mntr")
	for i, key := range keys {
		_, rest, _ := strings.Cut(text, key+"\t")
		keys[i], _, _ = strings.Cut(rest, "\n")
	}
	return keys
}

func (e *ensemble) start() {
	for _, p := range e.procs {
		p.start()
	}
	e.waitServing()
}

// waitServing waits until all servers serve and count.
func (e *ensemble) waitServing() {
	e.t.Helper()
	for _, p := range e.procs {
		eventually(e.t, fmt.Sprintf("server %d serves and counts", p.i+1), func() bool {
			m := p.mode()
			return m == "observer" || m != "" && p.mntr("zk_votable")[0] == "1"
		})
	}
}

func (e *ensemble) leader() *process {
	e.t.Helper()
	var found *process
	eventually(e.t, "a leader", func() bool {
		for _, p := range e.procs {
			if p.running() && p.mode() == "leader" {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// others are the servers without those given, in random order.
func (e *ensemble) others(rng *rand.Rand, not ...*process) []*process {
	var out []*process
	for _, i := range rng.Perm(len(e.procs)) {
		keep := true
		for _, n := range not {
			keep = keep && e.procs[i] != n
		}
		if keep {
			out = append(out, e.procs[i])
		}
	}
	return out
}

// sameDigest waits until all servers hold the same tree.
func (e *ensemble) sameDigest() string {
	e.t.Helper()
	var all []string
	eventually(e.t, "equal digests", func() bool {
		all = all[:0]
		for _, p := range e.procs {
			all = append(all, strings.Join(p.mntr("zk_applied_zxid", "zk_digest"), " "))
		}
		for _, d := range all {
			if d == " " || d != all[0] {
				return false
			}
		}
		return true
	})
	return all[0]
}

func (e *ensemble) connect() string {
	var addrs []string
	for _, p := range e.procs {
		addrs = append(addrs, p.client)
	}
	return strings.Join(addrs, ",")
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience/2)
}
