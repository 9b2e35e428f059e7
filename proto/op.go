package proto

import "strconv"

// Op is the operation code of a request header, a multi header or an entry of a multi result.
type Op int32

// The operation codes of the client protocol. OpCheck occurs only inside a multi; OpNotification, OpError,
// OpCreateSession and OpDeleteContainer never come from a client.
const (
	OpNotification         Op = 0
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpError                Op = -1
	OpCreateSession        Op = -10
	OpCloseSession         Op = -11
)

// String returns ZooKeeper's name of the code, such as "getData", or "op(N)" for a code it has no name for.
func (o Op) String() string {
	switch o {
	case OpNotification:
		return "notification"
	case OpCreate:
		return "create"
	case OpDelete:
		return "delete"
	case OpExists:
		return "exists"
	case OpGetData:
		return "getData"
	case OpSetData:
		return "setData"
	case OpGetACL:
		return "getACL"
	case OpSetACL:
		return "setACL"
	case OpGetChildren:
		return "getChildren"
	case OpSync:
		return "sync"
	case OpPing:
		return "ping"
	case OpGetChildren2:
		return "getChildren2"
	case OpCheck:
		return "check"
	case OpMulti:
		return "multi"
	case OpCreate2:
		return "create2"
	case OpReconfig:
		return "reconfig"
	case OpCheckWatches:
		return "checkWatches"
	case OpRemoveWatches:
		return "removeWatches"
	case OpCreateContainer:
		return "createContainer"
	case OpDeleteContainer:
		return "deleteContainer"
	case OpCreateTTL:
		return "createTTL"
	case OpMultiRead:
		return "multiRead"
	case OpAuth:
		return "auth"
	case OpSetWatches:
		return "setWatches"
	case OpSASL:
		return "sasl"
	case OpGetEphemerals:
		return "getEphemerals"
	case OpGetAllChildrenNumber:
		return "getAllChildrenNumber"
	case OpSetWatches2:
		return "setWatches2"
	case OpAddWatch:
		return "addWatch"
	case OpWhoAmI:
		return "whoAmI"
	case OpError:
		return "error"
	case OpCreateSession:
		return "createSession"
	case OpCloseSession:
		return "closeSession"
	}
	return "op(" + strconv.Itoa(int(o)) + ")"
}

// IsWrite reports whether a request with this code becomes a transaction: it consumes a zxid even when it is refused,
// and a read-only server answers it with ErrNotReadOnly. It includes closeSession and the two codes that only servers
// originate, createSession and deleteContainer.
func (o Op) IsWrite() bool {
	switch o {
	case OpCreate, OpDelete, OpSetData, OpSetACL, OpMulti, OpCreate2, OpReconfig, OpCreateContainer,
		OpDeleteContainer, OpCreateTTL, OpCreateSession, OpCloseSession:
		return true
	}
	return false
}

// Known reports whether a client may send this code in a request header. Any other code is answered with
// ErrUnimplemented and zxid -1, and costs the connection. OpDeleteContainer counts as known: it is refused with
// ErrBadArguments and the connection lives on. OpCheck is not known, because it lives only inside a multi.
func (o Op) Known() bool {
	switch {
	case o >= OpCreate && o <= OpSync, o == OpPing, o == OpGetChildren2,
		o >= OpMulti && o <= OpMultiRead, o >= OpAuth && o <= OpWhoAmI, o == OpCloseSession:
		return true
	}
	return false
}
