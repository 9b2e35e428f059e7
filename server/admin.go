package server

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// words are the four-letter words and who answers them. Those marked serving are refused while this server does not serve.
var words = map[string]struct {
	answer  func(*Server, *strings.Builder)
	serving bool
}{
	"ruok": {(*Server).ruok, false},
	"srvr": {(*Server).srvr, true},
	"stat": {(*Server).stat, true},
	"mntr": {(*Server).mntr, true},
	"conf": {(*Server).conf, true},
	"cons": {(*Server).cons, true},
	"isro": {(*Server).isro, false},
	"dump": {(*Server).dump, true},
	"envi": {(*Server).envi, false},
	"dirs": {(*Server).dirs, true},
	"wchs": {(*Server).wchs, true},
	"wchc": {(*Server).wchc, true},
	"wchp": {(*Server).wchp, true},
	"crst": {(*Server).crst, true},
	"srst": {(*Server).srst, true},
	"hash": {(*Server).hash, true},
	"gtmk": {(*Server).gtmk, false},
	"stmk": {(*Server).stmk, false},
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

// telnetClose is what telnet sends on control-C.
const telnetClose = 0xfff4fffd

// fourLetterWord reports whether the first four bytes of a connection are a word.
func fourLetterWord(w uint32) (name string, ok bool) {
	if w == telnetClose {
		return "", true
	}
	name = string(binary.BigEndian.AppendUint32(nil, w))
	_, ok = words[name]
	return name, ok
}

// IsWord reports whether there is a four-letter word of that name; "*" stands for all.
func IsWord(name string) bool {
	_, ok := words[name]
	return ok || name == "*"
}

func whitelist(names []string) map[string]bool {
	allowed := map[string]bool{}
	for _, n := range names {
		if n == "*" {
			for all := range maps.Keys(words) {
				allowed[all] = true
			}
		}
		allowed[n] = true
	}
	return allowed
}

// answerWord returns the whole answer to a word.
func (s *Server) answerWord(name string) string {
	if name == "" {
		return ""
	}
	if !s.words[name] {
		return name + " is not executed because it is not in the whitelist.\n"
	}
	w := words[name]
	if serves, _ := s.hold.state(); w.serving && !serves && !s.rep.isReadOnly() {
		return notServing
	}
	var b strings.Builder
	w.answer(s, &b)
	return b.String()
}

func (s *Server) ruok(b *strings.Builder) { b.WriteString("imok") }
func (s *Server) isro(b *strings.Builder) {
	if serves, _ := s.hold.state(); serves {
		b.WriteString("rw")
		return
	}
	if s.rep.isReadOnly() {
		b.WriteString("ro")
		return
	}
	b.WriteString("null")
}

// Nothing traces here, so the mask of what is traced is ZooKeeper's default and stays it.
func (s *Server) gtmk(b *strings.Builder) { b.WriteString("306") }
func (s *Server) stmk(b *strings.Builder) { b.WriteString("306") }

// versionLine has the date in the form of older servers, the only one that go-zookeeper reads.
func (s *Server) versionLine() string {
	return s.cfg.Version + ", built on " + s.cfg.Built.UTC().Format("01/02/2006 15:04 MST")
}

func (s *Server) srvr(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", s.versionLine())
	s.summary(b)
}

func (s *Server) stat(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\nClients:\n", s.versionLine())
	for _, c := range s.rep.reg.sorted() {
		c.line(b, false)
	}
	b.WriteByte('\n')
	s.summary(b)
}

// summary is the part that srvr and stat share.
func (s *Server) summary(b *strings.Builder) {
	least, mean, most := s.rep.stats.latencies()
	conns, _ := s.rep.reg.counts()
	fmt.Fprintf(b, "Latency min/avg/max: %d/%s/%d\n", least, decimal(mean), most)
	fmt.Fprintf(b, "Received: %d\nSent: %d\nConnections: %d\n", s.rep.stats.received.Load(), s.rep.stats.sent.Load(), conns)
	s.rep.mu.RLock()
	zxid, nodes := s.rep.machine.LastZxid(), shownNodes(s.rep.machine.NodeCount())
	s.rep.mu.RUnlock()
	fmt.Fprintf(b, "Outstanding: %d\nZxid: 0x%x\n", s.rep.outstanding.Load(), uint64(zxid))
	st := s.replicator.Status()
	fmt.Fprintf(b, "Mode: %s\nNode count: %d\n", s.mode(&st), nodes)
}

// decimal prints a mean as ZooKeeper does: up to four digits behind the point, at least one.
func decimal(f float64) string {
	t := strings.TrimRight(fmt.Sprintf("%.4f", f), "0")
	if strings.HasSuffix(t, ".") {
		t += "0"
	}
	return t
}

// mode is what tools know a role by.
func (s *Server) mode(st *zab.Status) string {
	if s.rep.isReadOnly() {
		return "read-only"
	}
	switch st.Role {
	case zab.Leading:
		if s.cfg.Standalone {
			return "standalone"
		}
		return "leader"
	case zab.Following:
		return "follower"
	case zab.Observing:
		return "observer"
	}
	return st.Role.String()
}

// line describes one connection as cons does, or as stat does if not full.
func (c *conn) line(b *strings.Builder, full bool) {
	now := c.srv.cfg.Now()
	wall := c.srv.cfg.Wall()
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.traffic
	attached := 0
	if c.state != shaking {
		attached = 1
	}
	fmt.Fprintf(b, " /%s[%d](queued=%d,recved=%d,sent=%d", c.remote, attached, c.q.len(), t.received, t.sent)
	if full && attached == 1 {
		mean := int64(0)
		if t.latSamples > 0 {
			mean = t.latSum / t.latSamples
		}
		fmt.Fprintf(b, ",sid=%v,lop=%s,est=%d,to=%d,lcxid=0x%x,lzxid=0x%x,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d", c.session,
			shortOp(t.lastOp), wall.Add(c.born-now).UnixMilli(), c.timeout, uint32(t.lastXid), uint64(t.lastZxid),
			t.lastAt.Milliseconds(), t.latLast, t.latMin, mean, t.latMax)
	}
	b.WriteString(")\n")
}

// cons leaves out connections without a session, this word's among them: go-zookeeper cannot read their short lines.
func (s *Server) cons(b *strings.Builder) {
	for _, c := range inOrder(s.rep.reg.attached()) {
		c.line(b, true)
	}
	b.WriteByte('\n')
}

func (s *Server) conf(b *strings.Builder) {
	fmt.Fprintf(b, "clientPort=%d\nsecureClientPort=-1\ndataDir=%s\ndataDirSize=%d\ndataLogDir=%s\ndataLogSize=%d\ntickTime=%d\n", s.cfg.ClientPort,
		s.cfg.SnapDir, folderSize(s.cfg.SnapDir), s.cfg.DataDir, folderSize(s.cfg.DataDir), s.cfg.TickTime.Milliseconds())
	id := s.cfg.SelfID
	if s.cfg.Standalone { // it has no number of its own; this one stands in its session ids
		id = 0
	}
	fmt.Fprintf(b, "maxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nclientPortListenBacklog=-1\nserverId=%d\n",
		max(s.cfg.MaxClientCnxns, 0), s.cfg.MinSessionTimeout.Milliseconds(), s.cfg.MaxSessionTimeout.Milliseconds(), id)
	for _, line := range s.cfg.Settings {
		b.WriteString(line)
		b.WriteByte('\n')
	}
}

// dump tells about sessions and who owns ephemerals.
func (s *Server) dump(b *strings.Builder) {
	s.rep.mu.RLock()
	defer s.rep.mu.RUnlock()
	m := s.rep.machine
	fmt.Fprintf(b, "SessionTracker dump:\nGlobal Sessions(%d):\n", m.SessionCount())
	m.Sessions(func(id txn.SessionID, timeoutMillis int32) bool {
		fmt.Fprintf(b, "%v\t%dms\n", id, timeoutMillis)
		return true
	})
	var owners []txn.SessionID
	m.EphemeralOwners(func(owner txn.SessionID, _ int) bool {
		owners = append(owners, owner)
		return true
	})
	slices.Sort(owners)
	fmt.Fprintf(b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(owners))
	for _, owner := range owners {
		fmt.Fprintf(b, "%v:\n", owner)
		for _, path := range m.Ephemerals(owner) {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}
	all := s.rep.reg.sorted()
	fmt.Fprintf(b, "Connections dump:\nConnections (%d):\n", len(all))
	for _, c := range all {
		c.mu.Lock()
		fmt.Fprintf(b, "\tip: /%s sessionId: %v\n", c.remote, c.session)
		c.mu.Unlock()
	}
}

func (s *Server) wchs(b *strings.Builder) {
	conns, paths, total := s.rep.watches.counts()
	fmt.Fprintf(b, "%d connections watching %d paths\nTotal watches:%d\n", conns, paths, total)
}

func (s *Server) wchp(b *strings.Builder) {
	pairs := s.rep.watches.pairs()
	for _, path := range slices.Sorted(maps.Keys(pairs)) {
		fmt.Fprintf(b, "%s\n", shownPath(path))
		for _, id := range sessionsOf(pairs[path]) {
			fmt.Fprintf(b, "\t%v\n", id)
		}
	}
	b.WriteByte('\n')
}

func (s *Server) wchc(b *strings.Builder) {
	bySession := map[txn.SessionID][]string{}
	for path, conns := range s.rep.watches.pairs() {
		for _, c := range conns {
			bySession[c.session] = append(bySession[c.session], path)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(bySession)) {
		fmt.Fprintf(b, "%v\n", id)
		for _, path := range slices.Sorted(slices.Values(bySession[id])) {
			fmt.Fprintf(b, "\t%s\n", shownPath(path))
		}
	}
	b.WriteByte('\n')
}

func sessionsOf(conns []*conn) []txn.SessionID {
	ids := make([]txn.SessionID, len(conns))
	for i, c := range conns {
		ids[i] = c.session
	}
	slices.Sort(ids)
	return ids
}

func (s *Server) crst(b *strings.Builder) {
	for _, c := range s.rep.reg.all() {
		c.mu.Lock()
		c.traffic = traffic{}
		c.mu.Unlock()
	}
	b.WriteString("Connection stats reset.\n")
}

func (s *Server) srst(b *strings.Builder) {
	s.rep.stats.reset()
	b.WriteString("Server stats reset.\n")
}

// hash lists digests of the tree; there is one, the current one.
func (s *Server) hash(b *strings.Builder) {
	zxid, digest := s.rep.Digest()
	fmt.Fprintf(b, "2: 0x%x %d\n", uint64(zxid), digest)
}

// shownNodes counts the root twice, as ZooKeeper does: it is "" and "/" there.
func shownNodes(n int) int { return n + 1 }
