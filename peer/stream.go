package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/socket"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// writePiece is how much one write call hands to the kernel; each piece has writeLimit to leave (R-19: progress, not completion).
const (
	writePiece = 256 << 10
	writeLimit = 10 * time.Second
	// writeHereBytes is how much whoever queues a packet may write itself.
	writeHereBytes = 64 << 10
	// turnHereBytes is how much a stream may have brought for its reader to take the turn itself: more is left to the loop, so that the
	// reader goes on decoding beside it.
	turnHereBytes = 32 << 10
	// keepBuffer is the largest buffer that a stream keeps.
	keepBuffer = 4 << 20
)

// stream is one data connection: a learner's at its leader, or the uplink of a learner. Its reader and writer goroutines end with it;
// Peer waits for both.
type stream struct {
	p     *Peer
	id    zab.ConnID
	peer  zab.ServerID
	nc    net.Conn
	hello *zab.Hello // theirs, when they dialled

	raw syscall.RawConn // of nc; nil if it is no socket

	mu      sync.Mutex
	queue   []outPacket
	spare   []outPacket // for queue
	bytes   int         // of queue, about
	ending  bool        // nothing more is queued, and what comes is read and thrown away
	silent  atomic.Bool // the same, for the reader
	writing bool        // somebody writes, and sees to it that what is queued meanwhile is written
	rest    []byte      // the kernel had no room for it; goes before queue
	buf     []byte      // of whoever writes
	room    sync.Cond   // for the snapshot sender, which waits for the queue to drain

	wake chan struct{} // writer: something is queued, or ending
	done chan struct{} // closed by the reader, last

	holding atomic.Bool // the reader has read what the core was not told yet

	told zab.Instant // when the reader last said that bytes come in
	// snap passes the place for chunks from the loop to the reader; nil means that they are to be thrown away.
	snap chan *Receiving
}

type outPacket struct {
	epoch txn.Epoch
	pk    zab.Packet
}

func (p *Peer) newStream(nc net.Conn, peer zab.ServerID, h *zab.Hello) *stream {
	s := &stream{p: p, id: zab.ConnID(p.connID.Add(1)), peer: peer, nc: nc, hello: h,
		wake: make(chan struct{}, 1), done: make(chan struct{}), snap: make(chan *Receiving, 1)}
	s.room.L = &s.mu
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	return s
}

// run starts the goroutines; br may already hold bytes behind the hello.
func (s *stream) run(br *bufio.Reader) {
	s.p.wg.Go(func() { s.read(br) })
	s.p.wg.Go(s.write)
}

// send queues a packet. A connection whose queue grows past its bound is cut: its reader does not keep up.
func (s *stream) send(epoch txn.Epoch, pk zab.Packet) {
	s.mu.Lock()
	if s.ending {
		s.mu.Unlock()
		return
	}
	s.queue = append(s.queue, outPacket{epoch, pk})
	s.bytes += packetBytes(pk)
	over := s.bytes > s.p.queueLimit
	s.mu.Unlock()
	if over {
		s.p.log.Warn("peer does not read, connection cut", s.p.peerFields(s.peer)...)
		s.abort()
	}
}

// sendSlowly queues a packet when the queue is short; false when the stream ends first.
func (s *stream) sendSlowly(epoch txn.Epoch, pk zab.Packet) bool {
	s.mu.Lock()
	for s.bytes > 1<<20 && !s.ending {
		s.room.Wait()
	}
	ok := !s.ending
	s.mu.Unlock()
	if ok {
		s.send(epoch, pk)
		s.flush()
	}
	return ok
}

// flush has what is queued written: at once, as far as the kernel takes it without waiting, or by the writer if it is much.
func (s *stream) flush() {
	if !s.writeHere() {
		poke(s.wake)
	}
}

