package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/zab"
)

// exitConfig is the exit code of a configuration that cannot be used.
const exitConfig = 3

// peerConfig is what replication needs of a config.
func (c *zooConfig) peerConfig() (peer.Config, error) {
	core := zab.DefaultConfig()
	core.Self = c.Self
	core.Members = zab.Membership{Servers: c.Servers}
	core.TickTime, core.InitLimit, core.SyncLimit = c.TickTime, c.InitLimit, c.SyncLimit
	pc := peer.Config{Core: core, Disk: env.OSDisk{Rings: new(env.Rings)}, Net: env.TCP{}, Clock: env.RealClock{}, Rand: env.SystemRand{},
		DataDir: c.DataDir, LogDir: c.LogDir, SnapTxns: c.SnapCount, SnapLimit: c.snapLimit(), RetainSnaps: c.RetainSnaps,
		MaxFrame: max(8<<20, 2*c.maxTxn()+4096)}
	var errs []error
	for _, name := range tuningKeys() {
		name = name[len("zkd."):]
		if v, ok := c.ZKD[name]; ok {
			if err := tuning[name](&pc, v); err != nil {
				errs = append(errs, fmt.Errorf("zkd.%s: %w", name, err))
			}
		}
	}
	pc.SetDefaults()
	errs = append(errs, pc.Validate())
	return pc, errors.Join(errs...)
}

// snapLimit is snapSizeLimitInKb in bytes.
func (c *zooConfig) snapLimit() int64 {
	if c.SnapSizeKiB <= 0 {
		return 1 << 60 // never
	}
	return int64(c.SnapSizeKiB) << 10
}

// maxTxn bounds one transaction: a request of jute.maxbuffer must fit with what prepare adds to it.
func (c *zooConfig) maxTxn() int { return 2 * c.JuteMaxBuffer }

func (c *zooConfig) serverConfig(clock env.Clock) server.Config {
	conns := c.MaxClientCnxns
	if conns == 0 {
		conns = -1
	}
	sc := server.Config{SelfID: c.Self, Standalone: len(c.Servers) == 1, TickTime: c.TickTime, MinSessionTimeout: max(c.MinTimeout, 0), MaxSessionTimeout: max(c.MaxTimeout, 0),
		MaxClientCnxns: conns, MaxConns: c.MaxCnxns, MaxFrame: c.JuteMaxBuffer, GlobalOutstanding: c.GlobalOutstanding, RequestTimeout: time.Duration(c.SyncLimit) * c.TickTime,
		FourLetterWhitelist: c.Words, SuperDigest: c.SuperDigest, LocalSessions: c.localSessions(), UpgradeSessions: c.UpgradeSessions, ReadOnlyMode: c.ReadOnlyMode && len(c.Servers) > 1, Version: serverVersion(), Built: buildTime(),
		FadeEvery: c.FadeEvery, FadePerMinute: c.FadePerMinute, NeverUsed: c.NeverUsed, ClientPort: c.ClientPort,
		DataDir: c.LogDir, SnapDir: c.DataDir, Now: clock.Now, Wall: clock.Wall}
	for _, s := range c.Servers {
		if s.PeerAddr != "" {
			sc.Settings = append(sc.Settings, serverLine(s))
		}
	}
	return sc
}

func (c *zooConfig) machineConfig(now time.Time) statemachine.Config {
	return statemachine.Config{MaxTxnBytes: c.maxTxn(), SkipACL: c.SkipACL, ExtendedTypes: c.ExtendedTypes, EnforceQuota: c.EnforceQuota, LocalSessions: c.localSessions(),
		Ensemble: c.ensembleText(), EnsembleMillis: now.UnixMilli(), Parallel: sideBySide, Aside: aside}
}

// localSessions: as in ZooKeeper, only members of an ensemble have them.
func (c *zooConfig) localSessions() bool { return c.LocalSessions && len(c.Servers) > 1 }

// ensembleText is the membership as /zookeeper/config shows it; a server without others shows nothing there.
func (c *zooConfig) ensembleText() string {
	if len(c.Servers) < 2 {
		return ""
	}
	var b strings.Builder
	for _, s := range c.Servers {
		b.WriteString(serverLine(s))
		b.WriteByte('\n')
	}
	return b.String() + "version=0"
}

// serverLine writes a member as zoo.cfg has it.
func serverLine(s zab.Server) string {
	host, peerPort, _ := net.SplitHostPort(s.PeerAddr)
	_, electionPort, _ := net.SplitHostPort(s.ElectionAddr)
	role := "participant"
	if s.Observer {
		role = "observer"
	}
	line := fmt.Sprintf("server.%d=%s:%s:%s:%s", s.ID, host, peerPort, electionPort, role)
	if s.ClientAddr != "" {
		line += ";" + s.ClientAddr
	}
	return line
}

