package zab

import "github.com/zkd-project/zkd/txn"

// Status is a picture of a server for operators and for its own edge; a copy that shares nothing.
type Status struct {
	Self          ServerID
	Role          Role
	Phase         Phase
	Leader        ServerID
	Epoch         txn.Epoch // established epoch, 0 if none
	Accepted      txn.Epoch
	Current       txn.Epoch
	Votable       bool
	Reason        string // why it is not serving, in words, when it is not
	LogEnd        txn.Zxid
	Durable       txn.Zxid
	Commit        txn.Zxid
	Applied       txn.Zxid
	Pending       int // outstanding proposals
	PendingBytes  int64
	Learners      []LearnerStatus
	Elections     uint64 // since start
	SyncDiff      uint64 // how this server was synchronised, and at a leader how it synchronised others
	SyncTrunc     uint64
	SyncSnap      uint64
	LastFailover  int64 // nanoseconds from leaving the last serving role to serving again; 0 unknown
	DiskLow, Full bool
	LagTxns       int64    // records that are known to be committed and are not applied here
	DigestAgreed  txn.Zxid // last zxid at which this server's state was seen to be equal to the leader's, at a leader to some learner's
	Diverged      bool     // it was seen not to be: this server serves nobody and is about to end
}

// LearnerStatus is one learner as its leader sees it.
type LearnerStatus struct {
	ID       ServerID
	Observer bool
	Synced   bool   // acked NEWLEADER
	Mode     string // DIFF, TRUNC, SNAP: how it was brought into line
	Match    txn.Zxid
	LagBytes int64
	LagTxns  int64
	LagNanos int64    // how long the oldest record has been on its way to it; 0: nothing is
	InStep   bool     // synced, and lacks no more than FallBehind
	Agreed   txn.Zxid // last zxid at which its state was seen to be equal to the leader's
}
