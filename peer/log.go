package peer

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/zab"
)

// note writes what a core wants the operator to know as one structured line.
func (p *Peer) note(n zab.Note) {
	fields := make([]zap.Field, 0, 10)
	if n.Message == zab.NoteRole {
		fields = append(fields, zap.Stringer("role", n.Role), zap.Stringer("phase", n.Phase))
	}
	if n.Peer != 0 {
		fields = append(fields, zap.Uint8("peer", uint8(n.Peer)))
	}
	if n.Epoch != 0 {
		fields = append(fields, zap.Uint32("epoch", uint32(n.Epoch)))
	}
	if n.Zxid != 0 {
		fields = append(fields, zap.Stringer("zxid", n.Zxid))
	}
	if n.Mode != "" {
		fields = append(fields, zap.String("mode", n.Mode))
	}
	if n.Message == zab.NoteSyncStart {
		fields = append(fields, zap.Int64("bytes", n.Bytes), zap.Int64("records", n.Records))
	}
	if n.Reason != "" {
		fields = append(fields, zap.String("reason", n.Reason))
	}
	level := map[zab.NoteLevel]zapcore.Level{zab.Info: zap.InfoLevel, zab.Warn: zap.WarnLevel, zab.Alarm: zap.ErrorLevel}[n.Level]
	p.log.Log(level, n.Message, fields...)
}

// logFatal tells at once why the process ends.
func (p *Peer) logFatal(err error, dump ...zap.Field) {
	var fatal *FatalError
	if errors.As(err, &fatal) {
		p.log.Error("fatal", append([]zap.Field{zap.Int("exitCode", fatal.Code), zap.String("reason", err.Error())}, dump...)...)
	}
}

func (p *Peer) peerFields(id zab.ServerID) []zap.Field {
	return []zap.Field{zap.Uint8("peer", uint8(id))}
}

func (p *Peer) warnPeer(msg string, id zab.ServerID, err error) {
	if p.strangers.first(msg + string(rune(id)) + err.Error()) {
		p.log.Warn(msg, zap.Uint8("peer", uint8(id)), zap.Error(err))
	}
}

func (p *Peer) warnConn(msg string, id zab.ConnID, err error) {
	if s := p.stream(id); s != nil {
		p.warnPeer(msg, s.peer, err)
	}
}

// warnStranger tells once per source and minute what came to a peer port that is no peer.
func (p *Peer) warnStranger(port string, nc net.Conn, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // a port scan, or a peer that thought better of it
	}
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	if p.strangers.first(port + host) {
		p.log.Warn(zab.NoteRefused, zap.String("port", port), zap.String("addr", nc.RemoteAddr().String()), zap.Error(err))
	}
}

// strangers remembers what was logged lately, so that one source cannot fill the log.
type strangers struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

const (
	strangersEvery = time.Minute
	strangersMax   = 1024
)

func (s *strangers) first(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.seen[key]; ok && now.Sub(at) < strangersEvery {
		return false
	}
	if len(s.seen) >= strangersMax || s.seen == nil {
		s.seen = map[string]time.Time{}
	}
	s.seen[key] = now
	return true
}