// clientAddr is where clients are served. A server without a config file listens on loopback only.
func (c *zooConfig) clientAddr() string {
	return net.JoinHostPort(c.ClientPortAddress, strconv.Itoa(c.ClientPort))
}

// node is one running server: the client edge and its peer, joined.
type node struct {
	cfg  *zooConfig
	log  *zap.Logger
	srv  *server.Server
	peer *peer.Peer
	ln   net.Listener
	disk env.OSDisk
	sync string // how files are synced, for the log
}

// newNode recovers the data and opens the client port; nothing is served yet. share is how many servers this process runs.
func newNode(c *zooConfig, log *zap.Logger, share int) (*node, error) {
	pc, err := c.peerConfig()
	if err != nil {
		return nil, &peer.FatalError{Code: exitConfig, Err: fmt.Errorf("configuration: %w", c.inFile(err))}
	}
	sc := c.serverConfig(pc.Clock)
	sc.MaxConns = c.clientLimit(openFiles(), share)
	if err := sc.Validate(); err != nil {
		return nil, &peer.FatalError{Code: exitConfig, Err: fmt.Errorf("configuration: %w", c.inFile(err))}
	}
	if c.SkipACL {
		log.Warn("skipACL is set: every client may do everything")
	}
	ln, err := net.Listen("tcp", c.clientAddr())
	if err != nil {
		return nil, &peer.FatalError{Code: exitConfig, Err: fmt.Errorf("listen for clients: %w; %s", err, listenHint(err))}
	}
	disk, how := syncing(pc.Disk.(env.OSDisk))
	pc.Disk = disk
	var p *peer.Peer
	sc.Extra = func() (out []server.Metric) {
		for _, f := range p.Figures() {
			out = append(out, server.Metric{Name: "zk_" + f.Name, Value: strconv.FormatInt(f.Value, 10)})
		}
		return out
	}
	rep := server.NewReplica(sc, c.machineConfig(pc.Clock.Wall()))
	srv := server.New(sc, rep, log.Named("server"))
	collectLater(func() { p, err = peer.Open(pc, rep, rep, srv, log.Named("peer")) })
	if err != nil {
		ln.Close()
		disk.Rings.Close()
		return nil, err
	}
	srv.Attach(p)
	return &node{cfg: c, log: log, srv: srv, peer: p, ln: ln, disk: disk, sync: how}, nil
}

// listenHint says what to look at when clients cannot be listened for.
func listenHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "is another server running, or is clientPort wrong?"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "clientPortAddress, or the address in its own server.N line, is none of this machine's"
	}
	return "check clientPort and clientPortAddress"
}

// syncing finds out how files can be synced here, and says it for the log.
func syncing(disk env.OSDisk) (env.OSDisk, string) {
	if disk.Rings == nil {
		return disk, "fdatasync (zkd.ioUring is false)"
	}
	if err := disk.Rings.Probe(); err != nil {
		return env.OSDisk{}, fmt.Sprintf("fdatasync (%v)", err)
	}
	return disk, "io_uring"
}

// run serves until ctx ends, then stops: first the peer (a leader hands over while its clients still are served), then the clients.
func (n *node) run(ctx context.Context) error {
	sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	pctx, stopPeer := context.WithCancel(ctx)
	defer stopPeer()
	go func() {
		err := n.srv.Run(sctx, n.ln)
		stopPeer()
		served <- err
	}()
	var waits sync.WaitGroup
	defer waits.Wait()
	waits.Go(func() { n.obey(sctx) })
	n.log.Info("started", zap.String("version", version()), zap.Uint8("sid", uint8(n.cfg.Self)), zap.String("clients", n.ln.Addr().String()),
		zap.String("dataDir", absolute(n.cfg.DataDir)), zap.Int("servers", len(n.cfg.Servers)), zap.String("sync", n.sync))
	err := n.peer.Run(pctx)
	n.disk.Rings.Close()
	cancel()
	if serr := <-served; serr != nil && !errors.Is(serr, context.Canceled) {
		err = errors.Join(err, serr)
	}
	if err == nil {
		n.log.Info("stopped")
	}
	return err
}

// obey carries out an operator's signals until ctx ends: SIGUSR1 asks a leader to hand over.
func (n *node) obey(ctx context.Context) {
	orders := make(chan os.Signal, 1)
	signal.Notify(orders, syscall.SIGUSR1)
	defer signal.Stop(orders)
	for {
		select {
		case <-ctx.Done():
			return
		case <-orders:
			n.log.Info("handover ordered")
			n.peer.HandOver()
		}
	}
}

func absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}

// waitReady returns when the server serves clients.
func (n *node) waitReady(ctx context.Context) error {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		if st := n.peer.Status(); st.Phase == zab.Broadcast {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}
