package difftest

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/ports"
)

const (
	startPatience = 60 * time.Second
	stopPatience  = 10 * time.Second
)

// process is one server of either kind, with its folder.
type process struct {
	addr string // of its clients
	cmd  *exec.Cmd
	log  string // file
	done chan struct{}
}

// Settings is what servers are told that they could be told otherwise.
type Settings struct {
	Extended bool // TTL nodes
	// Timed: sessions may be short, and what goes by itself is swept often. Otherwise nothing expires and nothing is swept while a run lasts.
	Timed bool
}

// sweeping are the keys of the sweeper. The original knows them as properties of its process only.
func (s Settings) sweeping() []string {
	every, unused := 36000000, 0
	if s.Timed {
		every, unused = sweepEvery, neverUsed
	}
	return []string{fmt.Sprintf("znode.container.checkIntervalMs=%d", every), fmt.Sprintf("znode.container.maxNeverUsedIntervalMs=%d", unused)}
}

// lines are the lines of a zoo.cfg that both kinds of server get.
func (s Settings) lines() []string {
	tick, shortest := 2000, longSession/2
	if s.Timed {
		tick, shortest = 1000, shortSession
	}
	sum := sha1.Sum([]byte(superUser))
	user, _, _ := strings.Cut(superUser, ":")
	return []string{fmt.Sprintf("tickTime=%d", tick), "initLimit=10", "syncLimit=5", "maxClientCnxns=0", "clientPortAddress=127.0.0.1",
		fmt.Sprintf("minSessionTimeout=%d", shortest), fmt.Sprintf("maxSessionTimeout=%d", longSession), "4lw.commands.whitelist=*", "enforceQuota=true",
		fmt.Sprintf("extendedTypesEnabled=%t", s.Extended),
		"DigestAuthenticationProvider.superDigest=" + user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// launch writes the server's files and starts it.
func launch(dir string, id, clientPort int, lines []string, command func(config string) *exec.Cmd) (*process, error) {
	data := filepath.Join(dir, strconv.Itoa(id))
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	lines = append([]string{"dataDir=" + data, "clientPort=" + strconv.Itoa(clientPort)}, lines...)
	config := filepath.Join(data, "zoo.cfg")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(id)), 0o600); err != nil {
		return nil, err
	}
	p := &process{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(clientPort)), cmd: command(config), log: filepath.Join(data, "log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process; stop waits for it
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// awaitMode returns the mode that the server serves in.
func (p *process) awaitMode(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		text, err := fourLetters(p.addr, "srvr")
		if err == nil {
			if _, rest, ok := strings.Cut(text, "Mode: "); ok {
				mode, _, _ := strings.Cut(rest, "\n")
				return mode, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the server at %s does not serve: %w\n%s", p.addr, ctx.Err(), p.tail())
		case <-p.done:
			return "", fmt.Errorf("the server at %s ended\n%s", p.addr, p.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tail returns the end of the server's log.
func (p *process) tail() string {
	b, _ := os.ReadFile(p.log)
	return string(b[max(0, len(b)-3000):])
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Server is a running server or ensemble that steps can be taken against.
type Server struct {
	Name  string
	addr  string
	procs []*process
	dir   string
}

// Stop ends its processes and removes its files.
func (s *Server) Stop() {
	for _, p := range s.procs {
		p.stop()
	}
	_ = os.RemoveAll(s.dir)
}

// Start starts a fresh server in a temporary folder below dir.
type Start func(ctx context.Context, dir string) (*Server, error)

// StartZooKeeper runs Apache ZooKeeper, standalone, from a folder of jars.
func StartZooKeeper(jars string, set Settings) Start {
	return standalone("Apache ZooKeeper", set.lines(), func(config string) *exec.Cmd {
		args := []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.forceSync=no"}
		for _, property := range set.sweeping() {
			args = append(args, "-D"+property)
		}
		return exec.Command("java", append(args, "-cp", filepath.Join(jars, "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)...)
	})
}

// StartZkd runs a standalone zkd from its binary.
func StartZkd(binary string, set Settings) Start {
	return standalone("zkd", append(set.lines(), set.sweeping()...), func(config string) *exec.Cmd { return exec.Command(binary, "--config", config) })
}

func standalone(name string, lines []string, command func(config string) *exec.Cmd) Start {
	return func(ctx context.Context, dir string) (*Server, error) {
		s, err := newServer(name, dir)
		if err != nil {
			return nil, err
		}
		free, err := ports.Free(1)
		if err == nil {
			err = s.add(launch(s.dir, 1, free[0], lines, command))
		}
		if err == nil {
			_, err = s.procs[0].awaitMode(ctx)
			s.addr = s.procs[0].addr
		}
		return s.orStop(err)
	}
}

// steady keeps members of a slow machine in their roles: a change of leader closes connections, and what is compared here is not that.
var steady = []string{"zkd.hbTimeout=20000", "zkd.diskStall=20000", "zkd.proposalStall=20000"}

// StartEnsemble runs three zkd servers and an observer; the steps are taken against the first that is in the given mode: leader, follower
// or observer.
func StartEnsemble(binary, mode string, set Settings) Start {
	return func(ctx context.Context, dir string) (*Server, error) {
		s, err := newServer("zkd "+mode+" of an ensemble", dir)
		if err != nil {
			return nil, err
		}
		return s.orStop(s.ensemble(ctx, binary, mode, set))
	}
}

func (s *Server) ensemble(ctx context.Context, binary, mode string, set Settings) error {
	const n = 4
	free, err := ports.Free(3 * n)
	if err != nil {
		return err
	}
	lines := append(set.lines(), set.sweeping()...)
	lines = append(lines, steady...)
	for i := range n {
		role := "participant"
		if i == n-1 {
			role = "observer"
		}
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d:%s", i+1, free[n+i], free[2*n+i], role))
	}
	command := func(config string) *exec.Cmd { return exec.Command(binary, "--config", config) }
	for i := range n {
		if err := s.add(launch(s.dir, i+1, free[i], lines, command)); err != nil {
			return err
		}
	}
	for _, p := range s.procs {
		got, err := p.awaitMode(ctx)
		if err != nil {
			return err
		}
		if got == mode && s.addr == "" {
			s.addr = p.addr
		}
	}
	if s.addr == "" {
		return errors.New("no server of the ensemble is a " + mode)
	}
	return nil
}

func newServer(name, dir string) (*Server, error) {
	dir, err := os.MkdirTemp(dir, "zkd-difftest-")
	return &Server{Name: name, dir: dir}, err
}

func (s *Server) add(p *process, err error) error {
	if err == nil {
		s.procs = append(s.procs, p)
	}
	return err
}

func (s *Server) orStop(err error) (*Server, error) {
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return s, nil
}
