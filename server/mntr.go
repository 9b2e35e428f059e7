package server

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/zab"
)

// mntr lists figures, one per line, under the names that ZooKeeper's dashboards look for; zkd's own are behind them.
func (s *Server) mntr(b *strings.Builder) {
	line := func(name string, value any) { fmt.Fprintf(b, "zk_%s\t%v\n", name, value) }
	st := s.replicator.Status()
	least, mean, most := s.rep.stats.latencies()
	conns, attached := s.rep.reg.counts()
	line("version", s.versionLine())
	line("server_state", s.mode(&st))
	line("peer_state", peerState(&st))
	line("uptime", s.cfg.Wall().Sub(s.rep.stats.start).Milliseconds())
	line("avg_latency", decimal(mean))
	line("max_latency", most)
	line("min_latency", least)
	line("packets_received", s.rep.stats.received.Load())
	line("packets_sent", s.rep.stats.sent.Load())
	line("num_alive_connections", conns)
	line("outstanding_requests", s.rep.outstanding.Load())
	line("connection_rejected", s.rep.stats.refused.Load())
	line("auth_failed_count", s.rep.stats.authFailed.Load())
	s.mntrState(line)
	line("watch_count", s.rep.watches.size())
	open, most64 := fileDescriptors()
	line("open_file_descriptor_count", open)
	line("max_file_descriptor_count", most64)
	if st.Role == zab.Leading {
		mntrLeader(line, &st)
	}
	line("attached_sessions", attached)
	line("slow_readers_closed", s.rep.stats.slowReaders.Load())
	line("large_write_rests", s.rep.stats.rests.Load())
	line("strangers_closed", s.rep.stats.strangers.Load())
	mntrReplication(line, &st)
	if s.cfg.Extra != nil {
		for _, m := range s.cfg.Extra() {
			fmt.Fprintf(b, "%s\t%s\n", m.Name, m.Value)
		}
	}
}

// mntrState is about the tree and its sessions.
func (s *Server) mntrState(line func(string, any)) {
	s.rep.mu.RLock()
	defer s.rep.mu.RUnlock()
	m := s.rep.machine
	line("znode_count", shownNodes(m.NodeCount()))
	line("ephemerals_count", m.EphemeralCount())
	line("approximate_data_size", m.DataSize())
	line("global_sessions", m.SessionCount())
	line("local_sessions", s.rep.locals.len())
	line("applied_zxid", fmt.Sprintf("0x%x", uint64(m.LastZxid())))
	line("digest", fmt.Sprintf("0x%x", m.Digest()))
}

// mntrLeader is what only a leader knows.
func mntrLeader(line func(string, any), st *zab.Status) {
	followers, observers, synced, syncedObservers := 0, 0, 0, 0
	for i := range st.Learners {
		l := &st.Learners[i]
		switch {
		case l.Observer:
			observers++
			if l.Synced {
				syncedObservers++
			}
		default:
			followers++
			if l.Synced {
				synced++
			}
		}
	}
	line("learners", followers+observers)
	line("followers", followers)
	line("synced_followers", synced)
	line("synced_non_voting_followers", 0)
	line("synced_observers", syncedObservers)
	line("pending_syncs", followers+observers-synced-syncedObservers)
	line("proposals_outstanding", st.Pending)
	for i := range st.Learners {
		l := &st.Learners[i]
		line(fmt.Sprintf("learner_%d_lag_bytes", l.ID), l.LagBytes)
		line(fmt.Sprintf("learner_%d_lag_txns", l.ID), l.LagTxns)
		line(fmt.Sprintf("learner_%d_lag_ms", l.ID), l.LagNanos/1e6)
		line(fmt.Sprintf("learner_%d_in_step", l.ID), flag(l.InStep))
		line(fmt.Sprintf("learner_%d_digest_zxid", l.ID), fmt.Sprintf("0x%x", uint64(l.Agreed)))
		line(fmt.Sprintf("learner_%d_match_zxid", l.ID), fmt.Sprintf("0x%x", uint64(l.Match)))
		line(fmt.Sprintf("learner_%d_sync_mode", l.ID), l.Mode)
	}
}

