package zab

import "github.com/zkd-project/zkd/txn"

// Packet is one message between peers: a pointer to one of the structs below. Field order is the wire order; new fields go at
// the end.
type Packet interface {
	Type() PacketType
}

// PacketType is the type byte of a frame. Values are frozen.
type PacketType uint8

// The packets of docs/protocol.md §22.
const (
	TypeHello PacketType = iota + 1
	TypeNotify
	TypeFollowerInfo
	TypeObserverInfo
	TypeLeaderInfo
	TypeAckEpoch
	TypeDiff
	TypeTrunc
	TypeSnapBegin
	TypeSnapChunk
	TypeSnapEnd
	TypeSyncReject
	TypeNewLeader
	TypeAck
	TypeUpToDate
	TypeBye
	TypePropose
	TypeCommit
	TypeInform
	TypePing
	TypePong
	TypeRequests
	TypeRefused
	TypeSync
	TypeSynced
	TypeRevalidate
	TypeRevalidated
	TypeHandover
	packetTypeEnd
)

// Purpose says what a connection is for.
type Purpose uint8

// Purposes of a peer connection.
const (
	ForElection Purpose = iota + 1
	ForData             // a follower's or observer's stream from its leader
)

// ProtocolVersion is the version in every frame's header.
const ProtocolVersion uint16 = 1

// Hello is the first frame on every connection between peers, in both directions. Shells exchange it; cores never see one.
type Hello struct {
	ClusterID uint64 // 0 matches every id: not settled yet (§18.7)
	Self      ServerID
	Directory uint64 // drawn when the data directory was made
	Boot      uint64 // counts starts within the directory
	ConnNo    uint64 // counts connections within the boot; a larger one replaces
	Purpose   Purpose
	Target    ServerID // whom the dialler means to reach
}

// Replaces reports whether a connection with hello h takes the place of one with hello old.
func (h *Hello) Replaces(old *Hello) bool {
	if h.Directory != old.Directory {
		return true
	}
	if h.Boot != old.Boot {
		return h.Boot > old.Boot
	}
	return h.ConnNo > old.ConnNo
}

// Notify carries a Notification.
type Notify struct{ Notification }

// FollowerInfo is a learner's first packet to its leader. An observer's frame has its own type and the same fields.
type FollowerInfo struct {
	Observer       bool
	Accepted       txn.Epoch
	AcceptedLeader ServerID
	Current        txn.Epoch
	ConfigVersion  txn.Zxid
	Votable        bool
	RecoveryID     uint64
}

// LeaderInfo proposes an epoch.
type LeaderInfo struct {
	Epoch         txn.Epoch
	ConfigVersion txn.Zxid
	ClusterID     uint64
}

// AckEpoch is the promise and the learner's place in history.
type AckEpoch struct {
	Epoch         txn.Epoch
	Vote          bool // the promise of this epoch was made to this leader
	Current       txn.Epoch
	Last          Position
	Table         EpochTable
	MinRestorable txn.Zxid // lowest zxid it can be cut to; normally its applied zxid
}

// Diff: the stream goes on behind From, which both have.
type Diff struct{ From Position }

// Trunc: cut to To, which both have; the stream goes on behind it.
type Trunc struct{ To Position }

// SnapBegin announces a snapshot. Common is the common point if CommonKnown.
type SnapBegin struct {
	At          Position
	Common      txn.Zxid
	CommonKnown bool
	Size        int64 // bytes that follow in chunks
	Table       EpochTable
}

// SnapChunk is one piece of a snapshot file; N counts from 0.
type SnapChunk struct {
	N    uint64
	Data []byte
}

// SnapEnd closes a snapshot. Sum is the CRC-32C of all chunks' data.
type SnapEnd struct {
	Sum       uint32
	Signature string // "BenWasHere"
}

// SyncReject: the learner cannot do what the sync header asked.
type SyncReject struct {
	Reason        string
	Last          Position
	MinRestorable txn.Zxid
}

// NewLeader ends the initial history: whoever acks it has everything up to End, and currentEpoch Epoch, on disk.
type NewLeader struct {
	Epoch txn.Epoch
	End   Position
}

// AckKind tells what an Ack promises.
type AckKind uint8

// Kinds of ack (D4).
const (
	AckNewLeader AckKind = iota + 1
	AckPropose
)

// Ack is cumulative: everything up to Durable is on the sender's disk, in this epoch.
type Ack struct {
	Kind    AckKind
	Epoch   txn.Epoch
	Durable txn.Zxid
	Chain   uint64 // at Durable, for AckNewLeader
	Votable bool
}

// UpToDate opens the learner for clients, once it has applied Commit.
type UpToDate struct {
	Epoch  txn.Epoch
	Commit txn.Zxid
}

// Bye says why a connection is closed.
type Bye struct {
	Code     ByeCode
	Text     string
	Accepted txn.Epoch // with ByeEpochTooOld: what the sender has promised
}

// Why is the reason in words, for the log. Whoever leaves its role says why in the text alone.
func (b Bye) Why() string {
	switch {
	case b.Text == "":
		return b.Code.String()
	case b.Code == ByeRole || b.Code == ByeNone:
		return b.Text
	}
	return b.Code.String() + " (" + b.Text + ")"
}

// ByeCode is the reason in a Bye.
type ByeCode uint8

