package statemachine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// model is the slow and obvious twin: one map, no index, no pending state. It knows the requests as structs, carries out one
// after the other, and copies everything before a multi.
type model struct {
	nodes    map[string]mnode
	sessions map[txn.SessionID]bool
	zxid     int64
	millis   int64
}

type mnode struct {
	data                       string
	acl                        []proto.ACL
	owner                      int64
	version, creates, aversion int32
	czxid, mzxid, pzxid        int64
	ctime, mtime               int64
}

// mreq is a request before it is encoded.
type mreq struct {
	session txn.SessionID
	op      proto.Op
	q       proto.Record
	ops     []proto.MultiOp
	auth    []proto.ID
}

func newModel() *model {
	open, read := proto.OpenACL(), []proto.ACL{{Perms: proto.PermRead, ID: proto.AnyoneID}}
	return &model{sessions: map[txn.SessionID]bool{}, nodes: map[string]mnode{
		"/": {acl: open}, "/zookeeper": {acl: open}, "/zookeeper/quota": {acl: open}, "/zookeeper/config": {acl: read, aversion: -1},
	}}
}

func (r *mreq) encode() txn.Request {
	req := request(r.session, r.op, r.q)
	req.Auth = r.auth
	switch r.op {
	case proto.OpMulti:
		req.Payload = proto.AppendMulti(nil, r.ops)
	case proto.OpCreateSession:
		req.Payload = txn.AppendTimeout(nil, 4000)
	}
	return req
}

// do carries out one request and returns the header's code and the reply's bytes.
func (m *model) do(r *mreq) (proto.ErrCode, []byte) {
	m.zxid++
	switch r.op {
	case proto.OpCreateSession:
		m.sessions[r.session] = true
		return 0, nil
	case proto.OpCloseSession:
		if !m.sessions[r.session] {
			return proto.ErrSessionExpired, nil
		}
		delete(m.sessions, r.session)
		for _, p := range slices.Sorted(maps.Keys(m.nodes)) {
			if m.nodes[p].owner == int64(r.session) {
				m.remove(p)
			}
		}
		return 0, nil
	case proto.OpMulti:
		if !m.sessions[r.session] {
			return proto.ErrSessionExpired, nil
		}
		return 0, m.multi(r)
	}
	res := m.op(r, r.op, r.q)
	if res.Err != 0 {
		return res.Err, nil
	}
	switch r.op {
	case proto.OpCreate:
		return 0, proto.AppendString(nil, res.Path)
	case proto.OpDelete:
		return 0, nil
	case proto.OpSetData, proto.OpSetACL:
		return 0, res.Stat.Append(nil)
	}
	return 0, res.Stat.Append(proto.AppendString(nil, res.Path))
}

func (m *model) multi(r *mreq) []byte {
	before := maps.Clone(m.nodes)
	results := make([]proto.MultiResult, len(r.ops))
	for i, op := range r.ops {
		results[i] = m.op(r, op.Op, op.Request)
		if results[i].Err != 0 {
			m.nodes = before
			for j := range results {
				switch {
				case j < i:
					results[j] = proto.MultiResult{Op: proto.OpError}
				case j > i:
					results[j] = proto.MultiResult{Op: proto.OpError, Err: proto.ErrRuntimeInconsistency}
				}
			}
			break
		}
	}
	return proto.AppendMultiResults(nil, results)
}

func (m *model) op(r *mreq, op proto.Op, q proto.Record) proto.MultiResult {
	fail := func(c proto.ErrCode) proto.MultiResult { return proto.MultiResult{Op: op, Err: c} }
	if c, ok := q.(*proto.CreateRequest); ok {
		if c.Flags < 0 || c.Flags > 6 {
			return fail(proto.ErrBadArguments)
		}
		if c.Flags >= 5 {
			return fail(proto.ErrUnimplemented)
		}
	}
	if !m.sessions[r.session] {
		return fail(proto.ErrSessionExpired)
	}
	switch q := q.(type) {
	case *proto.CreateRequest:
		return m.create(r, op, q)
	case *proto.DeleteRequest:
		reserved := slices.Contains([]string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}, q.Path)
		n, there := m.nodes[q.Path]
		above, found := m.nodes[parentOf(q.Path)]
		switch {
		case !strings.Contains(q.Path, "/") || reserved:
			return fail(proto.ErrBadArguments)
		case !found:
			return fail(proto.ErrNoNode)
		case !grants(above.acl, proto.PermDelete, r.auth):
			return fail(proto.ErrNoAuth)
		case !there:
			return fail(proto.ErrNoNode)
		case q.Version != -1 && q.Version != n.version:
			return fail(proto.ErrBadVersion)
		case len(m.children(q.Path)) > 0:
			return fail(proto.ErrNotEmpty)
		}
		m.remove(q.Path)
		return proto.MultiResult{Op: op}
	case *proto.SetDataRequest:
		n, code := m.find(q.Path, proto.PermWrite, r.auth)
		if code == 0 && q.Version != -1 && q.Version != n.version {
			code = proto.ErrBadVersion
		}
		if code != 0 {
			return fail(code)
		}
		n.data, n.version, n.mzxid, n.mtime = string(q.Data), n.version+1, m.zxid, m.millis
		m.nodes[q.Path] = n
		return proto.MultiResult{Op: op, Stat: m.stat(q.Path)}
	case *proto.SetACLRequest:
		if !wellFormed(q.Path) {
			return fail(proto.ErrBadArguments)
		}
		acl, bad := expand(q.ACL, r.auth)
		if bad {
			return fail(proto.ErrInvalidACL)
		}
		n, code := m.find(q.Path, proto.PermAdmin, r.auth)
		if code == 0 && q.Version != -1 && q.Version != n.aversion {
			code = proto.ErrBadVersion
		}
		if code != 0 {
			return fail(code)
		}
		n.acl, n.aversion = acl, n.aversion+1
		m.nodes[q.Path] = n
		return proto.MultiResult{Op: op, Stat: m.stat(q.Path)}
	case *proto.CheckVersionRequest:
		n, code := m.find(q.Path, proto.PermRead, r.auth)
		if code == 0 && q.Version != -1 && q.Version != n.version {
			code = proto.ErrBadVersion
		}
		return fail(code)
	}
	panic("unknown")
}

