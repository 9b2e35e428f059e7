package difftest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// Options says what a generator may ask for.
type Options struct {
	// Ensemble leaves out what an ensemble answers differently from a standalone server: its mode, its configuration node.
	Ensemble bool
	// Timed is for servers with StartOptions.Timed: sessions expire, containers and TTL nodes are swept.
	Timed bool
}

// generator makes steps from a seed. It knows nothing of what the servers answer.
type generator struct {
	*rand.Rand
	opt    Options
	quotas bool // the episode has quotas, and at most one write in a burst: see differences.go
	xid    [slots]int32
}

func newGenerator(seed uint64, opt Options) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0x7a6b64)), opt: opt, quotas: seed%2 == 0}
}

// steps makes one episode of about n requests. It begins with sessions for all clients.
func (g *generator) steps(n int) []step {
	if g.opt.Timed {
		return g.timedSteps(n)
	}
	var out []step
	made := 0
	for slot := range slots {
		out = append(out, step{act: doOpen, slot: slot, timeout: 30000, hasReadOnly: true})
		made++
		if g.chance(60) {
			out = append(out, step{act: doBurst, slot: slot, requests: []request{g.auth(slot)}})
			made++
		}
	}
	for made < n {
		s := g.step()
		if s.act == doOpen && g.chance(80) {
			out = append(out, step{act: doBurst, slot: s.slot, requests: []request{{xid: 0, op: proto.OpCloseSession}}})
		}
		out = append(out, s)
		made += max(1, len(s.requests))
		if writesBehindClose(s) { // the original may number their errors: a write that both number makes zxids correspond again
			out = append(out, g.heal((s.slot+1)%slots))
		}
		if g.chance(2) {
			out = append(out, step{act: doFlush})
		}
	}
	return append(out, step{act: doFlush})
}

// chance is true in so many of a hundred cases.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// pick returns one of the items.
func pick[T any](g *generator, items ...T) T { return items[g.IntN(len(items))] }

// weighted is a choice and how often it is made.
type weighted[T any] struct {
	weight int
	value  T
}

func choose[T any](g *generator, items []weighted[T]) T {
	total := 0
	for _, it := range items {
		total += it.weight
	}
	n := g.IntN(total)
	for _, it := range items {
		if n -= it.weight; n < 0 {
			return it.value
		}
	}
	panic("unreachable: the weights are positive")
}

var stepKinds = []weighted[func(*generator, int) step]{
	{1000, (*generator).ordinary},
	{8, func(g *generator, slot int) step { return g.handshake(doOpen, slot) }},
	{14, func(g *generator, slot int) step { return g.handshake(doAttach, slot) }},
	{6, func(_ *generator, slot int) step { return step{act: doCut, slot: slot} }},
	{16, func(g *generator, slot int) step { return single(slot, g.damageOften(g.auth(slot))) }},
	{2, func(g *generator, slot int) step {
		return single(slot, g.damageOften(g.request(slot, proto.OpSASL, g.sasl())))
	}},
	{3, func(g *generator, slot int) step { return single(slot, g.unknown(slot)) }},
	{5, (*generator).closeSession},
	{2, (*generator).raw},
	{2, (*generator).greet},
	{8, (*generator).fourLetterWord},
	{12, (*generator).heal},
}

func single(slot int, q request) step { return step{act: doBurst, slot: slot, requests: []request{q}} }

func (g *generator) step() step { return choose(g, stepKinds)(g, g.IntN(slots)) }

// ordinary is one request, or several in one go.
func (g *generator) ordinary(slot int) step {
	s := step{act: doBurst, slot: slot}
	n := 1
	if g.chance(25) {
		n = 2 + g.IntN(7)
	}
	for range n {
		s.requests = append(s.requests, g.any(slot))
		last := s.requests[len(s.requests)-1]
		if last.op == proto.OpSetACL || g.quotas && last.op.IsWrite() || last.holdsNull() { // see differences.go
			break
		}
	}
	return s
}

// heal opens the root again, which an ACL may have closed to everybody.
func (g *generator) heal(slot int) step {
	return step{act: doBurst, slot: slot, requests: []request{
		g.request(slot, proto.OpAuth, &proto.AuthPacket{Scheme: "digest", Auth: []byte(superUser)}),
		g.request(slot, proto.OpSetACL, &proto.SetACLRequest{Path: pick(g, "/", "/a", "/b", "/c"), ACL: proto.OpenACL(), Version: -1}),
	}}
}

func (g *generator) handshake(act action, slot int) step {
	return step{act: act, slot: slot, of: g.IntN(slots), hasReadOnly: !g.chance(15), readOnly: g.chance(10),
		timeout: pick[int32](g, 30000, 4000, 0, -1, 1, 1<<31-1, 2000000),
		pass:    choose(g, []weighted[password]{{80, rightPassword}, {8, wrongPassword}, {6, shortPassword}, {6, nullPassword}}),
		seen:    choose(g, []weighted[seen]{{50, seenNothing}, {35, seenLatest}, {5, seenFuture}, {10, seenNegative}})}
}

// raw is what ends a connection at once.
func (g *generator) raw(slot int) step {
	return step{act: doRaw, slot: slot, bytes: pick(g,
		[]byte{0xff, 0xff, 0xff, 0xfb}, []byte{0x7f, 0xff, 0xff, 0xff}, []byte{0, 0, 0, 0}, []byte{0, 0, 0, 3, 1, 2, 3},
		[]byte{0, 0x10, 0, 0}, []byte("ruok"), []byte("GET / HTTP/1.1\r\n\r\n"), []byte{0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0})}
}