// mntrReplication is zkd's own.
func mntrReplication(line func(string, any), st *zab.Status) {
	line("server_id", st.Self)
	line("leader_id", st.Leader)
	line("epoch", st.Epoch)
	line("accepted_epoch", st.Accepted)
	line("current_epoch", st.Current)
	line("last_logged_zxid", fmt.Sprintf("0x%x", uint64(st.LogEnd)))
	line("durable_zxid", fmt.Sprintf("0x%x", uint64(st.Durable)))
	line("committed_zxid", fmt.Sprintf("0x%x", uint64(st.Commit)))
	line("lag_txns", st.LagTxns)
	line("elections", st.Elections)
	line("sync_diff", st.SyncDiff)
	line("sync_trunc", st.SyncTrunc)
	line("sync_snap", st.SyncSnap)
	line("last_failover_ms", st.LastFailover/1e6)
	line("votable", flag(st.Votable))
	line("digest_agreed_zxid", fmt.Sprintf("0x%x", uint64(st.DigestAgreed)))
	line("diverged", flag(st.Diverged))
	line("disk_low", flag(st.DiskLow))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// peerState is ZooKeeper's longer name of a role and phase.
func peerState(st *zab.Status) string {
	switch st.Role {
	case zab.Leading:
		return "leading - " + st.Phase.String()
	case zab.Following:
		return "following - " + st.Phase.String()
	case zab.Observing:
		return "observing - " + st.Phase.String()
	}
	return st.Role.String()
}

// fileDescriptors returns how many this process has open and may have; -1 if the system does not say.
func fileDescriptors() (open int, most int64) {
	open, most = -1, -1
	if dir, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(dir)
	}
	var lim syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim) == nil {
		most = int64(lim.Cur)
	}
	return open, most
}

// envi tells where this process runs; tools read the version from it.
func (s *Server) envi(b *strings.Builder) {
	host, _ := os.Hostname() // shown empty if unknown, like the rest
	dir, _ := os.Getwd()
	home, _ := os.UserHomeDir()
	fmt.Fprintf(b, "Environment:\nzookeeper.version=%s\nhost.name=%s\ngo.version=%s\nos.name=%s\nos.arch=%s\nuser.home=%s\nuser.dir=%s\n",
		s.versionLine(), host, runtime.Version(), runtime.GOOS, runtime.GOARCH, home, dir)
}

func (s *Server) dirs(b *strings.Builder) {
	fmt.Fprintf(b, "datadir_size: %d\nlogdir_size: %d\n", folderSize(s.cfg.SnapDir), folderSize(s.cfg.DataDir))
}

// folderSize is the sum of the sizes of the files in a folder and below, in bytes; what cannot be read counts as 0.
func folderSize(dir string) (total int64) {
	if dir == "" {
		return 0
	}
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// shortOps are the names of ops in cons.
var shortOps = map[proto.Op]string{
	proto.OpCreateSession: "SESS", proto.OpPing: "PING", proto.OpMulti: "MULT", proto.OpMultiRead: "MLTR", proto.OpCreate: "CREA", proto.OpCreate2: "CREA",
	proto.OpCreateContainer: "CREA", proto.OpCreateTTL: "CREA", proto.OpDelete: "DELE", proto.OpSetData: "SETD", proto.OpReconfig: "RECO",
	proto.OpSetACL: "SETA", proto.OpCloseSession: "CLOS", proto.OpSync: "SYNC", proto.OpExists: "EXIS", proto.OpGetData: "GETD",
	proto.OpSetWatches: "SETW", proto.OpSetWatches2: "STW2", proto.OpAddWatch: "ADDW", proto.OpGetACL: "GETA", proto.OpGetChildren: "GETC",
	proto.OpGetAllChildrenNumber: "GETACN", proto.OpGetChildren2: "GETC", proto.OpCheckWatches: "CHKW", proto.OpRemoveWatches: "REMW",
	proto.OpWhoAmI: "HOMI", proto.OpGetEphemerals: "GETE",
}

// shortOp is the name of an op in cons.
func shortOp(op proto.Op) string {
	if name, ok := shortOps[op]; ok {
		return name
	}
	return "NA"
}
