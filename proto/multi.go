package proto

import (
	"errors"
	"fmt"
)

// ErrNullACL reports a create's null access control list in a multi. It comes with ErrMarshalling, and is told apart because
// the original refuses such a multi before it gives it a zxid.
var ErrNullACL = errors.New("null access control list in a multi")

// MultiHeader comes before each op of a multi, before each result, and, with Done, at the end of both.
type MultiHeader struct {
	Type Op
	Done bool
	Err  ErrCode
}

// multiEnd closes a list of ops and a list of results.
var multiEnd = MultiHeader{Type: OpError, Done: true, Err: -1}

// Append adds the encoding of m to dst.
func (m *MultiHeader) Append(dst []byte) []byte {
	return AppendInt32(AppendBool(AppendInt32(dst, int32(m.Type)), m.Done), int32(m.Err))
}

// Decode reads m from r.
func (m *MultiHeader) Decode(r *Reader) error {
	m.Type = Op(r.Int32())
	m.Done = r.Bool()
	m.Err = ErrCode(r.Int32())
	return r.Err()
}

// MultiOp is one op of a multi or multiRead. The types of Op and Request must agree as follows:
//
//	OpCreate, OpCreate2, OpCreateContainer   *CreateRequest
//	OpCreateTTL                              *CreateTTLRequest
//	OpDelete                                 *DeleteRequest
//	OpSetData                                *SetDataRequest
//	OpCheck                                  *CheckVersionRequest
//	OpGetData, OpGetChildren                 *PathWatchRequest (multiRead only; Watch means nothing)
type MultiOp struct {
	Op      Op
	Request Record
}

// isRead reports whether op may be in a multiRead, isWrite whether it may be in a multi.
func (m *MultiOp) isRead() bool { return m.Op == OpGetData || m.Op == OpGetChildren }

func (m *MultiOp) isWrite() bool {
	switch m.Op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck:
		return true
	}
	return false
}

// MultiFits reports whether all ops may be in a request with code op, which is OpMulti or OpMultiRead. If not, a server
// refuses the whole request with ErrMarshalling.
func MultiFits(op Op, ops []MultiOp) bool {
	for i := range ops {
		if op == OpMulti && !ops[i].isWrite() || op == OpMultiRead && !ops[i].isRead() {
			return false
		}
	}
	return true
}

// AppendMulti appends the body of a multi or multiRead request.
func AppendMulti(dst []byte, ops []MultiOp) []byte {
	for i := range ops {
		h := MultiHeader{Type: ops[i].Op, Err: -1}
		dst = ops[i].Request.Append(h.Append(dst))
	}
	return multiEnd.Append(dst)
}

// DecodeMulti reads the body of a multi or multiRead request; the caller holds the result against the request's code with
// MultiFits. It refuses op codes that neither may hold, reads beside writes, create flags that are not Valid, a write's null path, and what
// ErrNullACL says. A createTTL without
// a TTL mode comes back as the create that its flags ask for. A
// create, create2 or createContainer with the container flag comes back as OpCreateContainer. Data of the requests
// aliases r's input. The result is nil for an empty multi.
func DecodeMulti(r *Reader) ([]MultiOp, error) {
	var ops []MultiOp
	nullPath := false
	for {
		var h MultiHeader
		if err := h.Decode(r); err != nil {
			return nil, err
		}
		if h.Done {
			if nullPath { // said last: a null list anywhere comes first
				r.fail("null path in a multi")
				return nil, r.Err()
			}
			return ops, nil
		}
		op := MultiOp{Op: h.Type}
		if !op.isRead() && !op.isWrite() {
			r.fail("op %v in a multi", h.Type)
			return nil, r.Err()
		}
		op.Request = NewRequest(h.Type)
		if err := op.Request.Decode(r); err != nil {
			return nil, err
		}
		if op.nullACL() {
			return nil, fmt.Errorf("%w: %w", ErrMarshalling, ErrNullACL)
		}
		if len(ops) > 0 && op.isRead() != ops[0].isRead() {
			r.fail("reads and writes in one multi")
			return nil, r.Err()
		}
		if err := op.check(r); err != nil {
			return nil, err
		}
		nullPath = nullPath || op.isWrite() && op.nullPath()
		ops = append(ops, op)
	}
}

// nullACL reports whether a null list spoils the whole multi. In a createTTL it is that op's ErrInvalidACL, and flags that
// are not Valid come first.
func (m *MultiOp) nullACL() bool {
	q, ok := m.Request.(*CreateRequest)
	return ok && q.ACL == nil && q.Flags.Valid()
}

