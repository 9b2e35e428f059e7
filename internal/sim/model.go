package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// model is what the znodes should be: a slow, plain tree that carries out the clients' requests in the order of the committed history.
// It looks at requests only, never at the outcomes that the leader wrote down, and remembers every state that a path ever had, so that a
// read can be held against the zxid that it names.
type model struct {
	zxid     txn.Zxid
	nodes    map[string]*mnode
	sessions map[txn.SessionID]bool // open
	ever     map[txn.SessionID]bool
	owned    map[txn.SessionID]map[string]bool
	undo     []func() // of the transaction that is being carried out
}

// mnode is one path: its states, oldest first, and the comings and goings of its children.
type mnode struct {
	states   []mstate
	children []mchange
}

type mstate struct {
	from   txn.Zxid
	exists bool
	data   []byte
	stat   proto.Stat
	made   int32 // children ever created
}

type mchange struct {
	at   txn.Zxid
	name string
	here bool
}

// expected is what the client of one request must be told.
type expected struct {
	err     proto.ErrCode
	path    string
	stat    proto.Stat
	results []expected // of a multi
	multi   bool
}

func newModel() *model {
	m := &model{nodes: map[string]*mnode{}, sessions: map[txn.SessionID]bool{}, ever: map[txn.SessionID]bool{},
		owned: map[txn.SessionID]map[string]bool{}}
	m.nodes["/"] = &mnode{states: []mstate{{exists: true, data: []byte{}, stat: proto.Stat{Cversion: -1, NumChildren: 1}}},
		children: []mchange{{name: "zookeeper", here: true}}}
	m.nodes["/zookeeper"] = &mnode{states: []mstate{{exists: true, stat: proto.Stat{Cversion: -2, NumChildren: 2}}}}
	return m
}

func (m *model) node(path string) *mnode {
	n := m.nodes[path]
	if n == nil {
		n = &mnode{}
		m.nodes[path] = n
	}
	return n
}

// now is a node's newest state.
func (n *mnode) now() mstate {
	if n == nil || len(n.states) == 0 {
		return mstate{}
	}
	return n.states[len(n.states)-1]
}

// at is its state at a zxid.
func (n *mnode) at(z txn.Zxid) mstate {
	if n == nil {
		return mstate{}
	}
	i, _ := slices.BinarySearchFunc(n.states, z+1, func(s mstate, z txn.Zxid) int {
		if s.from < z {
			return -1
		}
		return 1
	})
	if i == 0 {
		return mstate{}
	}
	return n.states[i-1]
}

// since are the states that came after a zxid.
func (n *mnode) since(z txn.Zxid) []mstate {
	i := len(n.states)
	for i > 0 && n.states[i-1].from > z {
		i--
	}
	return n.states[i:]
}

func (n *mnode) set(s mstate, z txn.Zxid) {
	s.from = z
	if k := len(n.states); k > 0 && n.states[k-1].from == z {
		n.states[k-1] = s // within one multi
		return
	}
	n.states = append(n.states, s)
}

func (n *mnode) childrenAt(z txn.Zxid) []string {
	here := map[string]bool{}
	for _, c := range n.children {
		if c.at > z {
			break
		}
		if c.here {
			here[c.name] = true
		} else {
			delete(here, c.name)
		}
	}
	return sorted(here)
}

func parentOf(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i == 0 {
		return "/", path[1:]
	}
	return path[:i], path[i+1:]
}

// step carries out one committed transaction. ask is the request that it came from, nil for one that no client made.
func (m *model) step(z txn.Zxid, t *txn.Txn, ask *op) expected {
	m.zxid, m.undo = z, m.undo[:0]
	switch t.Op {
	case proto.OpCreateSession:
		m.sessions[t.Session], m.ever[t.Session] = true, true
		return expected{}
	case proto.OpCloseSession:
		if !m.sessions[t.Session] {
			return expected{err: proto.ErrSessionExpired}
		}
		delete(m.sessions, t.Session)
		for _, path := range sorted(m.owned[t.Session]) {
			m.remove(z, path)
		}
		delete(m.owned, t.Session)
		return expected{}
	}
	if ask == nil {
		return expected{}
	}
	if !m.sessions[t.Session] {
		return expected{err: proto.ErrSessionExpired}
	}
	if ask.kind != proto.OpMulti {
		return m.single(z, t, ask.kind, ask.record)
	}
	return m.multi(z, t, ask.multi)
}

