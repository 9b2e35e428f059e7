package zab

import (
	"time"

	"github.com/zkd-project/zkd/txn"
)

// ServerID names one server of the ensemble.
type ServerID = txn.ServerID

// Instant is a moment on the monotonic clock of one process; its zero is arbitrary. Cores compare and add, nothing else.
type Instant time.Duration

// Add returns i moved by d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns i-j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Never is the deadline of a core that waits for events only.
const Never Instant = 1<<63 - 1

// Role is what a server is at a moment. Exactly one holds at a time.
type Role uint8

// The roles. A server that is not votable (RECOVERING in the spec) is Looking, Following or Observing like others and says so in
// its notifications; Votable in Status tells it.
const (
	Looking Role = iota
	Leading
	Following
	Observing
	Stopped
)

var roleNames = [...]string{"looking", "leading", "following", "observing", "stopped"}

func (r Role) String() string { return roleNames[r] }

// Phase is how far a leader or follower has come.
type Phase uint8

// The phases, in order. Draining is a leader that hands over.
const (
	Electing Phase = iota
	Discovery
	Synchronization
	Broadcast
	Draining
)

var phaseNames = [...]string{"election", "discovery", "synchronization", "broadcast", "draining"}

func (p Phase) String() string { return phaseNames[p] }

// Server is one configured member. Addresses are host:port; cores carry them and never look at them.
type Server struct {
	ID           ServerID
	Observer     bool
	PeerAddr     string // where it accepts learners while it leads
	ElectionAddr string
	ClientAddr   string // may be empty: unknown
}

// Membership is the set of configured servers, ascending by ID. It is a value: nobody changes one that others have.
type Membership struct {
	Version txn.Zxid
	Servers []Server
}

// Voter reports whether id is a member that counts in quorums.
func (m *Membership) Voter(id ServerID) bool {
	s, ok := m.Find(id)
	return ok && !s.Observer
}

// Find returns the member with this id.
func (m *Membership) Find(id ServerID) (Server, bool) {
	for _, s := range m.Servers {
		if s.ID == id {
			return s, true
		}
	}
	return Server{}, false
}

// Voters returns the ids of the members that count, ascending.
func (m *Membership) Voters() []ServerID {
	var ids []ServerID
	for _, s := range m.Servers {
		if !s.Observer {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
