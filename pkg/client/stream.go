package client

import (
	"context"
	"iter"
	"slices"

	"github.com/zkd-project/zkd/proto"
)

// EventMissed is the event of a Stream that says that changes may have happened which it does not report: the connection
// was lost and is back, or the reader fell too far behind. The stream is armed again when it is sent, so whoever reads
// the nodes afterwards has everything.
const EventMissed EventType = -2

// WatchMode says what a Stream reports.
type WatchMode = proto.AddWatchMode

// The modes of AddWatch.
const (
	// WatchNode reports creation, deletion and data of one node, and changes of its set of children.
	WatchNode = proto.WatchPersistent
	// WatchTree reports creation, deletion and data of a node and of everything below it.
	WatchTree  = proto.WatchPersistentRecursive
	watchModes = 2
)

// streamBacklog is how many events a Stream holds for its reader.
const streamBacklog = 1024

// Stream reports changes until it is stopped or the session ends. It survives connections: after a reconnect it gets one
// EventMissed, because servers do not tell what a persistent watch would have reported meanwhile. No event is lost
// silently.
type Stream struct {
	c    *Client
	mode WatchMode
	path string // with the chroot
	ch   chan Event
	over bool // ch is closed; guarded by Client.mu
}

// AddWatch watches path, which need not exist, from now on. Servers before ZooKeeper 3.6 answer with ErrUnimplemented;
// those before 3.9 know only the latest registration of a client on one path, so do not mix modes, or a Stream and a
// Watch, on the same path there.
func (c *Client) AddWatch(ctx context.Context, path string, mode WatchMode) (*Stream, error) {
	if !mode.Valid() {
		return nil, &OpError{Op: proto.OpAddWatch, Path: path, Err: ErrBadArguments}
	}
	whole := c.addChroot(path)
	k, err := c.pathCall(proto.OpAddWatch, path, &proto.AddWatchRequest{Path: whole, Mode: mode})
	if err != nil {
		return nil, err
	}
	s := &Stream{c: c, mode: mode, path: whole, ch: make(chan Event, streamBacklog)}
	k.stream = s
	if err := c.ask(ctx, k, new(proto.ErrorResponse)); err != nil {
		return nil, err
	}
	return s, nil
}

// C returns the channel of the events. It is closed after Stop, RemoveWatches, and the session's end, whose EventNone is
// the last event. A reader that falls behind by more than a thousand events gets one EventMissed for all of them.
func (s *Stream) C() <-chan Event { return s.ch }

// Next returns the next event; the error is that of the session's end, of ctx, or ErrClosed when the stream was stopped.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	select {
	case e, ok := <-s.ch:
		if !ok {
			return Event{}, ErrClosed
		}
		return e, e.Err
	default:
	}
	select {
	case e, ok := <-s.ch:
		if !ok {
			return Event{}, ErrClosed
		}
		return e, e.Err
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
}

// Events is Next as a loop. The last pair has an error, unless the loop is left before.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := s.Next(ctx)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Stop ends the stream. The server is told, but not waited for.
func (s *Stream) Stop() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.over {
		return
	}
	s.c.streams.remove(s)
	s.endLocked()
	if s.c.conn != nil && s.c.err == nil && !s.c.wantedLocked(s.path) {
		s.c.queue = append(s.c.queue, newCall(proto.OpRemoveWatches, "",
			&proto.RemoveWatchesRequest{Path: s.path, Type: proto.WatcherAny}))
		s.c.wakeWriter()
	}
}

// wantedLocked reports whether any watch on path is registered or on its way: then the server must not forget the path.
func (c *Client) wantedLocked(path string) bool {
	for kind := range c.watches {
		if len(c.watches[kind][path]) > 0 {
			return true
		}
	}
	for mode := range c.streams {
		if len(c.streams[mode][path]) > 0 {
			return true
		}
	}
	concerns := func(k *call) bool {
		return k.watch != nil && k.watch.path == path || k.stream != nil && k.stream.path == path
	}
	return slices.ContainsFunc(c.queue, concerns) || slices.ContainsFunc(c.conn.pending, concerns)
}

func (s *Stream) endLocked() {
	s.over = true
	close(s.ch)
}

// sendLocked never blocks. Only holders of Client.mu send, so that after emptying the channel there is room for two.
func (s *Stream) sendLocked(e Event) {
	select {
	case s.ch <- e:
		return
	default:
	}
	for {
		select {
		case <-s.ch:
			continue
		default:
		}
		break
	}
	s.ch <- Event{Type: EventMissed, State: s.c.state, Path: s.c.stripChroot(s.path)}
	s.ch <- e
}

// streams are the persistent registrations by mode and path, with the chroot. Guarded by Client.mu.
type streams [watchModes]map[string][]*Stream

func (ss *streams) put(s *Stream) {
	if ss[s.mode] == nil {
		ss[s.mode] = make(map[string][]*Stream)
	}
	ss[s.mode][s.path] = append(ss[s.mode][s.path], s)
}

func (ss *streams) remove(s *Stream) {
	list := ss[s.mode][s.path]
	i := slices.Index(list, s)
	if i < 0 {
		return
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(ss[s.mode], s.path)
	} else {
		ss[s.mode][s.path] = list
	}
}

// fire sends e to the streams on path and to the recursive ones above it.
func (ss *streams) fire(path string, e Event) {
	switch e.Type {
	case EventNodeCreated, EventNodeDeleted, EventNodeDataChanged, EventNodeChildrenChanged:
	default:
		return
	}
	for _, s := range ss[WatchNode][path] {
		s.sendLocked(e)
	}
	if e.Type == EventNodeChildrenChanged || len(ss[WatchTree]) == 0 {
		return
	}
	for {
		for _, s := range ss[WatchTree][path] {
			s.sendLocked(e)
		}
		if path == "/" {
			return
		}
		path = proto.Parent(path)
	}
}

// missed tells every stream that the connection was another one for a while.
func (ss *streams) missed(state State) {
	for mode := range ss {
		for _, list := range ss[mode] {
			for _, s := range list {
				s.sendLocked(Event{Type: EventMissed, State: state, Path: s.c.stripChroot(s.path)})
			}
		}
	}
}

// end sends e to all streams and forgets them.
func (ss *streams) end(e Event) {
	for mode := range ss {
		for _, list := range ss[mode] {
			for _, s := range list {
				s.sendLocked(e)
				s.endLocked()
			}
		}
		ss[mode] = nil
	}
}

// appendFrames appends the setWatches2 requests that register all streams with another server, and counts them.
func (ss *streams) appendFrames(dst []byte, zxid int64) ([]byte, int) {
	fresh := func() *proto.SetWatches2 {
		return &proto.SetWatches2{SetWatches: *newChunk(zxid),
			PersistentWatches: []string{}, PersistentRecursiveWatches: []string{}}
	}
	chunk, size, frames := fresh(), 0, 0
	flush := func() {
		if size > 0 {
			dst = proto.AppendFrame(dst, &proto.RequestHeader{Xid: proto.XidSetWatches, Op: proto.OpSetWatches2}, chunk)
			frames++
		}
		chunk, size = fresh(), 0
	}
	for mode := range ss {
		for path := range ss[mode] {
			if size+len(path) > maxWatchBytes {
				flush()
			}
			list := [watchModes]*[]string{&chunk.PersistentWatches, &chunk.PersistentRecursiveWatches}[mode]
			*list = append(*list, path)
			size += len(path)
		}
	}
	flush()
	return dst, frames
}
