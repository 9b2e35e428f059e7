package load

import (
	"math/rand/v2"
	"strconv"

	"github.com/zkd-project/zkd/proto"
)

// maker appends the next request of a lane. It runs on the goroutine that writes.
type maker func(dst []byte) []byte

// keyDigits is the width of a key's number: the names sort, and a path's length does not depend on it.
const keyDigits = 8

// appendNumber appends n with leading zeros.
func appendNumber(dst []byte, n int64) []byte {
	var digits [20]byte
	s := strconv.AppendInt(digits[:0], n, 10)
	for i := len(s); i < keyDigits; i++ {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// appendPath appends a string made of parts and a number.
func appendPath(dst []byte, prefix string, n int64) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendNumber(append(dst, prefix...), n)
	return proto.EndFrame(dst, at) // a string's length looks like a frame's
}

// setData appends the body of a set of a key.
func (l *lane) setData(dst []byte, key int64) []byte {
	dst = appendPath(dst, l.keys, key)
	return proto.AppendInt32(proto.AppendBuffer(dst, l.data), -1)
}

// createBody appends what follows the path of a create.
func (l *lane) createBody(dst []byte, flags proto.CreateFlags) []byte {
	dst = proto.AppendBuffer(dst, l.data)
	dst = append(dst, openACL...)
	return proto.AppendInt32(dst, int32(flags))
}

var openACL = proto.AppendACLs(nil, proto.OpenACL())

// maker returns what makes the lane's requests.
func (l *lane) maker() maker {
	cfg := l.cfg
	rnd := rand.New(rand.NewPCG(uint64(l.id), 0x7a6b))
	key := func() int64 { return rnd.Int64N(int64(cfg.Keys)) }
	pathWatch := func(op proto.Op) maker {
		return func(dst []byte) []byte {
			dst, mark := l.c.begin(dst, op)
			return proto.EndFrame(append(appendPath(dst, l.keys, key()), 0), mark)
		}
	}
	get := pathWatch(proto.OpGetData)
	set := func(dst []byte) []byte {
		dst, mark := l.c.begin(dst, proto.OpSetData)
		return proto.EndFrame(l.setData(dst, key()), mark)
	}
	switch cfg.Workload {
	case Get:
		return get
	case Set:
		return set
	case Exists:
		return pathWatch(proto.OpExists)
	case Children:
		return func(dst []byte) []byte {
			dst, mark := l.c.begin(dst, proto.OpGetChildren)
			return proto.EndFrame(append(proto.AppendString(dst, l.parent), 0), mark)
		}
	case Mixed:
		return func(dst []byte) []byte {
			if rnd.Float64() < cfg.WriteRatio {
				return set(dst)
			}
			return get(dst)
		}
	case Multi:
		return func(dst []byte) []byte {
			dst, mark := l.c.begin(dst, proto.OpMulti)
			for range cfg.MultiOps {
				dst = l.setData(append(dst, setHeader...), key())
			}
			return proto.EndFrame(append(dst, multiEnd...), mark)
		}
	case Create:
		return l.createMaker(func(int64) string { return l.parent + "/n" })
	default: // Fill
		return l.createMaker(func(n int64) string { return fillParent(cfg.Root, n) + "/n" })
	}
}

// createMaker makes creates of the lane's share of the numbers: id, id + Conns, …  The prefix may differ for each fillFanout numbers.
func (l *lane) createMaker(prefix func(n int64) string) maker {
	n, in, path := int64(l.id), int64(-1), ""
	return func(dst []byte) []byte {
		if n/fillFanout != in {
			in, path = n/fillFanout, prefix(n)
		}
		dst, mark := l.c.begin(dst, proto.OpCreate)
		dst = l.createBody(appendPath(dst, path, n), proto.FlagPersistent)
		n += int64(l.cfg.Conns)
		l.created++
		return proto.EndFrame(dst, mark)
	}
}

// fillFanout is how many znodes Fill puts below one parent.
const fillFanout = 1000

func fillParent(root string, n int64) string {
	return root + "/d" + strconv.FormatInt(n/fillFanout, 10)
}

var (
	setHeader = (&proto.MultiHeader{Type: proto.OpSetData, Err: -1}).Append(nil)
	delHeader = (&proto.MultiHeader{Type: proto.OpDelete, Err: -1}).Append(nil)
	multiEnd  = (&proto.MultiHeader{Type: proto.OpError, Done: true, Err: -1}).Append(nil)
)
