package sim

import (
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/zkd-project/zkd/zab"
)

// traceKeep is how many of the last events a failure shows.
const traceKeep = 300

// line is one event of the trace; it is made into text only when somebody reads it.
type line struct {
	at   time.Duration
	step uint64
	node zab.ServerID // 0: none
	what string
	n    uint64
	more any
}

func (l *line) String() string {
	s := fmt.Sprintf("%11.6f #%-7d", l.at.Seconds(), l.step)
	if l.node != 0 {
		s += fmt.Sprintf(" n%d", l.node)
	} else {
		s += "   "
	}
	s += fmt.Sprintf(" %-10s %d", l.what, l.n)
	if l.more != nil {
		s += " " + render(l.more)
	}
	return s
}

// render prints a packet, an effect or an event without the bytes that it carries.
func render(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case *zab.Propose:
		return fmt.Sprintf("PROPOSE commit %v %s", v.Commit, span(v))
	case *zab.Inform:
		return fmt.Sprintf("INFORM commit %v %s", v.Commit, span(&zab.Propose{Records: v.Records}))
	case *zab.SnapChunk:
		return fmt.Sprintf("SNAPCHUNK %d, %d bytes", v.N, len(v.Data))
	case *zab.Requests:
		return fmt.Sprintf("REQUESTS %d", len(v.Requests))
	case zab.Append:
		return fmt.Sprintf("Append %d: %s", v.ID, span(&zab.Propose{Records: v.Records}))
	case zab.Apply:
		return "Apply " + span(&zab.Propose{Records: v.Records})
	case zab.Prepare:
		return fmt.Sprintf("Prepare %d", len(v.Requests))
	case zab.Send:
		return fmt.Sprintf("Send conn %d epoch %d %s", v.Conn, v.Epoch, render(v.Packet))
	case zab.Received:
		return fmt.Sprintf("Received conn %d epoch %d %s", v.Conn, v.Epoch, render(v.Packet))
	case zab.Submit:
		return fmt.Sprintf("Submit %d", len(v.Requests))
	case zab.Prepared:
		return fmt.Sprintf("Prepared %d", len(v.Drafts))
	case zab.LogRead:
		return fmt.Sprintf("LogRead after %v gone %v %s", v.After, v.Gone, span(&zab.Propose{Records: v.Records}))
	}
	if reflect.TypeOf(v).Kind() == reflect.Pointer {
		return fmt.Sprintf("%T%+v", v, reflect.ValueOf(v).Elem().Interface())
	}
	return fmt.Sprintf("%T%+v", v, v)
}

func span(p *zab.Propose) string {
	if len(p.Records) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%v…%v", p.Records[0].Zxid, p.Records[len(p.Records)-1].Zxid)
}

// trace notes an event: it goes into the hash that tells two runs apart, and into the last lines that a failure shows.
func (w *World) trace(node zab.ServerID, what string, n uint64, more any) {
	h := w.hash ^ uint64(w.now) ^ uint64(node)<<56
	for _, c := range []byte(what) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	w.hash = splitmix(h ^ n)
	l := line{at: w.now, step: w.steps, node: node, what: what, n: n, more: more}
	if w.Verbose != nil {
		fmt.Fprintln(w.Verbose, l.String())
	}
	w.last[w.lastN%traceKeep] = l
	w.lastN++
}

// WriteLast prints the last events, oldest first, that involve one of the nodes; none means all.
func (w *World) WriteLast(out io.Writer, nodes ...zab.ServerID) {
	for i := max(0, w.lastN-traceKeep); i < w.lastN; i++ {
		l := &w.last[i%traceKeep]
		if len(nodes) > 0 && l.node != 0 && !has(nodes, l.node) {
			continue
		}
		fmt.Fprintln(out, l.String())
	}
}

func has(ids []zab.ServerID, id zab.ServerID) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}
