package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// Errors for errors.Is. All but ErrClosed and ErrTooLarge are proto.ErrCode values, as servers send them.
const (
	ErrConnectionLoss          = proto.ErrConnectionLoss // the connection broke before the answer came
	ErrMarshalling             = proto.ErrMarshalling    // one side did not understand the other
	ErrUnimplemented           = proto.ErrUnimplemented  // the server does not know the operation
	ErrBadArguments            = proto.ErrBadArguments   // bad path, host list or create mode
	ErrNoNode                  = proto.ErrNoNode         // the node, or the parent of a node to create
	ErrNoAuth                  = proto.ErrNoAuth         // the ACL does not permit it
	ErrBadVersion              = proto.ErrBadVersion     // the node changed meanwhile
	ErrNoChildrenForEphemerals = proto.ErrNoChildrenForEphemerals
	ErrNodeExists              = proto.ErrNodeExists
	ErrNotEmpty                = proto.ErrNotEmpty       // the node to delete has children
	ErrSessionExpired          = proto.ErrSessionExpired // a server says that the session is over
	ErrInvalidACL              = proto.ErrInvalidACL
	ErrAuthFailed              = proto.ErrAuthFailed  // credentials refused
	ErrNotReadOnly             = proto.ErrNotReadOnly // the server takes no writes
	ErrQuotaExceeded           = proto.ErrQuotaExceeded
	ErrThrottledOp             = proto.ErrThrottledOp
	ErrNoWatcher               = proto.ErrNoWatcher // no such watch to remove
	ErrReconfigDisabled        = proto.ErrReconfigDisabled
	ErrReconfigInProgress      = proto.ErrReconfigInProgress
	ErrNewConfigNoQuorum       = proto.ErrNewConfigNoQuorum
	ErrRuntimeInconsistency    = proto.ErrRuntimeInconsistency // see MultiError
)

// ErrClosed is the reason of calls that fail because Close was called.
var ErrClosed = errors.New("client closed")

// ErrTooLarge says that a request exceeds the limit of WithMaxFrame. It was not sent.
var ErrTooLarge = errors.New("request too large")

// OpError is the error of every call that names an operation. Unwrap gives the reason: a code such as ErrNoNode,
// ErrClosed, ErrTooLarge, the context's error, or a *MultiError.
type OpError struct {
	Op   proto.Op
	Path string // as the caller gave it; "" if the operation has none
	Err  error
	// MaybeApplied is true if a write was sent and no answer tells what became of it: it may have been carried out, may
	// still be, or never will. It is false whenever the write certainly changed nothing, and for reads.
	MaybeApplied bool
}

func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op.String())
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	b.WriteString(": " + e.Err.Error())
	if e.MaybeApplied {
		b.WriteString(" (it may have been carried out)")
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *OpError) Unwrap() error { return e.Err }

// MultiError says which operation of a Multi made all of them fail. Unwrap gives its code.
type MultiError struct {
	Index int // of the operation in the Multi, from 0
	Op    proto.Op
	Path  string // as the caller gave it
	Err   error
}

func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d, %v %s: %v", e.Index, e.Op, e.Path, e.Err)
}

// Unwrap returns e.Err.
func (e *MultiError) Unwrap() error { return e.Err }

// ConnectError says that Dial's context ended before any server gave a session.
type ConnectError struct {
	Attempts []Attempt // the last one for each server, in the order they were tried first
	Err      error     // the context's error
}

// Attempt is one fruitless try to get a session from a server.
type Attempt struct {
	Addr string
	Err  error
}

func (e *ConnectError) Error() string {
	var b strings.Builder
	b.WriteString("no server gave a session")
	for i, a := range e.Attempts {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %v", sep, a.Addr, a.Err)
	}
	if len(e.Attempts) == 0 {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap makes it an ErrConnectionLoss, an error of its context, and whatever befell the attempts, such as an
// x509.UnknownAuthorityError.
func (e *ConnectError) Unwrap() []error {
	errs := []error{ErrConnectionLoss, e.Err}
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	return errs
}

// note records an attempt; one that says more than that the context has ended replaces an earlier one.
func (e *ConnectError) note(addr string, err error, telling bool) {
	for i := range e.Attempts {
		if e.Attempts[i].Addr == addr {
			if telling {
				e.Attempts[i].Err = err
			}
			return
		}
	}
	e.Attempts = append(e.Attempts, Attempt{Addr: addr, Err: err})
}
