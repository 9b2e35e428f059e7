package statemachine

import (
	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/session"
	"github.com/zkd-project/zkd/txn"
)

// Config is what an operator may choose. Apply never looks at it.
type Config struct {
	MaxTxnBytes   int  // longest record that Prepare makes; 0 is no bound
	SkipACL       bool // every permission check passes
	ExtendedTypes bool // znodes with a time to live may be created
	EnforceQuota  bool // hard limits of quotas are enforced
	LocalSessions bool // a session that is not known may be one that only its server knows: it may do anything but own ephemerals

	// Ensemble is the membership that /zookeeper/config shows, and EnsembleMillis when it was read, in milliseconds since 1970. Apart
	// from that node, which no digest covers, the state does not depend on it. "": the node is empty.
	Ensemble       string
	EnsembleMillis int64

	// Parallel calls do for 0 to n-1, side by side where it can, and returns when all are done; nil: one after the other. The state does
	// not depend on it.
	Parallel func(n int, do func(i int))

	// Aside starts do and returns at once; ended tells whether do has ended, or with wait waits for it, whoever calls it and however often.
	// nil: what would be done aside is done at once. The state does not depend on it.
	Aside func(do func()) (ended func(wait bool) bool)
}

// Machine is the replicated state of one server. See the package for who may call what.
type Machine struct {
	cfg      Config
	tree     *datatree.Tree
	sessions *session.Table
	zxid     txn.Zxid
	millis   int64 // time of the last applied transaction
	pending  pending
	marks    marks
	room     int             // bytes that ids may still take in the request that is being prepared
	spare    datatree.Events // room for those that nobody wants
}

// New returns the state before the first transaction.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg, tree: datatree.New(), sessions: session.NewTable(), pending: newPending()}
	m.showConfig()
	return m
}

func (m *Machine) showConfig() {
	if m.cfg.Ensemble != "" {
		m.tree.ShowConfig(m.cfg.Ensemble, m.cfg.EnsembleMillis)
	}
}

// Postpone begins a replay: what only lists of children and snapshots need is left out until Settle, or until one is asked for.
func (m *Machine) Postpone() { m.tree.Postpone() }

// Settle ends what Postpone or Restore began. Nobody may read beside it. With Config.Aside the order of the znodes may not be there yet
// when it returns; lists and snapshots wait for it, see Ordered.
func (m *Machine) Settle() {
	m.tree.Settle(m.cfg.Parallel, m.cfg.Aside)
	m.spare = nil
	if m.marks.last() < m.zxid {
		m.marks.add(m.zxid, m.tree.Digest())
	}
}

// Ordered reports whether lists of children and snapshots need not wait for what Settle began. Once true it stays so until the next Postpone.
func (m *Machine) Ordered() bool { return m.tree.Ordered() }

// Filling returns what waits, with true, until the state is Ordered; nil: it is. What it returns may be called beside everything else.
func (m *Machine) Filling() (ended func(wait bool) bool) { return m.tree.Filling() }

// LastZxid is the zxid of the last applied transaction.
func (m *Machine) LastZxid() txn.Zxid { return m.zxid }

// Digest is the running digest of the tree, equal on all servers at the same zxid.
func (m *Machine) Digest() uint64 { return m.tree.Digest() }

// DigestAt is what Digest was when the transaction with this zxid was the last one; ok is false if that is not remembered any more, or never
// was so. The zxid of the snapshot that the state came from counts.
func (m *Machine) DigestAt(zxid txn.Zxid) (digest uint64, ok bool) {
	if zxid == m.zxid {
		return m.Digest(), true
	}
	return m.marks.at(zxid)
}

// NodeCount is the number of znodes.
func (m *Machine) NodeCount() int { return m.tree.Len() }

// EphemeralCount is the number of ephemerals. It takes time in proportion to the sessions that own some.
func (m *Machine) EphemeralCount() int { return m.tree.EphemeralCount() }

// DataSize is about how many bytes the znodes hold: the lengths of all paths and data.
func (m *Machine) DataSize() int64 { return m.tree.Bytes() }

// SessionTimeout returns a session's timeout in milliseconds; ok is false if no such session is open.
func (m *Machine) SessionTimeout(id txn.SessionID) (millis int32, ok bool) {
	return m.sessions.Timeout(id)
}

// SessionCount is the number of open sessions.
func (m *Machine) SessionCount() int { return m.sessions.Len() }

// HighestSession is the largest session id that a server ever opened, 0 if it opened none. It may run beside reads.
func (m *Machine) HighestSession(server txn.ServerID) txn.SessionID {
	return m.sessions.Highest(server)
}

// Sessions calls yield for each open session in ascending order, with its timeout in milliseconds, until it returns false.
func (m *Machine) Sessions(yield func(id txn.SessionID, timeoutMillis int32) bool) {
	for _, id := range m.sessions.IDs() {
		timeout, _ := m.sessions.Timeout(id)
		if !yield(id, timeout) {
			return
		}
	}
}

// Secret is the ensemble's secret, nil before it was applied. It is shared: do not change it.
func (m *Machine) Secret() []byte { return m.sessions.Secret() }

// Ephemerals returns the paths of a session's ephemerals in ascending order.
func (m *Machine) Ephemerals(owner txn.SessionID) []string { return m.tree.Ephemerals(owner) }

// EphemeralOwners calls yield for each session that owns ephemerals and their number, in no particular order.
func (m *Machine) EphemeralOwners(yield func(owner txn.SessionID, count int) bool) {
	m.tree.Owners(yield)
}

// Stat returns the Stat of the znode at path, "" being the root; ok is false if there is none.
func (m *Machine) Stat(path string) (stat proto.Stat, ok bool) {
	n := m.tree.Get(path)
	if n == nil {
		return proto.Stat{}, false
	}
	return n.Stat(), true
}

// MayRead reports whether a connection with the given ids may see a znode with this ACL, and so an Event about it.
func (m *Machine) MayRead(acl []proto.ACL, ids []proto.ID) bool {
	return m.allowed(acl, proto.PermRead, ids)
}

func (m *Machine) allowed(acl []proto.ACL, want proto.Perm, ids []proto.ID) bool {
	return m.cfg.SkipACL || datatree.Allowed(acl, want, ids)
}