// writeHere writes what is queued on the caller's goroutine: a hop to another costs more than a short write. False: the writer must.
func (s *stream) writeHere() bool {
	q, ok := s.take()
	if !ok {
		return false
	}
	for _, o := range q {
		s.buf = zab.AppendFrame(s.buf, o.epoch, o.pk)
	}
	rest := s.buf
	_ = s.raw.Write(func(fd uintptr) bool { // an error that lasts is the writer's to find
		if n, err := socket.WriteNow(fd, rest); err == nil {
			rest = rest[n:]
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
	clear(q)
	s.spare = q[:0]
	s.rest = rest // after an error all of it: the writer goes on with it, or finds out what is wrong
	s.room.Broadcast()
	return len(s.queue)+len(s.rest) == 0 && !s.ending
}

// take makes the caller the one who writes and gives it the queue, unless there is nothing, or too much, or another one writes.
func (s *stream) take() (q []outPacket, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raw == nil || s.writing || s.ending || len(s.rest) > 0 || len(s.queue) == 0 || s.bytes > writeHereBytes {
		return nil, false
	}
	s.writing, s.buf = true, s.buf[:0]
	q, s.queue, s.spare, s.bytes = s.queue, s.spare[:0], nil, 0
	return q, true
}

// end lets the writer write what is queued and then close our half. The other half is read until the other side closes it: a
// connection that is closed with bytes unread is reset, and a reset takes from the other side what it has not read yet, a handover or
// the reason for the end.
func (s *stream) end() {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.silent.Store(true)
	s.room.Broadcast()
	s.flush()
}

// abort closes at once.
func (s *stream) abort() {
	s.end()
	s.nc.Close()
}

func packetBytes(pk zab.Packet) int {
	n := 64
	switch pk := pk.(type) {
	case *zab.Propose:
		for i := range pk.Records {
			n += len(pk.Records[i].Bytes)
		}
	case *zab.Inform:
		for i := range pk.Records {
			n += len(pk.Records[i].Bytes)
		}
	case *zab.SnapChunk:
		n += len(pk.Data)
	case *zab.Requests:
		for i := range pk.Requests {
			n += pk.Requests[i].Size()
		}
	}
	return n
}

// lingerLimit bounds how long the other side may take to close its half.
const lingerLimit = 500 * time.Millisecond

// finish closes our half of the connection.
func (s *stream) finish() {
	if half, ok := s.nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		select {
		case <-s.p.stopped: // a shorter limit is set
		default:
			s.nc.SetReadDeadline(time.Now().Add(lingerLimit))
		}
		return
	}
	s.nc.Close()
}

func (s *stream) write() {
	for {
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
		for more := true; more; {
			var err error
			more, err = s.writeOnce()
			switch {
			case errors.Is(err, errStopping):
				s.finish()
				return
			case err != nil:
				s.nc.Close()
				return // writing stays set: nobody else may
			}
		}
	}
}

// writeOnce writes what is there; more is false if there was nothing or another one writes, who wakes this goroutine for what is left. The
// error is errStopping once everything has left and the stream ends.
func (s *stream) writeOnce() (more bool, err error) {
	s.mu.Lock()
	if s.writing {
		s.mu.Unlock()
		return false, nil
	}
	q, rest, ending := s.queue, s.rest, s.ending
	s.queue, s.rest, s.bytes = nil, nil, 0
	if len(q)+len(rest) == 0 {
		s.mu.Unlock()
		if ending {
			err = errStopping
		}
		return false, err
	}
	s.writing = true
	s.mu.Unlock()
	s.room.Broadcast()
	if err := s.writeQueue(rest, q); err != nil {
		return false, err
	}
	s.mu.Lock()
	s.writing = false
	s.mu.Unlock()
	return true, nil
}

// writeQueue writes what the kernel had no room for, then packets, in pieces.
func (s *stream) writeQueue(rest []byte, q []outPacket) error {
	if err := writeAll(s.nc, rest); err != nil {
		return err
	}
	buf := s.buf[:0]
	for i, o := range q {
		buf = zab.AppendFrame(buf, o.epoch, o.pk)
		if len(buf) >= writePiece || i == len(q)-1 {
			if err := writeAll(s.nc, buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	s.buf = buf
	if cap(buf) > keepBuffer {
		s.buf = nil
	}
	return nil
}

// writeAll leaves no deadline behind: it would fail writeHere once it has passed.
func writeAll(nc net.Conn, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	defer nc.SetWriteDeadline(time.Time{})
	for len(b) > 0 {
		n := min(len(b), writePiece)
		nc.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := nc.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (s *stream) read(br *bufio.Reader) {
	err := s.readLoop(br)
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.room.Broadcast()
	close(s.done)
	s.nc.Close()
	s.p.dropStream(s)
	s.p.inbox.put(zab.ConnDown{Conn: s.id, Active: wasActive(err)})
	var r *refusedError
	if errors.Is(err, zab.ErrFrameSize) || errors.Is(err, zab.ErrFrameSum) || errors.Is(err, zab.ErrFrameType) ||
		errors.Is(err, zab.ErrVersion) || errors.As(err, &r) {
		s.p.warnPeer("bad frame from peer, connection closed", s.peer, err)
	}
}

func (s *stream) readLoop(br *bufio.Reader) error {
	var evs []zab.Event // read and not told
	bytes := 0
	for {
		pk, epoch, err := readFrame(br, s.p.cfg.MaxFrame, s.moved)
		if err != nil {
			s.tell(evs, bytes)
			return err
		}
		if s.silent.Load() {
			continue
		}
		s.holding.Store(true)
		switch pk := pk.(type) {
		case *zab.SnapChunk, *zab.SnapEnd:
			s.tell(evs, bytes)
			return &refusedError{zab.ByeProtocol, "snapshot data without a beginning"}
		case *zab.SnapBegin:
			s.tell(append(evs, zab.Received{Conn: s.id, Epoch: epoch, Packet: pk}), bytes)
			evs, bytes = evs[:0], 0
			s.holding.Store(false)
			if err := s.readSnapshot(br, pk); err != nil {
				return err
			}
		default:
			evs = append(evs, zab.Received{Conn: s.id, Epoch: epoch, Packet: pk})
			if bytes += packetBytes(pk); !frameWaits(br) || bytes > turnHereBytes {
				s.tell(evs, bytes)
				clear(evs)
				evs, bytes = evs[:0], 0
			}
		}
		s.holding.Store(len(evs) > 0)
	}
}

// unread reports whether something has come that the core was not told yet.
func (s *stream) unread() bool {
	if s.holding.Load() {
		return true
	}
	some := false
	if s.raw != nil {
		_ = s.raw.Control(func(fd uintptr) { some = socket.Unread(fd) }) // of a closed connection nothing more will come
	}
	return some
}

// tell has the core act on what came: here, if it is little.
func (s *stream) tell(evs []zab.Event, bytes int) {
	if len(evs) == 0 {
		return
	}
	s.p.inbox.awaitRoom()
	first := s.p.inbox.addQuietly(bytes, evs...)
	switch {
	case bytes <= turnHereBytes:
		s.p.turnHere()
	case first:
		poke(s.p.inbox.wake)
	}
}

// frameWaits reports whether a whole frame has been read already.
func frameWaits(br *bufio.Reader) bool {
	const lengthBytes = 4
	if br.Buffered() < lengthBytes {
		return false
	}
	b, err := br.Peek(lengthBytes)
	return err == nil && int64(br.Buffered()-lengthBytes) >= int64(binary.BigEndian.Uint32(b))
}

// readSnapshot takes the chunks behind a SnapBegin; other packets between them go to the core as usual.
func (s *stream) readSnapshot(br *bufio.Reader, begin *zab.SnapBegin) error {
	var in *Receiving // nil: the core did not want it, chunks are thrown away
	select {
	case in = <-s.snap:
	case <-s.p.stopped:
		return errStopping
	}
	for next := uint64(0); ; {
		pk, epoch, err := readFrame(br, s.p.cfg.MaxFrame, s.moved)
		if err != nil {
			abortReceiving(in)
			return err
		}
		switch pk := pk.(type) {
		case *zab.SnapChunk:
			if pk.N != next {
				abortReceiving(in)
				return &refusedError{zab.ByeProtocol, fmt.Sprintf("snapshot chunk %d instead of %d", pk.N, next)}
			}
			next++
			if in != nil {
				if _, err := in.Write(pk.Data); err != nil {
					return s.receiveFailed(in, err)
				}
			}
			s.moved()
		case *zab.SnapEnd:
			if in == nil {
				return nil
			}
			if err := in.Finish(pk.Sum); err != nil {
				return s.receiveFailed(in, err)
			}
			s.p.keepReceived(s.id, in)
			s.p.inbox.put(zab.SnapshotReceived{Conn: s.id, Begin: *begin})
			return nil
		default:
			s.p.inbox.putSized(zab.Received{Conn: s.id, Epoch: epoch, Packet: pk}, packetBytes(pk))
		}
	}
}

// moved tells the core that bytes come in: on a slow line a frame may take longer than a silence that is taken for a loss.
func (s *stream) moved() {
	if now := s.p.now(); now.Sub(s.told) >= s.p.cfg.Core.HbInterval {
		s.told = now
		s.p.inbox.put(zab.Progress{Conn: s.id})
	}
}

// receiveFailed ends a connection whose snapshot could not be taken in. Nothing was promised for it, so the server goes on.
func (s *stream) receiveFailed(in *Receiving, err error) error {
	in.Abort()
	return &refusedError{zab.ByeProtocol, "received snapshot: " + err.Error()}
}

func abortReceiving(in *Receiving) {
	if in != nil {
		in.Abort()
	}
}
