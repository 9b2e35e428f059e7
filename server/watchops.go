package server

import (
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// noZxid is the zxid of notifications that no transaction caused.
const noZxid = ^txn.Zxid(0)

// setWatches arms again what a client had on an earlier connection. What happened meanwhile is told at once instead.
func (c *conn) setWatches(e *entry) proto.ErrCode {
	var q proto.SetWatches2
	r := proto.NewReader(e.body)
	var err error
	if e.op == proto.OpSetWatches {
		q.PersistentWatches, q.PersistentRecursiveWatches = []string{}, []string{}
		err = q.SetWatches.Decode(r)
	} else {
		err = q.Decode(r)
	}
	if err != nil || q.DataWatches == nil || q.ExistWatches == nil || q.ChildWatches == nil ||
		q.PersistentWatches == nil || q.PersistentRecursiveWatches == nil {
		return proto.ErrMarshalling
	}
	for _, p := range q.DataWatches {
		stat, there := c.rep.machine.Stat(p)
		c.rearm(p, watchData, proto.EventNodeDeleted, !there, proto.EventNodeDataChanged, stat.Mzxid > q.RelativeZxid)
	}
	for _, p := range q.ExistWatches {
		_, there := c.rep.machine.Stat(p)
		c.rearm(p, watchData, proto.EventNodeCreated, there, 0, false)
	}
	for _, p := range q.ChildWatches {
		stat, there := c.rep.machine.Stat(p)
		c.rearm(p, watchChild, proto.EventNodeDeleted, !there, proto.EventNodeChildrenChanged, stat.Pzxid > q.RelativeZxid)
	}
	for _, p := range q.PersistentWatches {
		c.rep.watches.add(c, p, watchPersistent)
	}
	for _, p := range q.PersistentRecursiveWatches {
		c.rep.watches.add(c, p, watchRecursive)
	}
	return proto.OK
}

// rearm tells the first event whose condition holds, or registers the watch.
func (c *conn) rearm(path string, kind watchKind, first proto.EventType, holds bool, second proto.EventType, holds2 bool) {
	switch {
	case holds:
		c.notify(appendEvent(nil, first, path, noZxid))
	case holds2:
		c.notify(appendEvent(nil, second, path, noZxid))
	default:
		c.rep.watches.add(c, path, kind)
	}
}

// addWatch registers a watch that stays, on whatever path.
func (c *conn) addWatch(body []byte) proto.ErrCode {
	var q proto.AddWatchRequest
	if q.Decode(proto.NewReader(body)) != nil || !q.Mode.Valid() || q.PathNull {
		return proto.ErrMarshalling
	}
	kind := watchPersistent
	if q.Mode == proto.WatchPersistentRecursive {
		kind = watchRecursive
	}
	c.rep.watches.add(c, q.Path, kind)
	return proto.OK
}

// editWatches is removeWatches and checkWatches, whose records are alike.
func (c *conn) editWatches(e *entry) proto.ErrCode {
	var q proto.RemoveWatchesRequest
	if q.Decode(proto.NewReader(e.body)) != nil || !q.Type.Valid() || q.PathNull {
		return proto.ErrMarshalling
	}
	kinds := watcherKinds(q.Type)
	found := false
	if e.op == proto.OpCheckWatches {
		found = c.rep.watches.has(c, q.Path, kinds)
	} else {
		found = c.rep.watches.remove(c, q.Path, kinds)
	}
	if !found {
		return proto.ErrNoWatcher
	}
	return proto.OK
}

func watcherKinds(t proto.WatcherType) watchKind {
	switch t {
	case proto.WatcherChildren:
		return watchChild
	case proto.WatcherData:
		return watchData
	case proto.WatcherPersistent:
		return watchPersistent
	case proto.WatcherPersistentRecursive:
		return watchRecursive
	}
	return watchData | watchChild | watchPersistent | watchRecursive
}

// notify adds a notification's frame to out. The caller holds mu.
func (c *conn) notify(frame []byte) {
	if c.state == shaking || c.state >= closing {
		return
	}
	c.out = append(c.output(), frame...)
	c.framesOut++
	c.pushed()
}

// appendEvent appends the frame of a notification.
func appendEvent(dst []byte, typ proto.EventType, path string, zxid txn.Zxid) []byte {
	dst, mark := proto.BeginFrame(dst)
	h := proto.ReplyHeader{Xid: proto.XidNotification, Zxid: int64(zxid)}
	ev := proto.WatcherEvent{Type: typ, State: proto.StateSyncConnected, Path: path}
	return proto.EndFrame(ev.Append(h.Append(dst)), mark)
}
