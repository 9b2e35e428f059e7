package zab

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/txn"
)

// Vote names a would-be leader with the history it was chosen for. Zxid is its durable log end (O12), Epoch its currentEpoch.
type Vote struct {
	Leader  ServerID
	Epoch   txn.Epoch
	Zxid    txn.Zxid
	DiskLow bool
}

// Better is the order of votes (docs/protocol.md §5.1): epoch of the accepted history, then its end, then not being short of disk,
// then the id. A vote for nobody is worse than any other.
func (v Vote) Better(o Vote) bool {
	switch {
	case (v.Leader == 0) != (o.Leader == 0):
		return v.Leader != 0
	case mutant.On("R-71"):
		return v.Leader > o.Leader
	case mutant.On("vote-order") && v.Zxid != o.Zxid:
		return v.Zxid > o.Zxid
	case v.Epoch != o.Epoch:
		return v.Epoch > o.Epoch
	case v.Zxid != o.Zxid:
		return v.Zxid > o.Zxid
	case v.DiskLow != o.DiskLow:
		return !v.DiskLow
	}
	return v.Leader > o.Leader
}

// Notification is what servers tell each other about the election (NOTIFY). Only the latest to a peer matters: the shell keeps
// one per peer and overwrites it.
type Notification struct {
	State            Role
	Round            uint64 // of the sender's current election; has no meaning outside it
	Vote             Vote   // Leader 0: no vote (not votable, or leaving a role: R-1)
	Votable          bool
	Fresh            bool // empty directory, never counted
	Draining         bool
	Leader           ServerID  // whom the sender follows; itself when leading; 0 while looking
	EstablishedEpoch txn.Epoch // 0 until UPTODATE was received or sent
	CurrentEpoch     txn.Epoch
	ConfigVersion    txn.Zxid
	Unreachable      []ServerID // whose data port the sender cannot reach
	Designated       ServerID   // HANDOVER's target while its grace lasts, else 0
	Seq              uint64     // of the sender to this peer, growing
	AnswerTo         uint64     // largest Seq the sender has had from this peer
}
