package datatree

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// ErrUnfit is returned for a transaction that this tree cannot have come before: a broken invariant, not a client's fault.
var ErrUnfit = errors.New("transaction does not fit the tree")

// Event is what watches may be told about. A NodeDeleted event is for data, child and recursive watches of its path alike.
type Event struct {
	Type proto.EventType
	Path string
	ACL  []proto.ACL // of the node that the event is about: a deleted node's last one, the parent's for NodeChildrenChanged
}

// Events come in the order in which they must be delivered. A method of Tree that changes it appends to events.
type Events []Event

func (e Events) add(t proto.EventType, n *Node) Events {
	return append(e, Event{Type: t, Path: n.Path(), ACL: n.ACL()})
}

func unfit(what, path string) error { return fmt.Errorf("%w: %s %s", ErrUnfit, what, path) }

// Create puts a node in; millis is the transaction's time. It returns the node's Stat
// before quotas are charged, which may change its data.
func (t *Tree) Create(zxid txn.Zxid, millis int64, c *txn.Create, events Events) (proto.Stat, Events, error) {
	parent, hash := t.parentOf(c.Path), t.nodes.hash(c.Path)
	switch {
	case proto.ValidatePath(c.Path) != nil:
		return proto.Stat{}, events, unfit("create of", c.Path)
	case t.nodes.getHashed(c.Path, hash) != nil:
		return proto.Stat{}, events, unfit("create of existing", c.Path)
	case parent == nil:
		return proto.Stat{}, events, unfit("create without a parent of", c.Path)
	case parent.Ephemeral():
		return proto.Stat{}, events, unfit("create below an ephemeral of", c.Path)
	}
	payload := c.TakePayload()
	if payload == "" {
		payload = newPayload(c.Path, c.Data)
	}
	n := nodeOf(payload, len(c.Path), c.Data == nil, t.intern(c.ACL))
	n.czxid, n.mzxid, n.pzxid = zxid, zxid, zxid
	n.ctime = momentOf(millis)
	n.mtime = n.ctime
	n.owner = c.Owner
	t.add(n, hash, c.Data)

	t.parent = t.change(parent, func(p *Node) {
		p.numChildren++
		if c.ParentCversion > p.cversion { // at the end of the numbers both stand still, as in ZooKeeper
			p.cversion = c.ParentCversion
			p.pzxid = max(p.pzxid, zxid)
		}
	})
	parent = t.parent
	stat := n.Stat()
	t.quotaCreated(n)
	return stat, events.add(proto.EventNodeCreated, n).add(proto.EventNodeChildrenChanged, parent), nil
}

// parentOf finds the node that path is to be a child of. Creates often follow each other below one parent.
func (t *Tree) parentOf(path string) *Node {
	parent := proto.Parent(path)
	if t.parent == nil || t.parent.Path() != parent {
		t.parent = t.nodes.get(parent)
	}
	return t.parent
}

// intern is the lists' intern. Creates often have one ACL.
func (t *Tree) intern(acl []proto.ACL) *aclList {
	if s := t.list; s != nil && s.refs > 0 && len(acl) > 0 && slices.Equal(s.acl, acl) {
		s.refs++
		return s
	}
	t.list = t.lists.intern(acl)
	return t.list
}

// Delete takes a node without children out.
func (t *Tree) Delete(zxid txn.Zxid, path string, events Events) (Events, error) {
	n := t.nodes.get(path)
	switch {
	case n == nil:
		return events, unfit("delete of missing", path)
	case n.numChildren != 0:
		return events, unfit("delete with children of", path)
	case path == rootPath:
		return events, unfit("delete of", path)
	}
	parent := t.nodes.get(n.parent())
	t.remove(n)
	parent = t.change(parent, func(p *Node) {
		p.numChildren--
		p.pzxid = max(p.pzxid, zxid)
	})
	t.quotaDeleted(n)
	return events.add(proto.EventNodeDeleted, n).add(proto.EventNodeChildrenChanged, parent), nil
}

// SetData replaces a node's data. It returns its Stat before quotas are charged.
func (t *Tree) SetData(zxid txn.Zxid, millis int64, s *txn.SetData, events Events) (proto.Stat, Events, error) {
	n := t.nodes.get(s.Path)
	if n == nil {
		return proto.Stat{}, events, unfit("setData of missing", s.Path)
	}
	was := len(n.payload)
	n = t.change(n, func(n *Node) {
		t.setData(n, s.Data)
		n.version, n.mzxid, n.mtime = s.Version, zxid, momentOf(millis)
	})
	stat := n.Stat()
	t.charge(s.Path, 0, int64(len(n.payload)-was))
	return stat, events.add(proto.EventNodeDataChanged, n), nil
}

// ShowConfig makes text the data of /zookeeper/config, as of millis. It is no transaction: every server shows what it was started with.
func (t *Tree) ShowConfig(text string, millis int64) {
	if n := t.nodes.get(configPath); n != nil {
		t.change(n, func(n *Node) {
			t.setData(n, []byte(text))
			n.version, n.mzxid, n.mtime = -1, 0, momentOf(millis) // the version that ZooKeeper shows too
		})
	}
}

// SetACL replaces a node's ACL. It returns its Stat and makes no event.
func (t *Tree) SetACL(s *txn.SetACL) (proto.Stat, error) {
	n := t.nodes.get(s.Path)
	if n == nil {
		return proto.Stat{}, unfit("setACL of missing", s.Path)
	}
	was := n.acl
	n = t.change(n, func(n *Node) { n.acl, n.aversion = t.intern(s.ACL), s.Aversion })
	t.lists.release(was)
	return n.Stat(), nil
}

// DeleteOwned takes out every ephemeral of a session, in the order of their paths.
func (t *Tree) DeleteOwned(zxid txn.Zxid, owner txn.SessionID, events Events) (Events, error) {
	var err error
	for _, path := range t.owned.paths(owner) {
		if events, err = t.Delete(zxid, path, events); err != nil {
			return events, err
		}
	}
	return events, nil
}