func (m *model) create(r *mreq, op proto.Op, q *proto.CreateRequest) proto.MultiResult {
	fail := func(c proto.ErrCode) proto.MultiResult { return proto.MultiResult{Op: op, Err: c} }
	if !strings.Contains(q.Path, "/") {
		return fail(proto.ErrBadArguments)
	}
	acl, bad := expand(q.ACL, r.auth)
	if bad {
		return fail(proto.ErrInvalidACL)
	}
	above, found := m.nodes[parentOf(q.Path)]
	if !found {
		return fail(proto.ErrNoNode)
	}
	if !grants(above.acl, proto.PermCreate, r.auth) {
		return fail(proto.ErrNoAuth)
	}
	path := q.Path
	if q.Flags == 2 || q.Flags == 3 {
		path += fmt.Sprintf("%010d", above.creates)
	}
	if !wellFormed(path) {
		return fail(proto.ErrBadArguments)
	}
	if _, there := m.nodes[path]; there {
		return fail(proto.ErrNodeExists)
	}
	if above.owner > 0 {
		return fail(proto.ErrNoChildrenForEphemerals)
	}
	n := mnode{data: string(q.Data), acl: acl, czxid: m.zxid, mzxid: m.zxid, pzxid: m.zxid, ctime: m.millis, mtime: m.millis}
	switch {
	case op == proto.OpCreateContainer:
		n.owner = -1 << 63
	case q.Flags == 1 || q.Flags == 3:
		n.owner = int64(r.session)
	}
	m.nodes[path] = n
	above.creates++
	above.pzxid = m.zxid
	m.nodes[parentOf(path)] = above
	return proto.MultiResult{Op: op, Path: path, Stat: m.stat(path)}
}

func (m *model) find(path string, want proto.Perm, ids []proto.ID) (mnode, proto.ErrCode) {
	n, there := m.nodes[path]
	switch {
	case !wellFormed(path):
		return n, proto.ErrBadArguments
	case !there:
		return n, proto.ErrNoNode
	case !grants(n.acl, want, ids):
		return n, proto.ErrNoAuth
	}
	return n, 0
}

func (m *model) remove(path string) {
	delete(m.nodes, path)
	above := m.nodes[parentOf(path)]
	above.pzxid = m.zxid
	m.nodes[parentOf(path)] = above
}

func (m *model) children(path string) (names []string) {
	for p := range m.nodes {
		if p != "/" && parentOf(p) == path {
			names = append(names, p[strings.LastIndex(p, "/")+1:])
		}
	}
	slices.Sort(names)
	return names
}

func (m *model) stat(path string) proto.Stat {
	n := m.nodes[path]
	kids := int32(len(m.children(path)))
	return proto.Stat{Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid, Ctime: n.ctime, Mtime: n.mtime, Version: n.version,
		Cversion: 2*n.creates - kids, Aversion: n.aversion, EphemeralOwner: max(n.owner, 0), DataLength: int32(len(n.data)), NumChildren: kids}
}

func parentOf(path string) string {
	if i := strings.LastIndex(path, "/"); i > 0 {
		return path[:i]
	}
	return "/"
}

func wellFormed(path string) bool {
	return path == "/" || strings.HasPrefix(path, "/") && !strings.HasSuffix(path, "/") && !strings.Contains(path, "//")
}

func grants(acl []proto.ACL, want proto.Perm, ids []proto.ID) bool {
	for _, a := range acl {
		if a.Perms&want != 0 && (a.ID == proto.AnyoneID || slices.Contains(ids, a.ID)) {
			return true
		}
	}
	return false
}

// expand knows lists of one entry.
func expand(acl []proto.ACL, ids []proto.ID) (out []proto.ACL, bad bool) {
	if len(acl) == 0 {
		return nil, true
	}
	if acl[0].ID.Scheme != "auth" {
		return acl, false
	}
	for _, id := range ids {
		if id.Scheme == "digest" {
			out = append(out, proto.ACL{Perms: acl[0].Perms, ID: id})
		}
	}
	return out, len(out) == 0
}