func (m *model) multi(z txn.Zxid, t *txn.Txn, ops []proto.MultiOp) expected {
	out := expected{multi: true}
	m.undo = m.undo[:0]
	for i := range ops {
		r := m.single(z, t, ops[i].Op, ops[i].Request)
		if r.err != proto.OK {
			for j := len(m.undo) - 1; j >= 0; j-- {
				m.undo[j]()
			}
			out.results = nil
			for j := range ops {
				code := proto.OK
				if j == i {
					code = r.err
				} else if j > i {
					code = proto.ErrRuntimeInconsistency
				}
				out.results = append(out.results, expected{err: code})
			}
			out.err = r.err
			return out
		}
		out.results = append(out.results, r)
	}
	return out
}

// set gives a node its next state; inside a multi it can be taken back.
func (m *model) set(n *mnode, s mstate, z txn.Zxid) {
	k := len(n.states)
	if k > 0 && n.states[k-1].from == z {
		was := n.states[k-1]
		m.undo = append(m.undo, func() { n.states[k-1] = was })
	} else {
		m.undo = append(m.undo, func() { n.states = n.states[:k] })
	}
	n.set(s, z)
}

func (m *model) child(n *mnode, c mchange) {
	k := len(n.children)
	m.undo = append(m.undo, func() { n.children = n.children[:k] })
	n.children = append(n.children, c)
}

// own enters or removes an ephemeral of a session.
func (m *model) own(s txn.SessionID, path string, here bool) {
	m.undo = append(m.undo, func() { m.setOwned(s, path, !here) })
	m.setOwned(s, path, here)
}

func (m *model) setOwned(s txn.SessionID, path string, here bool) {
	if m.owned[s] == nil {
		m.owned[s] = map[string]bool{}
	}
	if here {
		m.owned[s][path] = true
	} else {
		delete(m.owned[s], path)
	}
}

func (m *model) single(z txn.Zxid, t *txn.Txn, kind proto.Op, q proto.Record) expected {
	switch q := q.(type) {
	case *proto.CreateRequest:
		return m.create(z, t, q)
	case *proto.SetDataRequest:
		n := m.nodes[q.Path]
		s := n.now()
		switch {
		case !s.exists:
			return expected{err: proto.ErrNoNode}
		case q.Version != -1 && q.Version != s.stat.Version:
			return expected{err: proto.ErrBadVersion}
		}
		s.data = q.Data
		s.stat.Version++
		s.stat.Mzxid, s.stat.Mtime, s.stat.DataLength = int64(z), t.Time, int32(len(q.Data))
		m.set(n, s, z)
		return expected{stat: s.stat}
	case *proto.DeleteRequest:
		s := m.nodes[q.Path].now()
		parent, _ := parentOf(q.Path)
		switch {
		case !m.nodes[parent].now().exists, !s.exists:
			return expected{err: proto.ErrNoNode}
		case q.Version != -1 && q.Version != s.stat.Version:
			return expected{err: proto.ErrBadVersion}
		case s.stat.NumChildren > 0:
			return expected{err: proto.ErrNotEmpty}
		}
		m.remove(z, q.Path)
		return expected{}
	case *proto.CheckVersionRequest:
		s := m.nodes[q.Path].now()
		switch {
		case !s.exists:
			return expected{err: proto.ErrNoNode}
		case q.Version != -1 && q.Version != s.stat.Version:
			return expected{err: proto.ErrBadVersion}
		}
		return expected{}
	}
	return expected{err: proto.ErrUnimplemented, path: kind.String()}
}

func (m *model) create(z txn.Zxid, t *txn.Txn, q *proto.CreateRequest) expected {
	path := q.Path
	parentPath, _ := parentOf(path)
	pn := m.nodes[parentPath]
	parent := pn.now()
	if !parent.exists {
		return expected{err: proto.ErrNoNode}
	}
	if q.Flags.Sequential() {
		path = fmt.Sprintf("%s%010d", path, parent.made)
	}
	n := m.node(path)
	switch {
	case n.now().exists:
		return expected{err: proto.ErrNodeExists}
	case parent.stat.EphemeralOwner != 0:
		return expected{err: proto.ErrNoChildrenForEphemerals}
	}
	s := mstate{exists: true, data: q.Data, stat: proto.Stat{Czxid: int64(z), Mzxid: int64(z), Pzxid: int64(z), Ctime: t.Time, Mtime: t.Time,
		DataLength: int32(len(q.Data))}}
	if q.Flags.Ephemeral() {
		s.stat.EphemeralOwner = int64(t.Session)
		m.own(t.Session, path, true)
	}
	m.set(n, s, z)
	_, name := parentOf(path)
	parent.made++
	parent.stat.Cversion++
	parent.stat.NumChildren++
	parent.stat.Pzxid = int64(z)
	m.set(pn, parent, z)
	m.child(pn, mchange{z, name, true})
	return expected{path: path, stat: s.stat}
}

