package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// Foresee leaves no trace, whatever the records are, and finds no fault that Apply does not report.
func TestForeseeChangesNothing(t *testing.T) {
	h := newHistory(t, Config{})
	h.ask(proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()})
	digest, zxid := h.m.Digest(), h.m.LastZxid()
	var recs []txn.Record
	for i, b := range []txn.Body{
		&txn.SetData{Path: "/a", Data: []byte("x"), Version: 1}, &txn.SetData{Path: "/none"}, &txn.Create{Path: "/b", ACL: proto.OpenACL()}, &txn.Delete{Path: "/a"},
		&txn.Multi{Ops: []txn.MultiOp{{Op: proto.OpSetData, Body: &txn.SetData{Path: "/a"}}, {Op: proto.OpCheck, Body: &txn.Check{Path: "/a"}}}}, &txn.CloseSession{},
	} {
		d := txn.NewDraft(&txn.Txn{Body: b}, &txn.Request{})
		rec := d.Seal(txn.MakeZxid(9, uint32(i+1)), 0, 0)
		rec.Forget()
		recs = append(recs, rec)
	}
	broken := recs[0]
	broken.Zxid, broken.Bytes = txn.MakeZxid(9, 99), append(append([]byte(nil), broken.Bytes[:txn.RecordOverhead]...), 0xc1)
	recs = append(recs, broken)
	h.m.Foresee(recs)
	require.Equal(t, digest, h.m.Digest())
	require.Equal(t, zxid, h.m.LastZxid())
	_, err := h.m.Apply(&recs[len(recs)-1])
	require.ErrorIs(t, err, txn.ErrPayload)
}

func TestAllocationsOfAWrite(t *testing.T) {
	h := newHistory(t, Config{LocalSessions: true})
	h.ask(proto.OpCreate, &proto.CreateRequest{Path: "/a", ACL: proto.OpenACL()})
	set := []txn.Request{{Session: 7, Op: proto.OpSetData, Payload: (&proto.SetDataRequest{Path: "/a", Data: make([]byte, 1024), Version: -1}).Append(nil)}}
	h.m.Prepare(set, 1000) // the path is among the changes from here on
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { h.m.Prepare(set, 1000) }), 6.0, "the drafts, the txn, its body, the path, the record, a share of the queues")
}
