package statemachine

import (
	"errors"

	"github.com/zkd-project/zkd/datatree"
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// ErrDiverged is returned by Apply when another transaction arrives than the one that was prepared next.
var ErrDiverged = errors.New("applied transaction is not the one prepared")

// znode is what a check may look at.
type znode struct {
	exists                              bool
	version, cversion, aversion, childs int32 // cversion is the raw one
	dataLen                             int
	owner                               txn.SessionID
	acl                                 []proto.ACL
}

// change is the future of one path: what it will be after refs more transactions.
type change struct {
	path string
	znode
	refs int
}

// undo takes one edit back.
type undo struct {
	c   *change
	was znode
}

// prepared is one outstanding transaction and how much of pending belongs to it.
type prepared struct {
	header     txn.Header
	ok         bool // the header's op had its effect on sessions
	touched    int
	ephemerals int
}

// pending is the difference between the applied state and the state after everything outstanding.
type pending struct {
	changes map[string]*change
	created map[txn.SessionID][]string // ephemerals by outstanding creates, oldest first
	opening map[txn.SessionID]int
	closing map[txn.SessionID]struct{}
	secrets int
	millis  int64
	queue   fifo[prepared]
	touched fifo[*change] // by the transactions of queue
	now     prepared      // the one being prepared
	undos   []undo        // its edits
}

func newPending() pending {
	return pending{
		changes: map[string]*change{},
		created: map[txn.SessionID][]string{},
		opening: map[txn.SessionID]int{},
		closing: map[txn.SessionID]struct{}{},
	}
}

// begin starts on a request.
func (p *pending) begin(h txn.Header) {
	p.now = prepared{header: h}
	p.undos = p.undos[:0]
}

// look returns the node at path as it will be.
func (p *pending) look(t *datatree.Tree, path string) znode {
	if c := p.changes[path]; c != nil {
		return c.znode
	}
	n := t.Get(path)
	if n == nil {
		return znode{}
	}
	data, _ := n.Data()
	return znode{exists: true, dataLen: len(data), version: n.Version(), cversion: n.RawCversion(), aversion: n.Aversion(), childs: n.NumChildren(),
		owner: n.Owner(), acl: n.ACL()}
}

// edit returns the node at path for the request at hand to change; is is the node as look has just found it.
func (p *pending) edit(path string, is *znode) *znode {
	c := p.changes[path]
	if c == nil {
		c = &change{path: path, znode: *is}
		p.changes[path] = c
	}
	p.undos = append(p.undos, undo{c: c, was: c.znode})
	c.refs++
	return &c.znode
}

// create makes a node that is not there below parent, which look has just found as is.
func (p *pending) create(parent string, is *znode, c *txn.Create) {
	*p.edit(c.Path, &znode{}) = znode{exists: true, dataLen: len(c.Data), owner: c.Owner, acl: c.ACL}
	above := p.edit(parent, is)
	above.cversion = c.ParentCversion
	above.childs++
	if datatree.IsSession(c.Owner) {
		p.created[c.Owner] = append(p.created[c.Owner], c.Path)
		p.now.ephemerals++
	}
}

func (p *pending) remove(t *datatree.Tree, path string) {
	n := p.look(t, path)
	*p.edit(path, &n) = znode{}
	path = proto.Parent(path)
	n = p.look(t, path)
	p.edit(path, &n).childs--
}

// close ends a session: what it will own by then goes, and nothing more will come of it.
func (p *pending) close(t *datatree.Tree, id txn.SessionID) {
	for _, paths := range [][]string{t.Ephemerals(id), p.created[id]} {
		for _, path := range paths {
			if n := p.look(t, path); n.exists && n.owner == id {
				p.remove(t, path)
			}
		}
	}
}

// rollback takes back every edit of the request at hand.
func (p *pending) rollback() {
	for i := len(p.undos) - 1; i >= 0; i-- {
		u := p.undos[i]
		if !mutant.On("R-42") {
			u.c.znode = u.was
		}
		p.release(u.c)
	}
	p.undos = p.undos[:0]
	p.dropEphemerals(p.now.header.Session, func(paths []string) []string { return paths[:len(paths)-p.now.ephemerals] })
	p.now.ephemerals = 0
}

// keep files the request at hand as outstanding. done says that it will succeed.
func (p *pending) keep(done bool) {
	p.now.ok = done
	p.now.touched = len(p.undos)
	for i := range p.undos {
		p.touched.push(p.undos[i].c)
	}
	if done {
		switch id := p.now.header.Session; p.now.header.Op {
		case proto.OpCreateSession:
			p.opening[id]++
		case proto.OpCloseSession:
			p.closing[id] = struct{}{}
		case txn.OpSecret:
			p.secrets++
		}
	}
	p.queue.push(p.now)
	clear(p.undos)
}

// applied drops what belongs to the oldest outstanding transaction, which must be the one with header h.
func (p *pending) applied(h *txn.Header) error {
	if p.queue.len() == 0 {
		return nil
	}
	e := p.queue.pop()
	if e.header != *h {
		return ErrDiverged
	}
	for range e.touched {
		p.release(p.touched.pop())
	}
	id := h.Session
	if e.ephemerals > 0 {
		p.dropEphemerals(id, func(paths []string) []string { return paths[e.ephemerals:] })
	}
	if !e.ok {
		return nil
	}
	switch h.Op {
	case proto.OpCreateSession:
		if p.opening[id]--; p.opening[id] == 0 {
			delete(p.opening, id)
		}
	case proto.OpCloseSession:
		delete(p.closing, id)
	case txn.OpSecret:
		p.secrets--
	}
	return nil
}

func (p *pending) release(c *change) {
	if c.refs--; c.refs == 0 {
		delete(p.changes, c.path)
	}
}

func (p *pending) dropEphemerals(id txn.SessionID, cut func([]string) []string) {
	if p.now.ephemerals == 0 && len(p.created[id]) == 0 {
		return
	}
	if rest := cut(p.created[id]); len(rest) > 0 {
		p.created[id] = rest
	} else {
		delete(p.created, id)
	}
}

// fifo is a queue in one slice; what was popped is reclaimed when it is half of it.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	if f.head*2 >= len(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return v
}
