package zab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

func sealed(n int) []txn.Record {
	recs, prev := make([]txn.Record, n), Position{}
	for i := range recs {
		d := txn.NewDraft(&txn.Txn{Body: &txn.SetData{Path: "/a", Data: make([]byte, 1000)}}, &txn.Request{})
		recs[i] = d.Seal(txn.MakeZxid(1, uint32(i+1)), prev.Zxid, prev.Chain)
		prev = Position{Zxid: recs[i].Zxid, Chain: recs[i].Chain}
	}
	return recs
}

// The cost of a batch in allocations does not grow with its length.
func TestAllocationsOfABatch(t *testing.T) {
	reqs := make([]txn.Request, 100)
	for i := range reqs {
		reqs[i] = txn.Request{Session: 7, Cxid: int32(i), Op: proto.OpSetData, Payload: make([]byte, 100), Auth: []proto.ID{{Scheme: "ip", ID: "127.0.0.1"}}}
	}
	b, ok := appendPlain(nil, &Requests{Requests: reqs})
	require.True(t, ok)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { decodePlain(TypeRequests, b) }), 4.0, "the packet, its list, one list of ids, the address")

	body := appendRecords(nil, 0, sealed(100))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _, _ = parseRecords(body) }), 1.0, "the list")
}

// Between two trims the tail grows in the room that the first has made.
func TestTheTailOfAHistoryIsSeldomMoved(t *testing.T) {
	recs := sealed(10_000)
	h := NewHistory(Position{}, Position{}, 0, EpochTable{}, nil, 1000*len(recs[0].Bytes))
	moves, room := 0, 0
	for _, r := range recs {
		require.NoError(t, h.Append(r))
		h.Commit, h.Durable = r.Zxid, r.Zxid
		h.TakeApplicable()
		if cap(h.tail) != room {
			moves, room = moves+1, cap(h.tail)
		}
	}
	require.Less(t, moves, 40, "a trim moves it once for five hundred records, and its first growth a dozen times")
	require.LessOrEqual(t, h.TailBytes(), h.TailMax)
}
