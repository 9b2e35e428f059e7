package peer

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// writePiece is how much one write call hands to the kernel; each piece has writeLimit to leave (R-19: progress, not completion).
const (
	writePiece = 256 << 10
	writeLimit = 10 * time.Second
)

// stream is one data connection: a learner's at its leader, or the uplink of a learner. Its reader and writer goroutines end with it;
// Peer waits for both.
type stream struct {
	p     *Peer
	id    zab.ConnID
	peer  zab.ServerID
	nc    net.Conn
	hello *zab.Hello // theirs, when they dialled

	mu     sync.Mutex
	queue  []outPacket
	bytes  int         // of queue, about
	ending bool        // nothing more is queued, and what comes is read and thrown away
	silent atomic.Bool // the same, for the reader
	room   sync.Cond   // for the snapshot sender, which waits for the queue to drain

	wake chan struct{} // writer: something is queued, or ending
	done chan struct{} // closed by the reader, last

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

// flush wakes the writer.
func (s *stream) flush() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
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
	var buf []byte
	for {
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
		for {
			s.mu.Lock()
			q, ending := s.queue, s.ending
			s.queue, s.bytes = nil, 0
			s.mu.Unlock()
			s.room.Broadcast()
			if len(q) == 0 {
				if ending {
					s.finish()
					return
				}
				break
			}
			buf = buf[:0]
			for i, o := range q {
				buf = zab.AppendFrame(buf, o.epoch, o.pk)
				if len(buf) >= writePiece || i == len(q)-1 {
					if err := writeAll(s.nc, buf); err != nil {
						s.nc.Close()
						return
					}
					buf = buf[:0]
				}
			}
			if cap(buf) > 4<<20 {
				buf = nil
			}
		}
	}
}

func writeAll(nc net.Conn, b []byte) error {
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
	for {
		pk, epoch, err := readFrame(br, s.p.cfg.MaxFrame)
		if err != nil {
			return err
		}
		if s.silent.Load() {
			continue
		}
		switch pk := pk.(type) {
		case *zab.SnapChunk, *zab.SnapEnd:
			return &refusedError{zab.ByeProtocol, "snapshot data without a beginning"}
		case *zab.SnapBegin:
			s.p.inbox.putSized(zab.Received{Conn: s.id, Epoch: epoch, Packet: pk}, 64)
			if err := s.readSnapshot(br, pk); err != nil {
				return err
			}
		default:
			s.p.inbox.putSized(zab.Received{Conn: s.id, Epoch: epoch, Packet: pk}, packetBytes(pk))
		}
	}
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
		pk, epoch, err := readFrame(br, s.p.cfg.MaxFrame)
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
			s.p.inbox.put(zab.Progress{Conn: s.id})
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
