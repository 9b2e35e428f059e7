package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/internal/ports"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/zab"
)

var devClock = env.RealClock{}

// devReady bounds how long an ensemble may take to serve before dev says what is wrong.
const devReady = 30 * time.Second

// runDev runs a whole ensemble in this process, each member with its own folder, log file and ports on loopback.
func runDev(ctx context.Context, args []string, out, errOut io.Writer) error {
	fs := flags("dev", out)
	nodes := fs.Int("nodes", 3, "how many servers")
	port := fs.Int("client-port", 2181, "client port of the first server; the others follow")
	dir := fs.String("data-dir", "", "where to keep the data; a temporary folder that is removed at the end unless given")
	tick := fs.Duration("tick", 2*time.Second, "tickTime")
	set := fs.StringArray("set", nil, "a line of a zoo.cfg for every server, as extendedTypesEnabled=true; may be repeated")
	if err := parse(fs, args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return &usageError{fmt.Errorf("unexpected %q", fs.Arg(0))}
	case *nodes < 1 || *nodes > 9:
		return &usageError{errors.New("--nodes: from 1 to 9")}
	case *port < 1 || *port+*nodes-1 > 65535:
		return &usageError{errors.New("--client-port: out of range")}
	}
	base := defaultZooConfig()
	base.TickTime, base.MaxClientCnxns = *tick, 0
	if err := base.setAll(*set); err != nil {
		return &usageError{fmt.Errorf("--set: %w", err)}
	}
	if *dir == "" {
		tmp, err := os.MkdirTemp("", "zkd-dev-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		*dir = tmp
	}
	cfgs, err := devConfigs(*nodes, *port, *dir, base)
	if err != nil {
		return err
	}
	return runEnsemble(ctx, cfgs, out, errOut)
}

// setAll takes lines of a zoo.cfg. Where servers are and keep their data is not theirs to say.
func (c *zooConfig) setAll(lines []string) error {
	for _, line := range lines {
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%q has no =", line)
		}
		key = strings.TrimPrefix(key, "zookeeper.")
		if strings.HasPrefix(key, "server.") || slices.Contains([]string{"dataDir", "dataLogDir", "clientPort", "clientPortAddress"}, key) {
			return fmt.Errorf("%s is decided here", key)
		}
		if err := c.set(key, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// devConfigs lays out the members, which share what is in base: folder N for server N, peer ports wherever there is room.
func devConfigs(nodes, port int, dir string, base *zooConfig) ([]*zooConfig, error) {
	free, err := ports.Free(2 * nodes)
	if err != nil {
		return nil, err
	}
	local := func(p int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p)) }
	var servers []zab.Server
	for i := range nodes {
		s := zab.Server{ID: zab.ServerID(i + 1), ClientAddr: local(port + i)}
		if nodes > 1 {
			s.PeerAddr, s.ElectionAddr = local(free[2*i]), local(free[2*i+1])
		}
		servers = append(servers, s)
	}
	var cfgs []*zooConfig
	for i := range nodes {
		member := *base
		c := &member
		c.Self, c.Servers = servers[i].ID, servers
		c.ClientPortAddress, c.ClientPort = "127.0.0.1", port+i
		c.DataDir = filepath.Join(dir, strconv.Itoa(i+1))
		c.LogDir = c.DataDir
		if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
			return nil, err
		}
		cfgs = append(cfgs, c)
	}
	return cfgs, nil
}

// runEnsemble runs the members until ctx ends or one of them fails.
func runEnsemble(ctx context.Context, cfgs []*zooConfig, out, errOut io.Writer) error {
	logs, err := openLogs(cfgs)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range logs {
			f.Close()
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait() // before the log files are closed
	defer cancel()
	fail := make(chan error, len(cfgs))
	var members []*node
	for i, c := range cfgs {
		log, err := newLogger(logs[i], "text", "info")
		if err != nil {
			return err
		}
		n, err := newNode(c, log.With(zap.Uint8("sid", uint8(c.Self))), len(c.Servers))
		if err != nil {
			var fatal *peer.FatalError
			if errors.As(err, &fatal) && fatal.Code == exitConfig {
				return fmt.Errorf("server %d: %w (another ensemble? try --client-port)", c.Self, err)
			}
			return fmt.Errorf("server %d: %w", c.Self, err)
		}
		members = append(members, n)
	}
	for _, n := range members {
		wg.Go(func() {
			if err := n.run(ctx); err != nil {
				fail <- fmt.Errorf("server %d: %w", n.cfg.Self, err)
			}
		})
	}
	wg.Go(func() { watchRoles(ctx, members, errOut) })
	wg.Go(func() { tidyMemory(ctx, readMemory, releaseMemory) })
	wg.Go(func() {
		endStart(ctx)
		paceCollections(ctx, readMemory, setPace)
	})
	ready, stop := context.WithTimeout(ctx, devReady)
	defer stop()
	for _, n := range members {
		if err := n.waitReady(ready); err != nil {
			select {
			case err = <-fail:
				return err
			default:
			}
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("server %d does not serve after %v: %s; its log is %s", n.cfg.Self, devReady, n.peer.Status().Reason,
				filepath.Join(n.cfg.DataDir, "zkd.log"))
		}
	}
	fmt.Fprintln(out, connectString(cfgs))
	select {
	case <-ctx.Done():
		return nil
	case err := <-fail:
		return err
	}
}

// openLogs opens each member's log file.
func openLogs(cfgs []*zooConfig) ([]*os.File, error) {
	var files []*os.File
	for _, c := range cfgs {
		f, err := os.OpenFile(filepath.Join(c.DataDir, "zkd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func connectString(cfgs []*zooConfig) string {
	var addrs []string
	for _, c := range cfgs {
		addrs = append(addrs, c.clientAddr())
	}
	return strings.Join(addrs, ",")
}

// watchRoles prints one line for each change of a member's role.
func watchRoles(ctx context.Context, members []*node, out io.Writer) {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	last := map[zab.ServerID]string{}
	for {
		for _, n := range members {
			st := n.peer.Status()
			now := st.Role.String()
			if st.Epoch > 0 && st.Role != zab.Looking {
				now += fmt.Sprintf(" in epoch %d", st.Epoch)
			}
			if now != last[st.Self] && (st.Epoch > 0 || st.Role == zab.Looking) {
				last[st.Self] = now
				fmt.Fprintf(out, "server %d (%s) is %s\n", st.Self, n.cfg.clientAddr(), now)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
