package zab

import "github.com/zkd-project/zkd/txn"

// Effect is something a core asks for: one of the structs below. The shell carries effects out in the order of the list.
type Effect interface{ isEffect() }

// Effects collects what one Step asks for.
type Effects struct{ list []Effect }

// Add appends e.
func (fx *Effects) Add(e Effect) { fx.list = append(fx.list, e) }

// Take returns the list and empties it.
func (fx *Effects) Take() []Effect {
	l := fx.list
	fx.list = nil
	return l
}

// Tell puts a notification into the slot of a peer, replacing one that still waits there. Seq and AnswerTo are the
// core's; the shell sends what it is given.
type Tell struct {
	To           ServerID
	Notification Notification
}

// Dial asks for a data connection to Peer; an earlier one that still stands is closed first. Dialed or DialFailed follows.
type Dial struct{ Peer ServerID }

// Send queues a packet on a data connection. Epoch goes into the frame's header.
type Send struct {
	Conn   ConnID
	Epoch  txn.Epoch
	Packet Packet
}

// Close ends a data connection after a Bye with this reason. ConnDown still follows.
type Close struct {
	Conn ConnID
	Bye  Bye
}

// The disk operations. They are carried out in order; DiskDone(ID) follows when this one and all before it are durable. Adjacent
// appends may share an fsync.
type (
	// Append writes records behind the log's end. Commit is the hint that the batch header carries: at most the last record's.
	Append struct {
		ID      uint64
		Records []txn.Record
		Commit  txn.Zxid
	}
	// SaveHardState replaces the hard state.
	SaveHardState struct {
		ID    uint64
		State HardState
	}
	// Truncate cuts the log to To, snapshots behind it first (O4).
	Truncate struct {
		ID uint64
		To Position
	}
	// InstallSnapshot makes the received snapshot this server's state: file, new log generation, manifest, memory (§19).
	InstallSnapshot struct {
		ID    uint64
		Conn  ConnID
		Begin SnapBegin
	}
	// Initialize writes the file that settles the cluster id (§18.7).
	Initialize struct {
		ID        uint64
		ClusterID uint64
	}
)

// MergeAppends joins the Append at the head of ops with those that follow it directly, as far as all fit into one batch of so many bytes and
// records. The joined one has the ID of the last; ops is not changed. n is how many operations it took, at least 1.
func MergeAppends(ops []Effect, maxBytes, maxRecords int) (a Append, bytes, n int) {
	a = ops[0].(Append)
	bytes, n = recordBytes(a.Records), 1
	for n < len(ops) {
		next, ok := ops[n].(Append)
		if !ok {
			break
		}
		more := recordBytes(next.Records)
		if bytes+more > maxBytes || len(a.Records)+len(next.Records) > maxRecords {
			break
		}
		if n == 1 {
			a.Records = append(make([]txn.Record, 0, 2*(len(a.Records)+len(next.Records))), a.Records...)
		}
		a.Records, a.Commit, a.ID = append(a.Records, next.Records...), max(a.Commit, next.Commit), next.ID
		bytes += more
		n++
	}
	return a, bytes, n
}

func recordBytes(recs []txn.Record) int {
	n := 0
	for i := range recs {
		n += len(recs[i].Bytes)
	}
	return n
}

// ReadLog asks for records behind After, at most MaxBytes of them (at least one record). LogRead follows; reading does not
// block the loop.
type ReadLog struct {
	Conn     ConnID
	After    txn.Zxid
	MaxBytes int
}

// SendSnapshot streams the newest snapshot to a learner as SnapBegin, SnapChunk… SnapEnd. SnapshotSent or SnapshotFailed
// follows. The snapshot and the log behind it stay pinned until the connection ends or the learner is in step.
type SendSnapshot struct {
	Conn        ConnID
	Epoch       txn.Epoch
	Common      txn.Zxid
	CommonKnown bool
}

// ReceiveSnapshot: the chunks that follow on Conn go to a temporary file. SnapshotReceived follows, or the connection ends.
type ReceiveSnapshot struct {
	Conn  ConnID
	Begin SnapBegin
}

// Prepare asks the state what the requests come to. Prepared follows in the same turn.
type Prepare struct{ Requests []txn.Request }

// Abandon: what was prepared and not applied will not be; the state forgets it.
type Abandon struct{}

// Apply hands committed, locally durable records to the state, in order, once each.
type Apply struct{ Records []txn.Record }

// TouchSessions keeps sessions alive in the leader's tracker, as reported by server From. The tracker gives a session without an
// owner to From, and never changes another owner.
type TouchSessions struct {
	From    ServerID
	Touches []Touch
}

