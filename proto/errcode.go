package proto

import "strconv"

// ErrCode is the err field of a reply header or of a multi result, and a Go error: the one vocabulary in which servers
// and clients speak of failure. Compare with errors.Is. OK is not a failure: use Err to turn a code into an error that is
// nil for OK.
type ErrCode int32

// The error codes of the client protocol. Those marked "client" are never sent by a server; those marked "marker" only
// bound the ranges of system errors and of errors of the caller.
const (
	OK                          ErrCode = 0
	ErrSystemError              ErrCode = -1 // marker
	ErrRuntimeInconsistency     ErrCode = -2 // multi: an op behind the one that failed
	ErrDataInconsistency        ErrCode = -3
	ErrConnectionLoss           ErrCode = -4 // client
	ErrMarshalling              ErrCode = -5
	ErrUnimplemented            ErrCode = -6
	ErrOperationTimeout         ErrCode = -7 // client
	ErrBadArguments             ErrCode = -8
	ErrUnknownSession           ErrCode = -12
	ErrNewConfigNoQuorum        ErrCode = -13
	ErrReconfigInProgress       ErrCode = -14
	ErrAPI                      ErrCode = -100 // marker
	ErrNoNode                   ErrCode = -101
	ErrNoAuth                   ErrCode = -102
	ErrBadVersion               ErrCode = -103
	ErrNoChildrenForEphemerals  ErrCode = -108
	ErrNodeExists               ErrCode = -110
	ErrNotEmpty                 ErrCode = -111
	ErrSessionExpired           ErrCode = -112
	ErrInvalidCallback          ErrCode = -113 // client
	ErrInvalidACL               ErrCode = -114
	ErrAuthFailed               ErrCode = -115
	ErrSessionMoved             ErrCode = -118 // a server closes the connection instead
	ErrNotReadOnly              ErrCode = -119
	ErrEphemeralOnLocalSession  ErrCode = -120
	ErrNoWatcher                ErrCode = -121
	ErrRequestTimeout           ErrCode = -122 // client
	ErrReconfigDisabled         ErrCode = -123
	ErrSessionClosedRequireAuth ErrCode = -124
	ErrQuotaExceeded            ErrCode = -125
	ErrThrottledOp              ErrCode = -127
)

// Err returns nil for OK and c itself otherwise.
func (c ErrCode) Err() error {
	if c == OK {
		return nil
	}
	return c
}

// Error says in plain words what went wrong.
func (c ErrCode) Error() string {
	_, words := c.text()
	if words == "" {
		return "error code " + strconv.Itoa(int(c))
	}
	return words
}

// Name returns ZooKeeper's name of the code, such as "NoNode", or the decimal number of a code that has none.
func (c ErrCode) Name() string {
	name, _ := c.text()
	if name == "" {
		return strconv.Itoa(int(c))
	}
	return name
}

// text is the table behind Name and Error; both are empty for an unknown code.
func (c ErrCode) text() (name, words string) {
	switch c {
	case OK:
		return "OK", "ok"
	case ErrSystemError:
		return "SystemError", "system error"
	case ErrRuntimeInconsistency:
		return "RuntimeInconsistency", "not carried out because another operation of the transaction failed"
	case ErrDataInconsistency:
		return "DataInconsistency", "data inconsistency"
	case ErrConnectionLoss:
		return "ConnectionLoss", "connection lost"
	case ErrMarshalling:
		return "MarshallingError", "malformed message"
	case ErrUnimplemented:
		return "Unimplemented", "operation not implemented"
	case ErrOperationTimeout:
		return "OperationTimeout", "operation timed out"
	case ErrBadArguments:
		return "BadArguments", "bad arguments"
	case ErrUnknownSession:
		return "UnknownSession", "unknown session"
	case ErrNewConfigNoQuorum:
		return "NewConfigNoQuorum", "no connected and synced quorum of the new configuration"
	case ErrReconfigInProgress:
		return "ReconfigInProgress", "another reconfiguration is in progress"
	case ErrAPI:
		return "APIError", "api error"
	case ErrNoNode:
		return "NoNode", "node does not exist"
	case ErrNoAuth:
		return "NoAuth", "permission denied"
	case ErrBadVersion:
		return "BadVersion", "version does not match"
	case ErrNoChildrenForEphemerals:
		return "NoChildrenForEphemerals", "ephemeral nodes cannot have children"
	case ErrNodeExists:
		return "NodeExists", "node already exists"
	case ErrNotEmpty:
		return "NotEmpty", "node has children"
	case ErrSessionExpired:
		return "SessionExpired", "session expired"
	case ErrInvalidCallback:
		return "InvalidCallback", "invalid callback"
	case ErrInvalidACL:
		return "InvalidACL", "invalid access control list"
	case ErrAuthFailed:
		return "AuthFailed", "authentication failed"
	case ErrSessionMoved:
		return "SessionMoved", "session moved to another server"
	case ErrNotReadOnly:
		return "NotReadOnly", "server is read-only"
	case ErrEphemeralOnLocalSession:
		return "EphemeralOnLocalSession", "local sessions cannot own ephemeral nodes"
	case ErrNoWatcher:
		return "NoWatcher", "no such watch"
	case ErrRequestTimeout:
		return "RequestTimeout", "request timed out"
	case ErrReconfigDisabled:
		return "ReconfigDisabled", "reconfiguration is disabled"
	case ErrSessionClosedRequireAuth:
		return "SessionClosedRequireSaslAuth", "session closed because it did not authenticate"
	case ErrQuotaExceeded:
		return "QuotaExceeded", "quota exceeded"
	case ErrThrottledOp:
		return "ThrottledOp", "request throttled"
	}
	return "", ""
}