// Reasons for closing.
const (
	ByeNone ByeCode = iota
	ByeEpochTooOld
	ByeNotLeader
	ByeSyncGap
	ByeLostAcked
	ByeSlow
	ByeDrain
	ByeWrongCluster
	ByeProtocol
	ByeGoodbye // graceful stop of a learner (§16.2)
	ByeRole    // the sender left its role
	ByeReplaced
	ByeDiverged // the receiver's state is not what the others have (I-17)
	ByeOddOut   // the sender's is not, and it leaves
)

var byeNames = [...]string{"none", "epoch too old", "not leader", "sync gap", "lost acked records", "slow", "draining",
	"wrong cluster", "protocol error", "goodbye", "role left", "replaced", "state diverged", "leader's state diverged"}

func (c ByeCode) String() string {
	if int(c) < len(byeNames) {
		return byeNames[c]
	}
	return "unknown"
}

// Propose is a batch of records in log order, as bytes.
type Propose struct {
	Commit  txn.Zxid
	Records []txn.Record
}

// Commit says that the commit moved, when nothing else is about to say so.
type Commit struct{ Commit txn.Zxid }

// Inform is committed records for an observer.
type Inform struct {
	Commit  txn.Zxid
	Records []txn.Record
}

// Ping is the leader's sign of life and the wave of a leadership round: Nonce is the leader's, growing, never reused.
type Ping struct {
	Tick       uint64
	Nonce      uint64
	Commit     txn.Zxid
	DigestZxid txn.Zxid // 0: no digest in this one
	Digest     uint64
}

// Touch says that a session's client was heard.
type Touch struct {
	Session       txn.SessionID
	TimeoutMillis int32
}

// Pong answers a Ping.
type Pong struct {
	Nonce    uint64
	Durable  txn.Zxid // for display and flow control only; acks count
	Applied  txn.Zxid
	Touches  []Touch
	LagBytes int64
	DiskLow  bool
	DiskFull bool // it will leave rather than take a record
	// DigestZxid is the last zxid at which this server compared its state with the leader's digest, 0 if it has not; Digest is its own there.
	DigestZxid txn.Zxid
	Digest     uint64
}

// Requests are forwarded writes, in the order of the origin server.
type Requests struct{ Requests []txn.Request }

// Refused says which requests were not entered into the history.
type Refused struct{ Refusals []Refusal }

// Refusal answers one request that is certainly not in the history: that with this Seq of this connection.
type Refusal struct {
	Session txn.SessionID
	Cxid    int32
	Conn    uint64
	Code    txn.Refusal
	Seq     uint64
}

// RefusalOf answers r with a refusal.
func RefusalOf(r *txn.Request, why txn.Refusal) Refusal {
	return Refusal{Session: r.Session, Cxid: r.Cxid, Conn: r.Conn, Code: why, Seq: r.Seq}
}

// Sync asks for a leadership round.
type Sync struct{ ID uint64 }

// Synced answers: whoever has applied Zxid has everything that was committed when the Sync was asked. OK false: no answer can be
// given (the leader stepped down).
type Synced struct {
	ID   uint64
	Zxid txn.Zxid
	OK   bool
}

// Revalidate asks the leader to touch a session and give it to the asking server. ID is the asker's, to match the answer. Held: for a
// connection that was there before and waited; if the session has another owner by now, its client has moved and the answer is no.
type Revalidate struct {
	ID            uint64
	Session       txn.SessionID
	TimeoutMillis int32
	Held          bool
}

// Revalidated answers. Zxid is the commit that the asker must have applied before it looks at its own table. OK false: no
// answer can be given.
type Revalidated struct {
	ID    uint64
	OK    bool
	Valid bool
	Zxid  txn.Zxid
}

// Handover tells everybody who leads next (§16.1).
type Handover struct {
	Target ServerID
	Epoch  txn.Epoch
	Last   txn.Zxid
}

// Type tells which packet it is.
func (*Hello) Type() PacketType      { return TypeHello }
func (*Notify) Type() PacketType     { return TypeNotify }
func (*LeaderInfo) Type() PacketType { return TypeLeaderInfo }
func (p *FollowerInfo) Type() PacketType {
	if p.Observer {
		return TypeObserverInfo
	}
	return TypeFollowerInfo
}
func (*AckEpoch) Type() PacketType    { return TypeAckEpoch }
func (*Diff) Type() PacketType        { return TypeDiff }
func (*Trunc) Type() PacketType       { return TypeTrunc }
func (*SnapBegin) Type() PacketType   { return TypeSnapBegin }
func (*SnapChunk) Type() PacketType   { return TypeSnapChunk }
func (*SnapEnd) Type() PacketType     { return TypeSnapEnd }
func (*SyncReject) Type() PacketType  { return TypeSyncReject }
func (*NewLeader) Type() PacketType   { return TypeNewLeader }
func (*Ack) Type() PacketType         { return TypeAck }
func (*UpToDate) Type() PacketType    { return TypeUpToDate }
func (*Bye) Type() PacketType         { return TypeBye }
func (*Propose) Type() PacketType     { return TypePropose }
func (*Commit) Type() PacketType      { return TypeCommit }
func (*Inform) Type() PacketType      { return TypeInform }
func (*Ping) Type() PacketType        { return TypePing }
func (*Pong) Type() PacketType        { return TypePong }
func (*Requests) Type() PacketType    { return TypeRequests }
func (*Refused) Type() PacketType     { return TypeRefused }
func (*Sync) Type() PacketType        { return TypeSync }
func (*Synced) Type() PacketType      { return TypeSynced }
func (*Revalidate) Type() PacketType  { return TypeRevalidate }
func (*Revalidated) Type() PacketType { return TypeRevalidated }
func (*Handover) Type() PacketType    { return TypeHandover }