// AskSession: look the session up in the leader's tracker; if it is there and not ending, touch it and make Owner its owner.
// SessionState follows in the same turn.
type AskSession struct {
	Conn  ConnID // 0: own edge
	Owner ServerID
	Ask   Revalidate
}

// AskDigest: what was the digest of the state when At was the last record applied? StateDigest follows in the same turn.
type AskDigest struct{ At txn.Zxid }

// Established: this server leads and its sessions get a full timeout from now (§12, K61).
type Established struct{ Epoch txn.Epoch }

// Extend: expiry is put off by Nanos, the time that the leader was not running or not listening.
type Extend struct{ Nanos int64 }

// Refuse answers requests of this server's own clients: they are certainly not in the history.
type Refuse struct{ Refusals []Refusal }

// SyncAnswer and RevalidateAnswer answer this server's edge.
type (
	SyncAnswer       struct{ Synced Synced }
	RevalidateAnswer struct{ Revalidated Revalidated }
)

// Serve opens this server for clients in a role: everything up to Applied has been applied.
type Serve struct {
	Role   Role
	Leader ServerID
	Epoch  txn.Epoch
}

// Freeze takes it away again. When the shell comes to the next effect nothing of the old role can be answered any more.
type Freeze struct{ Reason string }

// Note is a fact for the operator's log: a role change with its reason, a sync with its mode and size, a refused peer. Message is
// one of the constants below.
type Note struct {
	Level   NoteLevel
	Message string
	Role    Role
	Phase   Phase
	Peer    ServerID
	Epoch   txn.Epoch
	Zxid    txn.Zxid
	Mode    string // DIFF, TRUNC, SNAP
	Bytes   int64
	Records int64
	Reason  string
}

// NoteLevel is how loud a Note is.
type NoteLevel uint8

// Levels of a Note.
const (
	Info NoteLevel = iota
	Warn
	Alarm
)

// Messages of notes that operators and tests look for.
const (
	NoteRole        = "role changed"
	NoteEstablished = "leader established"
	NoteSyncStart   = "learner sync"           // at the leader: mode, bytes, records
	NoteSynced      = "synchronised"           // at the learner, and at the leader for a learner
	NoteLearnerGone = "learner gone"           //
	NoteBehind      = "learner is not in step" // it lacks more than FallBehind; it stays and goes on counting with what it acks
	NoteInStep      = "learner is in step again"
	NoteRefused     = "peer refused"       // with reason
	NoteWaiting     = "waiting for voters" // founding or quorum, says for whom
	NoteHandover    = "handing over"
	NoteHandedOver  = "handed over" // at the old leader, when it serves again, with who leads and how long clients waited
	NoteStepDown    = "stepping down"
	NoteRecovering  = "recovering"
	NoteRot         = "damaged file"
	NoteReadmitted  = "readmitted"
	NoteDiskStall   = "disk is slow"
	NoteDiverged    = "state diverged" // digests differ at one zxid (I-17)
)

// Fatal means that the process must end at once (R-53, I-19, …). Code is the exit code of docs/operating.md.
type Fatal struct {
	Code   int
	Reason string
	Dump   string
}

// Exit codes of Fatal.
const (
	ExitDisk            = 4
	ExitCorrupt         = 5
	ExitTruncation      = 6
	ExitWrongCluster    = 7
	ExitBrokenInvariant = 8
)

// Ended: a graceful stop is complete; the shell may end.
type Ended struct{}

func (Tell) isEffect()             {}
func (Dial) isEffect()             {}
func (Send) isEffect()             {}
func (Close) isEffect()            {}
func (Append) isEffect()           {}
func (SaveHardState) isEffect()    {}
func (Truncate) isEffect()         {}
func (InstallSnapshot) isEffect()  {}
func (Initialize) isEffect()       {}
func (ReadLog) isEffect()          {}
func (SendSnapshot) isEffect()     {}
func (ReceiveSnapshot) isEffect()  {}
func (Prepare) isEffect()          {}
func (Abandon) isEffect()          {}
func (Apply) isEffect()            {}
func (TouchSessions) isEffect()    {}
func (AskSession) isEffect()       {}
func (AskDigest) isEffect()        {}
func (Established) isEffect()      {}
func (Extend) isEffect()           {}
func (Refuse) isEffect()           {}
func (SyncAnswer) isEffect()       {}
func (RevalidateAnswer) isEffect() {}
func (Serve) isEffect()            {}
func (Freeze) isEffect()           {}
func (Note) isEffect()             {}
func (Fatal) isEffect()            {}
func (Ended) isEffect()            {}