func (g *generator) greet(slot int) step {
	whole := proto.AppendFrame(nil, &proto.ConnectRequest{TimeOut: 30000, Passwd: make([]byte, 16)})
	short := append([]byte{0, 0, 0, 20}, whole[4:24]...)
	return step{act: doGreet, slot: slot, bytes: pick(g,
		[]byte("GET / HTTP/1.1\r\n\r\n"), []byte{0xff, 0xff, 0xff, 0xff}, []byte{0x7f, 0, 0, 0}, short, []byte{0, 0, 0, 0}, []byte("abcd"),
		[]byte("ruok\n"), []byte("RUOK"))}
}

func (g *generator) fourLetterWord(int) step {
	return step{act: doWord, word: pick(g, "ruok", "isro", "srvr", "stat", "mntr", "cons", "dump", "wchs", "wchc", "wchp", "gtmk", "crst", "srst")}
}

// nextXid is one that the client has used already in a few cases.
func (g *generator) nextXid(slot int) int32 {
	if g.chance(96) {
		g.xid[slot]++
	}
	if g.chance(2) {
		return pick[int32](g, 0, -3, -1<<31, 1<<31-1, 7, -4, -8)
	}
	return g.xid[slot]
}

// request encodes one request, a few of them badly.
func (g *generator) request(slot int, op proto.Op, rec proto.Record) request {
	q := request{xid: g.nextXid(slot), op: op}
	if rec != nil {
		q.body = rec.Append(nil)
	}
	return q
}

// tiesEnd reports whether the request may not stand right before a closeSession: see differences.go.
func (q request) tiesEnd() bool {
	switch q.op {
	case proto.OpSetACL, proto.OpCreateContainer, proto.OpCreateTTL, proto.OpMulti:
		return true
	}
	return false
}

// holdsNull reports whether the request is a multi with a null somewhere.
func (q request) holdsNull() bool {
	return q.op == proto.OpMulti && strings.Contains(q.String(), "Null:true")
}

// damage spoils the body of some requests. What comes out is never a different request that decodes.
func (g *generator) damage(q request) request {
	switch {
	case len(q.body) < 4:
	case g.chance(1):
		q.body = q.body[:g.IntN(len(q.body))]
	case g.IntN(300) == 0:
		binary.BigEndian.PutUint32(q.body, pick[uint32](g, 0xfffffffe, 0x7fffffff, 0x80000000, 0x00200000))
	case g.chance(1):
		q.body = append(q.body, 0, 1, 2)
	}
	return q
}

// damageOften spoils every fifth.
func (g *generator) damageOften(q request) request {
	if n := len(q.body); n >= 4 && g.chance(20) {
		binary.BigEndian.PutUint32(q.body[pick(g, 0, n/4*4-4):], pick[uint32](g, 0xfffffffe, 0x7fffffff, 0x80000000, 0x00200000))
		q.body = q.body[:n-g.IntN(n)]
	}
	return q
}

// closeSession may have requests behind it, which are lost with the connection.
func (g *generator) closeSession(slot int) step {
	s := single(slot, request{xid: g.nextXid(slot), op: proto.OpCloseSession})
	if g.chance(30) {
		before := g.ordinary(slot)
		if !slices.ContainsFunc(before.requests, request.tiesEnd) {
			s.requests = append(before.requests, s.requests...)
		}
	}
	if g.chance(50) {
		s.requests = append(s.requests, g.ordinary(slot).requests...)
	}
	return s
}

func writesBehindClose(s step) bool {
	at := slices.IndexFunc(s.requests, func(q request) bool { return q.op == proto.OpCloseSession })
	return at >= 0 && slices.ContainsFunc(s.requests[at+1:], func(q request) bool { return q.op.IsWrite() })
}

// unknown has a code that no client may send. check is one: it lives inside a multi.
func (g *generator) unknown(slot int) request {
	q := request{xid: g.nextXid(slot), op: pick[proto.Op](g, 0, -1, 10, 13, 23, 99, 108, 1000, -2, -9, -100, 1<<31-1)}
	if g.chance(50) {
		q.body = (&proto.CheckVersionRequest{Path: g.path(), Version: -1}).Append(nil)
	}
	return q
}

func (g *generator) sasl() proto.Record {
	return &proto.GetSASLRequest{Token: pick(g, nil, []byte{}, []byte("token"))}
}

func (g *generator) auth(slot int) request {
	scheme := choose(g, []weighted[string]{{80, "digest"}, {6, "ip"}, {2, "world"}, {2, "super"}, {2, "auth"}, {2, "sasl"}, {2, "x509"}, {2, "nonsense"}, {2, ""}})
	auth := choose(g, []weighted[[]byte]{{30, []byte("u1:p1")}, {30, []byte("u2:p2")}, {15, []byte(superUser)}, {5, []byte("noColon")},
		{5, []byte(":x")}, {5, []byte("a:b:c")}, {4, []byte{}}, {4, nil}, {2, []byte{0xff, ':', 0xfe}}})
	return g.request(slot, proto.OpAuth, &proto.AuthPacket{Type: pick[int32](g, 0, 0, 5), Scheme: scheme, SchemeNull: scheme == "" && g.chance(50), Auth: auth})
}
