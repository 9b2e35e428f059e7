package sim

import (
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// suffix is the number at the end of a sequential znode, as its client was told.
type suffix struct {
	zxid   txn.Zxid
	number int64
}

// family is one life of a parent.
type family struct {
	parent string
	born   int64 // its czxid
}

// numbered files a sequential znode's number: along the zxids the numbers below one parent grow (I-39). asked is the path without the
// number. Two of one multi are told in order.
func (h *history) numbered(z txn.Zxid, asked, got string) {
	if len(got) <= len(asked) {
		h.w.violate("I-39", 0, z, "%s was made of %s: no number", got, asked)
		return
	}
	number, err := strconv.ParseInt(got[len(asked):], 10, 64)
	if err != nil {
		h.w.violate("I-39", 0, z, "%s was made of %s: %v", got, asked, err)
		return
	}
	parent, _ := parentOf(got)
	f := family{parent, h.model.nodes[parent].at(z).stat.Czxid}
	list := h.suffixes[f]
	i := len(list)
	for i > 0 && list[i-1].zxid > z {
		i--
	}
	if i > 0 && list[i-1].number >= number || i < len(list) && list[i].number <= number {
		h.w.violate("I-39", 0, z, "%s is not behind the numbers that came before, or not before those that came later", got)
		return
	}
	h.suffixes[f] = slices.Insert(list, i, suffix{z, number})
}

// numbers takes the sequential znodes out of the answer to a write.
func (h *history) numbers(o *op, out outcome) {
	if out.err != proto.OK {
		return
	}
	switch o.kind {
	case proto.OpCreate2:
		var r proto.Create2Response
		if q := o.record.(*proto.CreateRequest); q.Flags.Sequential() && r.Decode(proto.NewReader(out.body)) == nil {
			h.numbered(out.zxid, q.Path, r.Path)
		}
	case proto.OpMulti:
		results, err := proto.DecodeMultiResults(proto.NewReader(out.body))
		if err != nil || slices.ContainsFunc(results, func(r proto.MultiResult) bool { return r.Err != proto.OK }) {
			return
		}
		for i := range min(len(results), len(o.multi)) {
			if q, ok := o.multi[i].Request.(*proto.CreateRequest); ok && q.Flags.Sequential() {
				h.numbered(out.zxid, q.Path, results[i].Path)
			}
		}
	}
}
