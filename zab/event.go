package zab

import "github.com/zkd-project/zkd/txn"

// ConnID names one data connection within the life of a process. It is never reused.
type ConnID uint64

// Event is something a core is told: one of the structs below.
type Event interface{ isEvent() }

// Heard is a notification from the election mesh. The mesh has already checked who sent it, and that it is from the newest
// connection.
type Heard struct {
	From         ServerID
	Notification Notification
}

// MeshUp: the election connection to Peer stands.
type MeshUp struct{ Peer ServerID }

// MeshDown: it broke or could not be made. Active: the other side refused or reset it, so its process is not there; otherwise
// nobody answered. Foreign: whoever is there belongs to another cluster.
type MeshDown struct {
	Peer    ServerID
	Active  bool
	Foreign bool
}

// Accepted: a learner's data connection came in, HELLO done.
type Accepted struct {
	Conn ConnID
	Peer ServerID
}

// Dialed: the data connection that Dial asked for stands, HELLO done.
type Dialed struct {
	Conn ConnID
	Peer ServerID
}

// DialFailed: it does not.
type DialFailed struct {
	Peer    ServerID
	Refused bool
	Reason  string
}

// Received is a packet on a data connection that is still the newest of its peer.
type Received struct {
	Conn   ConnID
	Packet Packet
	Epoch  txn.Epoch // of the frame's header
}

// Unread: at a moment at which something is due, bytes of a data connection have come that nobody has looked at yet. The other side is not silent;
// this one is slow to read.
type Unread struct{ Conn ConnID }

// Progress: bytes moved on a data connection (chunks of a snapshot) that are no packets for the core; they count as life.
type Progress struct{ Conn ConnID }

// ConnDown: a data connection is gone, by whosever will. Nothing more comes from it.
type ConnDown struct {
	Conn   ConnID
	Active bool
}

// DiskDone: the disk operation with this id, and every one before it, succeeded. Failures do not reach the core: the shell stops.
type DiskDone struct{ ID uint64 }

// LogRead answers ReadLog. Gone: the log no longer reaches back that far, or could not be read; the learner needs a snapshot.
type LogRead struct {
	Conn    ConnID
	After   txn.Zxid
	Records []txn.Record
	Gone    bool
}

// SnapshotSent: the snapshot stream that SendSnapshot asked for has been written to the connection.
type SnapshotSent struct {
	Conn ConnID
	At   Position
}

// SnapshotFailed: it could not be sent; the connection is being closed.
type SnapshotFailed struct {
	Conn   ConnID
	Reason string
}

// SnapshotReceived: all chunks of a snapshot came and its checks hold; it is in a temporary file, not yet installed.
type SnapshotReceived struct {
	Conn  ConnID
	Begin SnapBegin
}

// SnapshotTaken: a local snapshot became durable and verified. Size in bytes. LogBase is the lowest position from which the log
// can still be streamed.
type SnapshotTaken struct {
	At      Position
	Size    int64
	LogBase Position
}

// Submit: writes from this server's own clients, in order.
type Submit struct{ Requests []txn.Request }

// Prepared answers Prepare, one draft per request in the same order, within the same turn.
type Prepared struct{ Drafts []txn.Draft }

// SyncAsked: this server's edge wants a leadership round.
type SyncAsked struct{ ID uint64 }

// RevalidateAsked: this server's edge wants a session.
type RevalidateAsked struct{ Revalidate Revalidate }

// SessionState answers AskSession within the same turn.
type SessionState struct {
	Conn   ConnID // 0: own edge
	Ask    Revalidate
	Known  bool
	Ending bool // a closeSession is proposed and not yet applied
}

// StateDigest answers AskDigest within the same turn. Known is false if the state does not remember that zxid.
type StateDigest struct {
	At     txn.Zxid
	Digest uint64
	Known  bool
}

// Touched: what this server's clients touched since the last time; the shell gives it before each Ping it delivers, and
// to a leader before each tick.
type Touched struct{ Touches []Touch }

// Expired: sessions whose time is up by the leader's tracker. The leader decides.
type Expired struct{ Sessions []txn.SessionID }

// Tick: the deadline that the core named has come. Cores also look at the time in every other Step.
type Tick struct{}

// Disk tells about free space.
type Disk struct{ Low, Full bool }

// Stop asks for a graceful end: a leader hands over, a follower says goodbye. Ended follows.
type Stop struct{}

// HandOver asks the leader to make Target lead (0: whoever is best).
type HandOver struct{ Target ServerID }

func (Heard) isEvent()            {}
func (MeshUp) isEvent()           {}
func (MeshDown) isEvent()         {}
func (Accepted) isEvent()         {}
func (Dialed) isEvent()           {}
func (DialFailed) isEvent()       {}
func (Received) isEvent()         {}
func (Progress) isEvent()         {}
func (Unread) isEvent()           {}
func (ConnDown) isEvent()         {}
func (DiskDone) isEvent()         {}
func (LogRead) isEvent()          {}
func (SnapshotSent) isEvent()     {}
func (SnapshotFailed) isEvent()   {}
func (SnapshotReceived) isEvent() {}
func (SnapshotTaken) isEvent()    {}
func (Submit) isEvent()           {}
func (Prepared) isEvent()         {}
func (SyncAsked) isEvent()        {}
func (RevalidateAsked) isEvent()  {}
func (SessionState) isEvent()     {}
func (StateDigest) isEvent()      {}
func (Touched) isEvent()          {}
func (Expired) isEvent()          {}
func (Tick) isEvent()             {}
func (Disk) isEvent()             {}
func (Stop) isEvent()             {}
func (HandOver) isEvent()         {}
