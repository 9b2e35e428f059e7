package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// helloLimit is how long a new connection may take to say who it is.
const helloLimit = 2 * time.Second

// helloMaxFrame bounds the first frame of a stranger.
const helloMaxFrame = 1 << 10

// refusedError says why a connection from or to a peer is not used. It is told to the other side and to the log.
type refusedError struct {
	code zab.ByeCode
	text string
}

func (e *refusedError) Error() string { return fmt.Sprintf("%v: %s", e.code, e.text) }

// hello is what this process says first on a connection to target.
func (p *Peer) hello(purpose zab.Purpose, target zab.ServerID) *zab.Hello {
	return &zab.Hello{ClusterID: p.clusterID.Load(), Self: p.cfg.Core.Self, Directory: p.rec.Directory, Boot: p.rec.Boot,
		ConnNo: p.connNo.Add(1), Purpose: purpose, Target: target}
}

// check looks at the other side's hello. want is whom we dialled, 0 when they dialled us.
func (p *Peer) check(h *zab.Hello, purpose zab.Purpose, want zab.ServerID) error {
	self := p.cfg.Core.Self
	switch {
	case h.Self == self:
		return &refusedError{zab.ByeProtocol, fmt.Sprintf("another process says that it is server %d too", self)}
	case want != 0 && h.Self != want:
		return &refusedError{zab.ByeProtocol, fmt.Sprintf("server %d answers at the address of server %d", h.Self, want)}
	case h.Target != self:
		return &refusedError{zab.ByeProtocol, fmt.Sprintf("server %d looks for server %d, this is %d", h.Self, h.Target, self)}
	case h.Purpose != purpose:
		return &refusedError{zab.ByeProtocol, fmt.Sprintf("server %d came to the wrong port", h.Self)}
	}
	if _, ok := p.cfg.Core.Members.Find(h.Self); !ok {
		return &refusedError{zab.ByeProtocol, fmt.Sprintf("server %d is not in our list of servers", h.Self)}
	}
	if mine := p.clusterID.Load(); mine != 0 && h.ClusterID != 0 && mine != h.ClusterID {
		return &refusedError{zab.ByeWrongCluster, fmt.Sprintf("server %d belongs to cluster %016x, this is %016x", h.Self, h.ClusterID, mine)}
	}
	return nil
}

// greet says ours on a connection that we dialled, and takes the answer.
func (p *Peer) greet(nc net.Conn, br *bufio.Reader, ours *zab.Hello) error {
	purpose, target := ours.Purpose, ours.Target
	nc.SetDeadline(time.Now().Add(helloLimit))
	if _, err := nc.Write(zab.AppendFrame(nil, 0, ours)); err != nil {
		return err
	}
	pk, _, err := readFrame(br, helloMaxFrame, nil)
	if err != nil {
		return err
	}
	switch pk := pk.(type) {
	case *zab.Hello:
		if err := p.check(pk, purpose, target); err != nil {
			return err
		}
	case *zab.Bye:
		return &refusedError{pk.Code, "refused by the other side: " + pk.Text}
	default:
		return &refusedError{zab.ByeProtocol, fmt.Sprintf("%T instead of a hello", pk)}
	}
	return nc.SetDeadline(time.Time{})
}

// welcome exchanges hellos on a connection that came in. A refusal is told to the other side.
func (p *Peer) welcome(nc net.Conn, br *bufio.Reader, purpose zab.Purpose) (*zab.Hello, error) {
	nc.SetDeadline(time.Now().Add(helloLimit))
	pk, _, err := readFrame(br, helloMaxFrame, nil)
	if err != nil {
		return nil, err
	}
	h, ok := pk.(*zab.Hello)
	if !ok {
		return nil, &refusedError{zab.ByeProtocol, fmt.Sprintf("%T instead of a hello", pk)}
	}
	if err := p.check(h, purpose, 0); err != nil {
		var r *refusedError
		if errors.As(err, &r) {
			_, _ = nc.Write(zab.AppendFrame(nil, 0, &zab.Bye{Code: r.code, Text: r.text}))
		}
		return h, err
	}
	if p.twins.seen(h) && p.strangers.first("twins"+string(rune(h.Self))) {
		p.log.Error("two processes say that they are one server: their connections replace each other; stop one of them, and check myid on the machines",
			zap.Uint8("peer", uint8(h.Self)), zap.String("addr", nc.RemoteAddr().String()))
	}
	if _, err := nc.Write(zab.AppendFrame(nil, 0, p.hello(purpose, h.Self))); err != nil {
		return nil, err
	}
	return h, nc.SetDeadline(time.Time{})
}

// readFrame reads one frame; the body is fresh memory. It calls moved, if not nil, whenever a part of the body has come and more is to come.
func readFrame(r *bufio.Reader, maxFrame int, moved func()) (zab.Packet, txn.Epoch, error) {
	var raw [zab.HeaderBytes]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return nil, 0, err
	}
	h, err := zab.ParseHeader(raw, maxFrame)
	if err != nil {
		return nil, 0, err
	}
	body := make([]byte, h.Length)
	for rest := body; len(rest) > 0; {
		n, err := r.Read(rest)
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, 0, err
		}
		if moved != nil {
			moved()
		}
	}
	pk, err := zab.Decode(raw, h, body)
	return pk, h.Epoch, err
}

// wasActive tells a connection that the other side's machine ended (its process is gone) from one that fell silent.
func wasActive(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED)
}
