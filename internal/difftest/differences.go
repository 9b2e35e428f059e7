package difftest

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

// chosen is a difference between zkd and the original that is meant. docs/compatibility.md lists them for users.
type chosen struct {
	name   string
	reason string
	// same reports whether this is why the answers to the step differ. Nil: the request is never sent, or cannot show.
	same func(s step, d *difference) bool
}

// chosenDifferences holds every difference that the tester lets pass, and why some requests are never made.
var chosenDifferences = []chosen{
	{name: "deleteContainer from a client", reason: "refused here; the original deletes the node without asking for a permission"},
	{name: "createSession from a client", reason: "refused here as an unknown request; the original opens a second session on the connection"},
	{name: "createTTL without a TTL", reason: "an error here; the original stops serving"},
	{name: "a quota on the root", reason: "an error here; the original stops serving"},
	{name: "unreadable quota statistics", reason: "count as -1 here; the original stops serving"},
	{name: "a wrong password for a session with a live connection", reason: "does not touch the connection here; the original cuts it before it looks at the password"},
	{name: "replies that wait behind an unknown request", reason: "are sent here; the original mostly loses them"},
	{name: "writes pipelined under a quota", reason: "are charged at both as far as the ones before are applied by then, which is chance; so a burst has one write where quotas are"},
	{name: "the old connection of a session taken up twice", same: keptOld, reason: "always ends here; the original forgets the newer connection when the older one's end comes late"},
	{name: "characters beyond U+FFFF", same: surrogates, reason: "are written as UTF-8 here; the original writes each half of a surrogate pair on its own"},
	{name: "requests pipelined behind a setACL", reason: "are held against the new list here; the original uses the old one until it is applied, so a setACL ends its burst"},
	{name: "requests behind a closeSession", same: behindClose, reason: "are never looked at here; the original answers as many with -112 or -22 as it gets to before it closes, which is chance"},
	{name: "events of its own end for a session that expires", same: lastEvents, reason: "are not sent here; the original sends them if it gets to that before it cuts the connection, which is chance"},
	{name: "events on their way when the session is taken up elsewhere", same: robbedEvents, reason: "are still sent here on the old connection; the original drops what it has not written yet, which is chance"},
	{name: "requests pipelined behind a multi with a null", reason: "see nothing of it here; the original forgets to take back what such a multi began, until it is through, so it ends its burst"},
	{name: "createContainer and createTTL with an ephemeral's flags", reason: "make no ephemeral at either; but the original deletes such a node with its session while the create is under way, which is chance, so none stands right before a closeSession"},
	{name: "four-letter words", reason: "the safe ones are on by default here, so the tester switches all of them on at both"},
}

// meant returns the chosen difference that explains d, nil if none does.
func meant(s step, d *difference) *chosen {
	i := slices.IndexFunc(chosenDifferences, func(c chosen) bool { return c.same != nil && c.same(s, d) })
	if i < 0 {
		return nil
	}
	return &chosenDifferences[i]
}

// neverSent reports whether a request with that code is among the chosen differences.
func neverSent(op proto.Op) bool { return op == proto.OpDeleteContainer || op == proto.OpCreateSession }

// surrogates reports whether the difference is only how such characters are written. A's halves do not decode.
func surrogates(_ step, d *difference) bool {
	var b strings.Builder
	for _, r := range d.B {
		if r > 0xffff {
			b.WriteString("\ufffd\ufffd")
		} else {
			b.WriteRune(r)
		}
	}
	return d.A == b.String() && d.A != d.B
}

// keptOld reports whether only A left the connection open whose session was taken up elsewhere.
func keptOld(s step, d *difference) bool {
	return s.act == doAttach && d.Field == "closed" && d.A == "false"
}

// behindClose reports whether only A answered a request that stands behind a closeSession.
func behindClose(s step, d *difference) bool {
	at := slices.IndexFunc(s.requests, func(q request) bool { return q.op == proto.OpCloseSession })
	return s.act == doBurst && at >= 0 && at < len(s.requests)-1 && d.Field == reply && d.B == "nothing"
}

// lastEvents reports whether only A told a client what the end of its own session does.
func lastEvents(s step, d *difference) bool {
	return s.act == doExpire && d.Field == event && d.B == "nothing"
}

// robbedEvents reports whether only B told the old connection of a session that is taken up elsewhere what had happened before.
func robbedEvents(s step, d *difference) bool {
	return s.act == doAttach && d.Field == event && d.A == "nothing"
}
