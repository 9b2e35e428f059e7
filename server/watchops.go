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
	if err != nil {
		return proto.ErrMarshalling
	}
	for i, paths := range [][]string{q.DataWatches, q.ExistWatches, q.ChildWatches, q.PersistentWatches, q.PersistentRecursiveWatches} {
		if paths == nil { // what stands before a null list is done all the same
			return proto.ErrMarshalling
		}
		for _, p := range paths {
			if p == proto.NullPath && rearmed(i) < rearmPersistent {
				return proto.ErrMarshalling // likewise
			}
			c.setWatch(rearmed(i), p, q.RelativeZxid)
		}
	}
	return proto.OK
}

// rearmed is a list of a setWatches.
type rearmed int

const (
	rearmData rearmed = iota
	rearmExist
	rearmChild
	rearmPersistent
	rearmRecursive
)

// setWatch arms one watch of a setWatches.
func (c *conn) setWatch(list rearmed, p string, since int64) {
	stat, there := c.rep.machine.Stat(p)
	switch list {
	case rearmData:
		c.rearm(p, watchData, proto.EventNodeDeleted, !there, proto.EventNodeDataChanged, stat.Mzxid > since)
	case rearmExist:
		c.rearm(p, watchData, proto.EventNodeCreated, there, 0, false)
	case rearmChild:
		c.rearm(p, watchChild, proto.EventNodeDeleted, !there, proto.EventNodeChildrenChanged, stat.Pzxid > since)
	case rearmPersistent:
		c.rep.watches.add(c, p, watchPersistent)
	case rearmRecursive:
		c.rep.watches.add(c, p, watchRecursive)
	}
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
	if q.Decode(proto.NewReader(body)) != nil || !q.Mode.Valid() {
		return proto.ErrMarshalling
	}
	kind := watchPersistent
	if q.Mode == proto.WatchPersistentRecursive {
		kind = watchRecursive
	}
	c.rep.watches.add(c, watchedPath(q.Path, q.PathNull), kind)
	return proto.OK
}

// watchedPath is what a watch is filed under: a null path is one of its own, on which nothing ever happens.
func watchedPath(path string, null bool) string {
	if null {
		return proto.NullPath
	}
	return path
}

// shownPath is how a watched path is printed.
func shownPath(path string) string {
	if path == proto.NullPath {
		return "null"
	}
	return path
}

// editWatches is removeWatches and checkWatches, whose records are alike.
func (c *conn) editWatches(e *entry) proto.ErrCode {
	var q proto.RemoveWatchesRequest
	if q.Decode(proto.NewReader(e.body)) != nil || !q.Type.Valid() {
		return proto.ErrMarshalling
	}
	kinds := watcherKinds(q.Type)
	found, path := false, watchedPath(q.Path, q.PathNull)
	if e.op == proto.OpCheckWatches {
		found = c.rep.watches.has(c, path, kinds)
	} else {
		found = c.rep.watches.remove(c, path, kinds)
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
