package statemachine

import (
	"bytes"
	"strings"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// WatchKind says which watch a read asked for.
type WatchKind uint8

// The kinds. A data watch of exists on a missing znode waits for its creation.
const (
	WatchNone  WatchKind = iota
	WatchData            // getData, and exists of a znode that is there
	WatchExist           // exists of a znode that is missing
	WatchChild           // getChildren, getChildren2
)

// WatchIntent is a watch that is to be registered before the lock is released under which Read ran.
type WatchIntent struct {
	Kind WatchKind
	Path string // a copy
}

// Pivot is memory that reads work in, one at a time.
type Pivot = datatree.Pivot

// Read answers a read for a connection with the given ids: the reply's record, without the header, is appended to dst. If the
// code is not OK nothing is appended, but see readMulti; a watch may have to be registered even so. It answers exists, getData, getACL,
// getChildren, getChildren2, getAllChildrenNumber, multiRead and whoAmI; ErrUnimplemented for any other op. It may run beside
// other reads and beside Prepare, not beside Apply. A listing works in pivot; nil: in memory of its own.
func (m *Machine) Read(op proto.Op, payload []byte, ids []proto.ID, dst []byte, pivot *Pivot) ([]byte, WatchIntent, proto.ErrCode) {
	switch op {
	case proto.OpGetData, proto.OpGetChildren, proto.OpGetChildren2:
		return m.readNode(op, payload, ids, dst, pivot)
	case proto.OpExists:
		return m.readExists(payload, ids, dst)
	}
	out, code := dst, proto.ErrUnimplemented
	switch op {
	case proto.OpGetACL:
		out, code = m.readACL(payload, ids, dst)
	case proto.OpGetAllChildrenNumber:
		out, code = m.readAllChildrenNumber(payload, ids, dst)
	case proto.OpMultiRead:
		out, code = m.readMulti(payload, ids, dst)
	case proto.OpWhoAmI:
		out, code = whoAmI(ids, dst), proto.OK
	}
	return out, WatchIntent{}, code
}

// pathWatch takes a path and the watch flag off a request without copying. A malformed path finds no znode, so nobody
// need repair its UTF-8 before the look-up.
func pathWatch(payload []byte) (path []byte, watch, ok bool) {
	r := proto.NewReader(payload)
	path = r.Buffer()
	watch = r.Bool()
	return path, watch, r.Err() == nil && path != nil
}

// intent is the watch that a request asked for, with the path as the protocol reads it.
func intent(kind WatchKind, payload []byte) WatchIntent {
	return WatchIntent{Kind: kind, Path: proto.NewReader(payload).String()}
}

func (m *Machine) readNode(op proto.Op, payload []byte, ids []proto.ID, dst []byte, pivot *Pivot) ([]byte, WatchIntent, proto.ErrCode) {
	var w WatchIntent
	path, watch, ok := pathWatch(payload)
	if !ok {
		return dst, w, proto.ErrMarshalling
	}
	n := m.tree.GetBytes(path)
	if n == nil {
		return dst, w, proto.ErrNoNode
	}
	if !m.allowed(n.ACL(), proto.PermRead, ids) {
		return dst, w, proto.ErrNoAuth
	}
	kind := WatchChild
	switch op {
	case proto.OpGetData:
		kind = WatchData
		dst = appendStat(n.AppendData(dst), n)
	case proto.OpGetChildren:
		dst = m.appendChildren(dst, n, pivot)
	case proto.OpGetChildren2:
		dst = appendStat(m.appendChildren(dst, n, pivot), n)
	}
	if watch {
		w = intent(kind, payload)
	}
	return dst, w, proto.OK
}

func (m *Machine) readExists(payload []byte, ids []proto.ID, dst []byte) ([]byte, WatchIntent, proto.ErrCode) {
	var w WatchIntent
	path, watch, ok := pathWatch(payload)
	switch {
	case !ok:
		return dst, w, proto.ErrMarshalling
	case bytes.IndexByte(path, 0) >= 0:
		return dst, w, proto.ErrBadArguments
	}
	n := m.tree.GetBytes(path)
	if n == nil {
		if watch {
			w = intent(WatchExist, payload)
		}
		return dst, w, proto.ErrNoNode
	}
	if !m.allowed(n.ACL(), proto.PermRead, ids) {
		return dst, w, proto.ErrNoAuth
	}
	if watch {
		w = intent(WatchData, payload)
	}
	return appendStat(dst, n), w, proto.OK
}

func appendStat(dst []byte, n *datatree.Node) []byte {
	s := n.Stat()
	return s.Append(dst)
}

func (m *Machine) appendChildren(dst []byte, n *datatree.Node, pivot *Pivot) []byte {
	dst = proto.AppendInt32(dst, n.NumChildren())
	if n.NumChildren() == 0 {
		return dst
	}
	if pivot == nil {
		pivot = new(Pivot)
	}
	m.tree.ChildrenWith(pivot, n, func(child *datatree.Node) bool {
		dst = proto.AppendString(dst, child.Name())
		return true
	})
	return dst
}

func (m *Machine) readACL(payload []byte, ids []proto.ID, dst []byte) ([]byte, proto.ErrCode) {
	path := proto.NewReader(payload).Buffer()
	if path == nil {
		return dst, proto.ErrMarshalling
	}
	n := m.tree.GetBytes(path)
	if n == nil {
		return dst, proto.ErrNoNode
	}
	if !m.allowed(n.ACL(), proto.PermRead|proto.PermAdmin, ids) {
		return dst, proto.ErrNoAuth
	}
	acl := n.ACL()
	if !m.allowed(acl, proto.PermAdmin, ids) {
		acl = maskACL(acl)
	}
	return appendStat(proto.AppendACLs(dst, acl), n), proto.OK
}

func (m *Machine) readAllChildrenNumber(payload []byte, ids []proto.ID, dst []byte) ([]byte, proto.ErrCode) {
	path := proto.NewReader(payload).Buffer()
	if path == nil {
		return dst, proto.ErrMarshalling
	}
	n := m.tree.GetBytes(path)
	if n == nil {
		return dst, proto.ErrNoNode
	}
	if !m.allowed(n.ACL(), proto.PermRead, ids) {
		return dst, proto.ErrNoAuth
	}
	total := m.tree.Descendants(n)
	if len(path) == 0 {
		total++ // ZooKeeper counts the root as its own descendant under this name
	}
	return proto.AppendInt32(dst, int32(total)), proto.OK
}

// maxMultiRead is how many bytes of names and data one multiRead may ask for; 1 MiB of short requests could ask for any number. It is far
// above what clients accept (jute.maxbuffer, 1 MiB).
const maxMultiRead = 16 << 20

// readMulti answers each read of a multiRead for itself. Watch flags mean nothing in it. What would make the reply too large is not
// read and gets ErrThrottledOp. A write or a null path among them is ErrMarshalling for the whole; as from the original, the results so
// far are appended even then.
func (m *Machine) readMulti(payload []byte, ids []proto.ID, dst []byte) ([]byte, proto.ErrCode) {
	ops, err := proto.DecodeMulti(proto.NewReader(payload))
	if err != nil {
		return dst, proto.ErrMarshalling
	}
	if !proto.MultiFits(proto.OpMultiRead, ops) {
		return proto.AppendMultiResults(dst, nil), proto.ErrMarshalling
	}
	results := make([]proto.MultiResult, len(ops))
	bytes := 0
	for i := range ops {
		if bytes > maxMultiRead {
			results[i] = proto.MultiResult{Op: ops[i].Op, Err: proto.ErrThrottledOp}
			continue
		}
		q := ops[i].Request.(*proto.PathWatchRequest)
		if q.PathNull {
			return proto.AppendMultiResults(dst, results[:i]), proto.ErrMarshalling
		}
		results[i] = m.readOp(ops[i].Op, q, ids)
		bytes += sizeOf(&results[i])
	}
	return proto.AppendMultiResults(dst, results), proto.OK
}

func sizeOf(r *proto.MultiResult) int {
	n := len(r.Data)
	for _, name := range r.Children {
		n += len(name) + 4
	}
	return n
}

func (m *Machine) readOp(op proto.Op, q *proto.PathWatchRequest, ids []proto.ID) proto.MultiResult {
	n := m.tree.Get(q.Path)
	if n == nil {
		return proto.MultiResult{Op: op, Err: proto.ErrNoNode}
	}
	if !m.allowed(n.ACL(), proto.PermRead, ids) {
		return proto.MultiResult{Op: op, Err: proto.ErrNoAuth}
	}
	res := proto.MultiResult{Op: op, Stat: n.Stat()}
	if op == proto.OpGetChildren {
		res.Children = make([]string, 0, n.NumChildren())
		m.tree.Children(n, func(child *datatree.Node) bool {
			res.Children = append(res.Children, child.Name())
			return true
		})
	} else if data, null := n.Data(); !null {
		res.Data = []byte(data)
	}
	return res
}

func whoAmI(ids []proto.ID, dst []byte) []byte {
	infos := make([]proto.ClientInfo, len(ids))
	for i, id := range ids {
		infos[i] = proto.ClientInfo{AuthScheme: id.Scheme, User: id.ID}
		if id.Scheme == "digest" {
			infos[i].User, _, _ = strings.Cut(id.ID, ":")
		}
	}
	return (&proto.WhoAmIResponse{ClientInfo: infos}).Append(dst)
}

// ReadEphemerals answers getEphemerals for a session, as Read does for the other reads.
func (m *Machine) ReadEphemerals(owner txn.SessionID, payload, dst []byte) ([]byte, proto.ErrCode) {
	var q proto.GetEphemeralsRequest
	if q.Decode(proto.NewReader(payload)) != nil {
		return dst, proto.ErrMarshalling
	}
	prefix := q.PrefixPath
	if trimmed := strings.TrimFunc(prefix, func(r rune) bool { return r <= ' ' }); trimmed == "" || trimmed == "/" {
		prefix = ""
	}
	found := []string{}
	for _, path := range m.tree.Ephemerals(owner) {
		if strings.HasPrefix(path, prefix) {
			found = append(found, path)
		}
	}
	return proto.AppendStrings(dst, found), proto.OK
}
