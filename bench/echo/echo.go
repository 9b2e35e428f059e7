package echo

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zkd-project/zkd/proto"
)

const (
	readChunk     = 64 << 10
	requestHeader = 8
	children      = 10
)

// Server answers. Size is how many bytes of data a znode has.
type Server struct {
	Size int

	sessions atomic.Int64
	data     []byte
	names    []string
}

// Serve answers clients until ctx ends; then it closes their connections and returns nil. It is called once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	s.data = make([]byte, s.Size)
	for i := range children {
		s.names = append(s.names, "n0000000"+strconv.Itoa(i))
	}
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		nc, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				nc.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		conns.Go(func() {
			defer context.AfterFunc(ctx, func() { nc.Close() })()
			defer nc.Close()
			s.serve(nc)
		})
	}
}

// serve answers one client until it goes or talks nonsense.
func (s *Server) serve(nc net.Conn) {
	in, r, w := make([]byte, readChunk), 0, 0
	var out []byte
	greeted := false
	for {
		n, err := nc.Read(in[w:])
		if err != nil {
			return
		}
		w += n
		out = out[:0]
		over := false
		for !over {
			frame, ok, err := next(in[r:w])
			if err != nil {
				return
			}
			if !ok {
				break
			}
			r += proto.FrameHeaderBytes + len(frame)
			if !greeted {
				out, greeted = s.greet(out), true
				continue
			}
			if out, over, err = s.answer(out, frame); err != nil {
				return
			}
		}
		if _, err := nc.Write(out); err != nil || over {
			return
		}
		w = copy(in, in[r:w])
		r = 0
		if w == len(in) {
			in = append(in, make([]byte, len(in))...)
		}
	}
}

// next returns the frame at the start of b if it is whole.
func next(b []byte) (frame []byte, ok bool, err error) {
	if len(b) < proto.FrameHeaderBytes {
		return nil, false, nil
	}
	n, err := proto.ReadFrameHeader(b, proto.DefaultMaxFrame)
	if err != nil || len(b) < proto.FrameHeaderBytes+n {
		return nil, false, err
	}
	return b[proto.FrameHeaderBytes : proto.FrameHeaderBytes+n], true, nil
}

func (s *Server) greet(dst []byte) []byte {
	resp := proto.ConnectResponse{TimeOut: 30_000, SessionID: s.sessions.Add(1), Passwd: make([]byte, proto.PasswordBytes), HasReadOnly: true}
	return proto.AppendFrame(dst, &resp)
}

var errShort = errors.New("request is too short")

// answer appends the reply to one request; over is true for a closeSession.
func (s *Server) answer(dst, frame []byte) (_ []byte, over bool, err error) {
	if len(frame) < requestHeader {
		return dst, false, errShort
	}
	op, body := proto.Op(binary.BigEndian.Uint32(frame[4:])), frame[requestHeader:]
	dst, mark := proto.BeginFrame(dst)
	dst = append(dst, frame[:4]...)
	dst = proto.AppendInt32(proto.AppendInt64(dst, 1), int32(proto.OK))
	switch op {
	case proto.OpGetData:
		dst = s.stat(proto.AppendBuffer(dst, s.data))
	case proto.OpExists, proto.OpSetData, proto.OpSetACL:
		dst = s.stat(dst)
	case proto.OpGetChildren:
		dst = proto.AppendStrings(dst, s.names)
	case proto.OpGetChildren2:
		dst = s.stat(proto.AppendStrings(dst, s.names))
	case proto.OpCreate, proto.OpSync:
		dst, err = path(dst, body)
	case proto.OpCreate2:
		dst, err = path(dst, body)
		dst = s.stat(dst)
	case proto.OpMulti:
		dst, err = s.multi(dst, body)
	}
	return proto.EndFrame(dst, mark), op == proto.OpCloseSession, err
}

// path repeats the string that a request begins with.
func path(dst, body []byte) ([]byte, error) {
	p, ok, err := next(body) // a string's length looks like a frame's
	if err != nil || !ok {
		return dst, errors.Join(errShort, err)
	}
	return append(dst, body[:proto.FrameHeaderBytes+len(p)]...), nil
}

var stat = proto.Stat{Czxid: 1, Mzxid: 1, Pzxid: 1, NumChildren: children}

func (s *Server) stat(dst []byte) []byte {
	st := stat
	st.DataLength = int32(s.Size)
	return st.Append(dst)
}

// multi says that everything has succeeded.
func (s *Server) multi(dst, body []byte) ([]byte, error) {
	ops, err := proto.DecodeMulti(proto.NewReader(body))
	if err != nil {
		return dst, err
	}
	results := make([]proto.MultiResult, len(ops))
	for i := range ops {
		results[i].Op = ops[i].Op
		if c, ok := ops[i].Request.(*proto.CreateRequest); ok {
			results[i].Path = c.Path
		}
	}
	return proto.AppendMultiResults(dst, results), nil
}
