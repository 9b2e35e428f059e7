package difftest

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/proto"
)

// apart is how far the clocks of two servers may be from each other when they stamp the same change.
const apart = 2 * time.Minute

// known is what the comparison has learned about the two servers.
type known struct {
	zxids    *pairing
	sessions *pairing
	closing  [2]map[int64]bool // zxids of A's and B's closeSessions
	// anyClosing: whatever happens now happens because a session ends.
	anyClosing bool
	ensemble   bool // one of them is a member of one
}

func newKnown(ensemble bool) *known {
	return &known{ensemble: ensemble, zxids: newPairing(true), sessions: newPairing(false), closing: [2]map[int64]bool{{}, {}}}
}

// difference is the first thing that two answers do not share.
type difference struct {
	Field string // what differs; differences of one cause mostly share it
	A, B  string
}

func (d *difference) String() string { return fmt.Sprintf("%s: A has %s, B has %s", d.Field, d.A, d.B) }

// same compares two values by their kind.
func (k *known) same(a, b field) bool {
	if a.name != b.name || a.kind != b.kind || a.text != b.text {
		return false
	}
	switch a.kind {
	case zxid:
		return k.zxids.match(a.num, b.num)
	case session:
		return k.sessions.match(a.num, b.num)
	case moment:
		return (a.num == 0) == (b.num == 0) && max(a.num-b.num, b.num-a.num) < apart.Milliseconds()
	}
	return a.num == b.num
}

// compare returns the first difference of two answers, nil if there is none.
func (k *known) compare(a, b answer) *difference {
	a, b = a.inOrder(k.closing[0], k.anyClosing), b.inOrder(k.closing[1], k.anyClosing)
	for i := range min(len(a.frames), len(b.frames)) {
		if d := k.compareFrames(a.frames[i], b.frames[i]); d != nil {
			return d
		}
	}
	switch {
	case len(a.frames) > len(b.frames):
		return &difference{a.frames[len(b.frames)].what, a.frames[len(b.frames)].String(), "nothing"}
	case len(b.frames) > len(a.frames):
		return &difference{b.frames[len(a.frames)].what, "nothing", b.frames[len(a.frames)].String()}
	case a.closed != b.closed:
		return &difference{"closed", fmt.Sprint(a.closed), fmt.Sprint(b.closed)}
	case a.silent != b.silent:
		return &difference{"silence", fmt.Sprint(a.silent), fmt.Sprint(b.silent)}
	}
	return nil
}

func (k *known) compareFrames(a, b frame) *difference {
	if a.what != b.what {
		return &difference{a.what + "/" + b.what, a.String(), b.String()}
	}
	for i := range min(len(a.fields), len(b.fields)) {
		if fa, fb := a.fields[i], b.fields[i]; !k.same(fa, fb) {
			return &difference{a.what + "." + fa.name, fa.String(), fb.String()}
		}
	}
	if len(a.fields) != len(b.fields) {
		return &difference{a.what + ".length", a.String(), b.String()}
	}
	return nil
}

// noteClosing remembers which zxid ended a session, before the answer to a burst is compared.
func (k *known) noteClosing(side int, frames []frame, qs []request) {
	for _, f := range frames {
		if f.what != reply || len(qs) == 0 {
			continue
		}
		if qs[0].op == proto.OpCloseSession {
			k.closing[side][f.get("zxid")] = true
		}
		qs = qs[1:]
	}
}
