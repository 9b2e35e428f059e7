package client

import (
	"context"
	"slices"

	"github.com/zkd-project/zkd/proto"
)

// EventType says what happened to a watched node.
type EventType = proto.EventType

// The event types of a Watch.
const (
	EventNone                = proto.EventNone // the session ended, see Event.Err
	EventNodeCreated         = proto.EventNodeCreated
	EventNodeDeleted         = proto.EventNodeDeleted
	EventNodeDataChanged     = proto.EventNodeDataChanged
	EventNodeChildrenChanged = proto.EventNodeChildrenChanged
)

// Event is what a Watch reports.
type Event struct {
	Type  EventType
	State State  // of the session when the event arrived
	Path  string // of the node; "" for EventNone
	Zxid  int64  // of the change; 0 if the server does not tell (before ZooKeeper 3.9, or of a change between two connections)
	Err   error  // for EventNone why the session ended, as Client.Err
}

// Watch reports the first change after the read that set it: of existence and data for GetW and ExistsW, of existence and
// the set of children for ChildrenW. It outlives connections; a change between two of them is reported too, then as the
// difference that the new server sees.
type Watch struct {
	c    *Client
	kind watchKind
	path string // with the chroot
	ch   chan Event
}

// C returns the channel that gets exactly one event and is then closed. Nobody has to read it.
func (w *Watch) C() <-chan Event { return w.ch }

// Wait returns the event; the error is that of the session's end, of ctx, or ErrClosed if the event was handed out before
// or the watch was stopped.
func (w *Watch) Wait(ctx context.Context) (Event, error) {
	select {
	case e, ok := <-w.ch:
		if !ok {
			return Event{}, ErrClosed
		}
		return e, e.Err
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}

// Stop forgets the watch and closes its channel, which then gets no event unless it already has one.
func (w *Watch) Stop() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.watches.remove(w)
}

// watchKind is a table of one-shot watches, as setWatches knows them.
type watchKind uint8

const (
	dataWatch  watchKind = iota // the node was there
	existWatch                  // the node was missing
	childWatch
	watchKinds
)

// watches are the client's registrations by kind and path, with the chroot. Guarded by Client.mu.
type watches [watchKinds]map[string][]*Watch

func (ws *watches) put(w *Watch) {
	if ws[w.kind] == nil {
		ws[w.kind] = make(map[string][]*Watch)
	}
	ws[w.kind][w.path] = append(ws[w.kind][w.path], w)
}

// add registers w if the reply says that the server did. An exists for a missing node becomes an existWatch: a data watch
// would make the next server report a deletion.
func (ws *watches) add(w *Watch, code proto.ErrCode) {
	switch {
	case code == proto.OK:
		if w.kind == existWatch {
			w.kind = dataWatch
		}
		ws.put(w)
	case code == proto.ErrNoNode && w.kind == existWatch:
		ws.put(w)
	}
}

func (ws *watches) remove(w *Watch) {
	list := ws[w.kind][w.path]
	i := slices.Index(list, w)
	if i < 0 {
		return
	}
	close(w.ch)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(ws[w.kind], w.path)
	} else {
		ws[w.kind][w.path] = list
	}
}

// fire sends e to the watches on path that its type concerns, and forgets them.
func (ws *watches) fire(path string, e Event) {
	switch e.Type {
	case EventNodeCreated, EventNodeDataChanged:
		ws.fireKind(dataWatch, path, e)
		ws.fireKind(existWatch, path, e)
	case EventNodeChildrenChanged:
		ws.fireKind(childWatch, path, e)
	case EventNodeDeleted:
		for kind := range watchKinds {
			ws.fireKind(kind, path, e)
		}
	}
}

func (ws *watches) fireKind(kind watchKind, path string, e Event) {
	for _, w := range ws[kind][path] {
		w.ch <- e // has room: a watch is registered until its one event
		close(w.ch)
	}
	delete(ws[kind], path)
}

// end sends e to all watches.
func (ws *watches) end(e Event) {
	for kind := range watchKinds {
		for path := range ws[kind] {
			ws.fireKind(kind, path, e)
		}
	}
}

// appendFrames appends the setWatches requests that register all watches with another server. zxid is the last one that
// the client saw: the server sends the changes after it instead of registering.
func (ws *watches) appendFrames(dst []byte, zxid int64) []byte {
	chunk, size := newChunk(zxid), 0
	flush := func() {
		if size > 0 {
			dst = proto.AppendFrame(dst, &proto.RequestHeader{Xid: proto.XidSetWatches, Op: proto.OpSetWatches}, chunk)
		}
		chunk, size = newChunk(zxid), 0
	}
	for kind := range watchKinds {
		for path := range ws[kind] {
			if size+len(path) > maxWatchBytes {
				flush()
			}
			list := [watchKinds]*[]string{&chunk.DataWatches, &chunk.ExistWatches, &chunk.ChildWatches}[kind]
			*list = append(*list, path)
			size += len(path)
		}
	}
	flush()
	return dst
}

func newChunk(zxid int64) *proto.SetWatches {
	return &proto.SetWatches{
		RelativeZxid: zxid, DataWatches: []string{}, ExistWatches: []string{}, ChildWatches: []string{},
	}
}