func (m *model) remove(z txn.Zxid, path string) {
	n := m.nodes[path]
	if owner := txn.SessionID(n.now().stat.EphemeralOwner); owner != 0 {
		m.own(owner, path, false)
	}
	m.set(n, mstate{}, z)
	parentPath, name := parentOf(path)
	pn := m.nodes[parentPath]
	parent := pn.now()
	parent.stat.Cversion++
	parent.stat.NumChildren--
	parent.stat.Pzxid = int64(z)
	m.set(pn, parent, z)
	m.child(pn, mchange{z, name, false})
}

// read is what a read must answer at a zxid; what is wrong with the answer, "" if nothing is.
func (m *model) read(o *op, out outcome) string {
	n := m.nodes[o.path]
	s := n.at(out.zxid)
	want := proto.OK
	if !s.exists {
		want = proto.ErrNoNode
	}
	if out.err != want {
		return fmt.Sprintf("%v instead of %v", out.err, want)
	}
	if want != proto.OK {
		return ""
	}
	switch o.kind {
	case proto.OpGetData:
		var r proto.GetDataResponse
		if err := r.Decode(proto.NewReader(out.body)); err != nil {
			return err.Error()
		}
		if !bytes.Equal(r.Data, s.data) || r.Stat != s.stat {
			return fmt.Sprintf("data %.20q stat %+v instead of %.20q %+v", r.Data, r.Stat, s.data, s.stat)
		}
	case proto.OpExists:
		var r proto.ExistsResponse
		if err := r.Decode(proto.NewReader(out.body)); err != nil {
			return err.Error()
		}
		if r.Stat != s.stat {
			return fmt.Sprintf("stat %+v instead of %+v", r.Stat, s.stat)
		}
	case proto.OpGetChildren2:
		var r proto.GetChildren2Response
		if err := r.Decode(proto.NewReader(out.body)); err != nil {
			return err.Error()
		}
		slices.Sort(r.Children)
		if want := n.childrenAt(out.zxid); !slices.Equal(r.Children, want) || r.Stat != s.stat {
			return fmt.Sprintf("children %v stat %+v instead of %v %+v", r.Children, r.Stat, want, s.stat)
		}
	}
	return ""
}

// written holds the answer to a write against what it must be; "" if it is right.
func (e *expected) written(o *op, out outcome) string {
	if e.multi {
		if out.err != proto.OK {
			return fmt.Sprintf("%v in the header of a multi", out.err)
		}
		got, err := proto.DecodeMultiResults(proto.NewReader(out.body))
		if err != nil {
			return err.Error()
		}
		if len(got) != len(e.results) {
			return fmt.Sprintf("%d results instead of %d", len(got), len(e.results))
		}
		for i := range got {
			w := &e.results[i]
			if got[i].Err != w.err || w.err == proto.OK && e.err == proto.OK && (got[i].Path != w.path || got[i].Stat != w.stat && o.multi[i].Op == proto.OpSetData) {
				return fmt.Sprintf("result %d is %+v instead of %+v", i, got[i], *w)
			}
		}
		return ""
	}
	if out.err != e.err {
		return fmt.Sprintf("%v instead of %v", out.err, e.err)
	}
	if e.err != proto.OK {
		return ""
	}
	r := proto.NewReader(out.body)
	switch o.kind {
	case proto.OpCreate2:
		var c proto.Create2Response
		if err := c.Decode(r); err != nil {
			return err.Error()
		}
		if c.Path != e.path || c.Stat != e.stat {
			return fmt.Sprintf("%s %+v instead of %s %+v", c.Path, c.Stat, e.path, e.stat)
		}
	case proto.OpSetData:
		var s proto.SetDataResponse
		if err := s.Decode(r); err != nil {
			return err.Error()
		}
		if s.Stat != e.stat {
			return fmt.Sprintf("%+v instead of %+v", s.Stat, e.stat)
		}
	}
	return ""
}
