package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/bench/load"
	"github.com/zkd-project/zkd/internal/ports"
)

const (
	startLimit = 2 * time.Minute // until a server serves
	stopLimit  = time.Minute
	pollEvery  = time.Millisecond
)

// member is one server of a cluster, across restarts.
type member struct {
	id     int
	addr   string // for clients
	dir    string
	config string // its zoo.cfg
	cmd    *exec.Cmd
	exited chan struct{}
}

// cluster is the processes of one system.
type cluster struct {
	sys     *system
	dir     string
	members []*member
}

// start lays out and starts n servers and waits until all serve. settings are further lines of zoo.cfg.
func (b *bench) start(ctx context.Context, sys *system, n int, settings ...string) (*cluster, error) {
	b.clients++
	c := &cluster{sys: sys, dir: filepath.Join(b.dir, fmt.Sprintf("%d-%s", b.clients, sys.name))}
	free, err := ports.Free(3 * n)
	if err != nil {
		return nil, err
	}
	var servers []string
	for i := range n {
		m := &member{id: i + 1, addr: fmt.Sprintf("127.0.0.1:%d", free[i]), dir: filepath.Join(c.dir, fmt.Sprint(i+1))}
		m.config = filepath.Join(m.dir, "zoo.cfg")
		c.members = append(c.members, m)
		servers = append(servers, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, free[n+i], free[2*n+i]))
	}
	if n == 1 {
		servers = nil
	}
	for i, m := range c.members {
		if err := m.layOut(free[i], append(settings, servers...)); err != nil {
			return nil, err
		}
		if err := c.launch(m); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	if err := c.await(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (m *member) layOut(port int, settings []string) error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	lines := append([]string{"tickTime=2000", "initLimit=30", "syncLimit=5", "dataDir=" + m.dir, "clientPortAddress=127.0.0.1",
		fmt.Sprintf("clientPort=%d", port), "maxClientCnxns=0", "4lw.commands.whitelist=srvr,mntr"}, settings...)
	files := map[string]string{"zoo.cfg": strings.Join(lines, "\n") + "\n", "myid": fmt.Sprint(m.id)}
	for name, text := range logConfigs {
		files[name] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// launch starts a member's process; it does not wait until it serves.
func (c *cluster) launch(m *member) error {
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.sys.command(m)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd, m.exited = cmd, make(chan struct{})
	go func(done chan struct{}) {
		_ = cmd.Wait() // how it ended does not matter: it was stopped or killed, or the next wait for it to serve says that it is gone
		close(done)
	}(m.exited)
	return nil
}

// await returns when every running member serves.
func (c *cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("did not serve in time"))
	defer cancel()
	for _, m := range c.members {
		if m.cmd == nil {
			continue
		}
		for mode, err := m.mode(c.sys); err != nil || mode == ""; mode, err = m.mode(c.sys) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s, server %d: %w\n%s", c.sys.name, m.id, context.Cause(ctx), m.logTail())
			case <-m.exited:
				return fmt.Errorf("%s, server %d has ended\n%s", c.sys.name, m.id, m.logTail())
			case <-time.After(20 * pollEvery):
			}
		}
	}
	return nil
}

// logTail is the end of what the server has logged.
func (m *member) logTail() string {
	b, err := os.ReadFile(filepath.Join(m.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// mode is what the server says it is, "" while it does not serve. A floor has none; it is "standalone" when it listens.
func (m *member) mode(sys *system) (string, error) {
	nc, err := net.DialTimeout("tcp", m.addr, time.Second)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	if !sys.words {
		return "standalone", nil
	}
	nc.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(nc, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(nc)
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(answer), "Mode: ")
	mode, _, _ := strings.Cut(rest, "\n")
	return mode, nil
}

// leader returns the member that leads; nil if none says so.
func (c *cluster) leader() *member {
	for _, m := range c.members {
		if mode, err := m.mode(c.sys); err == nil && mode == "leader" {
			return m
		}
	}
	return nil
}

func (c *cluster) addrs() (addrs []string) {
	for _, m := range c.members {
		addrs = append(addrs, m.addr)
	}
	return addrs
}

func (c *cluster) pids() (pids []int) {
	for _, m := range c.members {
		pids = append(pids, m.cmd.Process.Pid)
	}
	return pids
}

// rss is the largest resident size of a member.
func (c *cluster) rss() (int64, error) {
	most := int64(0)
	for _, pid := range c.pids() {
		u, err := load.ProcessUsage([]int{pid})
		if err != nil {
			return 0, err
		}
		most = max(most, u.RSS)
	}
	return most, nil
}

// signal sends a signal and waits for the process's end.
func (m *member) signal(s syscall.Signal) error {
	if err := m.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-m.exited:
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("server %d does not end after %v", m.id, s)
	}
}

// close kills what runs and removes the data.
func (c *cluster) close() error {
	var errs []error
	for _, m := range c.members {
		if m.cmd != nil {
			errs = append(errs, m.signal(syscall.SIGKILL))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
