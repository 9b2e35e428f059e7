package sim

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkd-project/zkd/proto"
)

// porcupineLimit is how long the second opinion about one znode may take; what takes longer is counted as undecided.
const porcupineLimit = 300 * time.Millisecond

// register is what the second opinion knows of a znode.
type register struct {
	there   bool
	version int32
	value   string
}

// deed is one operation on one znode, with its answer if there is one. A part of a multi is a deed of its own.
type deed struct {
	kind    proto.Op
	expect  int32 // version asked for, -1: any
	value   string
	err     proto.ErrCode
	unknown bool
	version int32 // that the answer told
}

// step tells whether the deed's answer fits a znode in this state, and what comes of it. A deed of unknown outcome happens if it can; one
// that never did is put behind everything else.
func (d *deed) step(s register) (bool, register) {
	fits := d.expect < 0 || d.expect == s.version
	can, next := s.there && fits, s
	switch d.kind {
	case proto.OpCreate2:
		can, next = !s.there, register{true, 0, d.value}
	case proto.OpSetData:
		next = register{true, s.version + 1, d.value}
	case proto.OpDelete:
		next = register{}
	}
	switch {
	case d.unknown && !can:
		return true, s
	case d.unknown:
		return true, next
	}
	switch d.err {
	case proto.OK:
	case proto.ErrNoNode:
		return !s.there, s
	case proto.ErrNodeExists:
		return s.there, s
	case proto.ErrBadVersion:
		return s.there && !fits, s
	case proto.ErrNotEmpty:
		return s.there, s
	default: // of the session, say
		return true, s
	}
	switch {
	case !can:
		return false, s
	case d.kind == proto.OpGetData:
		return d.version == s.version && d.value == s.value, s
	case d.kind == proto.OpCheck, d.kind == proto.OpDelete:
		return true, next
	}
	return d.version == next.version, next
}

var znode = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) { return input.(*deed).step(state.(register)) },
}

// porcupine holds the writes of all clients, and their reads behind a sync, against a model that knows nothing of zxids, znode by znode
// (I-29). Ephemerals are left out, for they end by themselves.
func (h *history) porcupine() {
	fleeting := map[string]bool{}
	for _, o := range h.kept {
		if q, ok := o.record.(*proto.CreateRequest); ok && q.Flags.Ephemeral() {
			fleeting[q.Path] = true
		}
	}
	byPath := map[string][]porcupine.Operation{}
	synced := map[int]*op{} // the sync that was a client's last request
	for _, o := range h.kept {
		began := o.called
		if s := synced[o.client]; s != nil && s.session == o.session && s.done {
			began = s.called // the sync makes the read one of the moments between
		} else if o.kind == proto.OpGetData {
			continue
		}
		if o.kind == proto.OpSync {
			synced[o.client] = o
			continue
		}
		delete(synced, o.client)
		for path, d := range o.deeds() {
			if fleeting[path] {
				continue
			}
			end := int64(o.ended)
			if d.unknown {
				end = math.MaxInt64
			}
			byPath[path] = append(byPath[path], porcupine.Operation{ClientId: o.client, Input: d, Call: int64(began), Return: end})
		}
	}
	for _, path := range sorted(byPath) {
		switch porcupine.CheckOperationsTimeout(znode, byPath[path], porcupineLimit) {
		case porcupine.Illegal:
			h.w.violate("I-29", 0, 0, "the %d operations on %s are not linearizable, says porcupine", len(byPath[path]), path)
			return
		case porcupine.Unknown:
			h.w.count("undecided")
		default:
			h.w.count("linearizable")
		}
	}
}

// deeds are what an operation did, may have done or saw, by znode.
func (o *op) deeds() map[string]*deed {
	out := map[string]*deed{}
	if o.refuse || o.got.lie || !o.done && !o.kind.IsWrite() {
		return nil
	}
	switch o.kind {
	case proto.OpGetData:
		d := &deed{kind: o.kind, expect: -1, err: o.got.err}
		var r proto.GetDataResponse
		if d.err == proto.OK && r.Decode(proto.NewReader(o.got.body)) == nil {
			d.version, d.value = r.Stat.Version, string(r.Data)
		}
		out[o.path] = d
	case proto.OpCreate2, proto.OpSetData, proto.OpDelete:
		if path, d := deedOf(o.kind, o.record); d != nil {
			d.unknown, d.err = !o.done, o.got.err
			if d.kind == proto.OpSetData && o.done && d.err == proto.OK {
				var r proto.SetDataResponse
				_ = r.Decode(proto.NewReader(o.got.body))
				d.version = r.Stat.Version
			}
			out[path] = d
		}
	case proto.OpMulti:
		o.parts(out)
	}
	return out
}

// parts are the deeds of a multi. One that failed did nothing.
func (o *op) parts(out map[string]*deed) {
	results, _ := proto.DecodeMultiResults(proto.NewReader(o.got.body))
	for i := range o.multi {
		if o.done && (i >= len(results) || results[i].Err != proto.OK) {
			clear(out)
			return
		}
		path, d := deedOf(o.multi[i].Op, o.multi[i].Request)
		if d == nil || out[path] != nil { // the check of what the same multi has set says nothing new
			continue
		}
		if d.unknown = !o.done; o.done && d.kind == proto.OpSetData {
			d.version = results[i].Stat.Version
		}
		out[path] = d
	}
}

// deedOf is what a request asks of one znode; nil if nobody can know beforehand which one.
func deedOf(kind proto.Op, q proto.Record) (string, *deed) {
	switch q := q.(type) {
	case *proto.CreateRequest:
		if q.Flags.Sequential() || q.Flags.Ephemeral() {
			return "", nil
		}
		return q.Path, &deed{kind: proto.OpCreate2, expect: -1, value: string(q.Data)}
	case *proto.SetDataRequest:
		return q.Path, &deed{kind: kind, expect: q.Version, value: string(q.Data)}
	case *proto.DeleteRequest:
		return q.Path, &deed{kind: kind, expect: q.Version}
	case *proto.CheckVersionRequest:
		return q.Path, &deed{kind: kind, expect: q.Version}
	}
	return "", nil
}