func (m *MultiOp) nullPath() bool {
	switch q := m.Request.(type) {
	case *CreateRequest:
		return q.PathNull
	case *CreateTTLRequest:
		return q.PathNull
	case *DeleteRequest:
		return q.PathNull
	case *SetDataRequest:
		return q.PathNull
	case *CheckVersionRequest:
		return q.PathNull
	}
	return false
}

// check holds a decoded op against the rules that make the whole request malformed, and settles the kind of a create.
func (m *MultiOp) check(r *Reader) error {
	switch q := m.Request.(type) {
	case *CreateRequest:
		checkMultiFlags(r, q.Flags)
		if q.Flags.TTL() {
			r.fail("create flags %d without a time to live in a multi", q.Flags)
		}
		if q.Flags.Container() {
			m.Op = OpCreateContainer
		}
	case *CreateTTLRequest:
		if !q.Flags.TTL() { // an ordinary create then; flags that are not Valid are that op's error
			m.Op, m.Request = OpCreate, &CreateRequest{Path: q.Path, PathNull: q.PathNull, Data: q.Data, ACL: q.ACL, Flags: q.Flags}
			if q.Flags.Container() {
				m.Op = OpCreateContainer
			}
		}
	}
	return r.Err()
}

func checkMultiFlags(r *Reader, f CreateFlags) {
	if !f.Valid() {
		r.fail("create flags %d in a multi", f)
	}
}

// MultiResult is the result of one op. Which fields mean something depends on Op:
//
//	OpCreate                    Path
//	OpCreate2                   Path, Stat (also for createContainer and createTTL)
//	OpDelete, OpCheck           none
//	OpSetData                   Stat
//	OpGetData                   Data, Stat
//	OpGetChildren               Children
//	OpError                     Err
//
// In a multi that failed, every result has OpError: Err is OK before the op that failed and ErrRuntimeInconsistency
// behind it. In a multiRead each op stands alone.
type MultiResult struct {
	Op       Op
	Err      ErrCode
	Path     string
	Stat     Stat
	Data     []byte
	Children []string
}

// AppendMultiResults appends the body of the reply to a multi or multiRead. A result with an Err other than OK is written
// as an OpError, whatever its Op; OpCreateContainer and OpCreateTTL are written as OpCreate2. It panics on any other Op
// that MultiResult does not list.
func AppendMultiResults(dst []byte, results []MultiResult) []byte {
	for i := range results {
		dst = results[i].append(dst)
	}
	return multiEnd.Append(dst)
}

func (m *MultiResult) append(dst []byte) []byte {
	h := MultiHeader{Type: m.Op}
	switch {
	case m.Err != OK || m.Op == OpError:
		h = MultiHeader{Type: OpError, Err: m.Err}
	case m.Op == OpCreateContainer || m.Op == OpCreateTTL:
		h.Type = OpCreate2
	}
	dst = h.Append(dst)
	switch h.Type {
	case OpError:
		return AppendInt32(dst, int32(m.Err))
	case OpCreate:
		return AppendString(dst, m.Path)
	case OpCreate2:
		return m.Stat.Append(AppendString(dst, m.Path))
	case OpDelete, OpCheck:
		return dst
	case OpSetData:
		return m.Stat.Append(dst)
	case OpGetData:
		return m.Stat.Append(AppendBuffer(dst, m.Data))
	case OpGetChildren:
		return AppendStrings(dst, m.Children)
	}
	panic(fmt.Sprintf("proto: no multi result for op %v", m.Op))
}

// DecodeMultiResults reads the body of the reply to a multi or multiRead. Data aliases r's input. The result is nil for
// an empty multi.
func DecodeMultiResults(r *Reader) ([]MultiResult, error) {
	var results []MultiResult
	for {
		var h MultiHeader
		if err := h.Decode(r); err != nil {
			return nil, err
		}
		if h.Done {
			return results, nil
		}
		res := MultiResult{Op: h.Type}
		if err := res.decode(r); err != nil {
			return nil, err
		}
		results = append(results, res)
	}
}

func (m *MultiResult) decode(r *Reader) error {
	switch m.Op {
	case OpError:
		m.Err = ErrCode(r.Int32())
	case OpCreate:
		m.Path = r.String()
	case OpCreate2:
		m.Path = r.String()
		return m.Stat.Decode(r)
	case OpDelete, OpCheck:
	case OpSetData:
		return m.Stat.Decode(r)
	case OpGetData:
		m.Data = r.Buffer()
		return m.Stat.Decode(r)
	case OpGetChildren:
		m.Children = r.Strings()
	default:
		r.fail("result of op %v in a multi", m.Op)
	}
	return r.Err()
}
