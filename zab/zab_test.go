package zab

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

func record(prev Position, zxid txn.Zxid, data string) txn.Record {
	d := txn.NewDraft(&txn.Txn{Body: &txn.SetData{Path: "/a", Data: []byte(data)}}, &txn.Request{})
	return d.Seal(zxid, prev.Zxid, prev.Chain)
}

func records(prev Position, zxids ...txn.Zxid) []txn.Record {
	var out []txn.Record
	for _, z := range zxids {
		r := record(prev, z, z.String())
		prev = Position{Zxid: r.Zxid, Chain: r.Chain}
		out = append(out, r)
	}
	return out
}

func z(e txn.Epoch, c uint32) txn.Zxid { return txn.MakeZxid(e, c) }

func packets() []Packet {
	recs := records(Position{}, z(1, 1), z(1, 2), z(2, 1))
	for i := range recs { // as they come off the wire: not decoded yet
		recs[i], _, _ = txn.ParseRecord(recs[i].Bytes)
	}
	table := EpochTable{Whole: true, Ends: []EpochEnd{{Epoch: 1, Last: z(1, 9), Chain: 1<<63 + 5}}}
	at := Position{Zxid: z(3, 4), Chain: 77}
	return []Packet{
		&Hello{ClusterID: 1 << 63, Self: 3, Directory: 9, Boot: 2, ConnNo: 5, Purpose: ForData, Target: 1},
		&Notify{Notification{State: Leading, Round: 4, Vote: Vote{Leader: 2, Epoch: 3, Zxid: z(3, 1), DiskLow: true}, Votable: true,
			Leader: 2, EstablishedEpoch: 3, CurrentEpoch: 3, Unreachable: []ServerID{1, 255}, Seq: 8, AnswerTo: 7}},
		&FollowerInfo{Accepted: 3, AcceptedLeader: 2, Current: 2, Votable: true},
		&FollowerInfo{Observer: true, RecoveryID: 1<<64 - 1},
		&LeaderInfo{Epoch: 4, ClusterID: 5},
		&AckEpoch{Epoch: 4, Vote: true, Current: 3, Last: at, Table: table, MinRestorable: z(1, 1)},
		&Diff{From: at}, &Trunc{To: at},
		&SnapBegin{At: at, Common: 5, CommonKnown: true, Size: 1 << 40, Table: table},
		&SnapChunk{N: 3, Data: []byte("chunk")}, &SnapEnd{Sum: 5, Signature: "BenWasHere"},
		&SyncReject{Reason: "no", Last: at}, &NewLeader{Epoch: 4, End: at},
		&Ack{Kind: AckNewLeader, Epoch: 4, Durable: z(3, 4), Chain: 9, Votable: true},
		&UpToDate{Epoch: 4, Commit: z(3, 4)}, &Bye{Code: ByeSlow, Text: "slow", Accepted: 2},
		&Propose{Commit: z(1, 1), Records: recs}, &Propose{Commit: z(1, 1)}, &Commit{Commit: z(1, 2)},
		&Inform{Commit: z(2, 1), Records: recs},
		&Ping{Tick: 1, Nonce: 2, Commit: 3, DigestZxid: 4, Digest: 1<<64 - 1},
		&Pong{Nonce: 2, Durable: 3, Applied: 4, Touches: []Touch{{Session: -1, TimeoutMillis: 4000}}, LagBytes: 5, DiskLow: true},
		&Requests{Requests: []txn.Request{{Session: -7, Cxid: -1, Op: proto.OpCreate, Origin: 2, Conn: 1 << 60, Payload: []byte("p"),
			Auth: []proto.ID{{Scheme: "ip", ID: "127.0.0.1"}}, Seq: 1 << 40}}},
		&Refused{Refusals: []Refusal{{Session: 1, Cxid: 2, Conn: 3, Code: txn.RefusedPendingFull, Seq: 4}}},
		&Sync{ID: 1}, &Synced{ID: 1, Zxid: 2, OK: true}, &Revalidate{ID: 1, Session: -2, TimeoutMillis: 3},
		&Revalidated{ID: 1, OK: true, Valid: true, Zxid: 9}, &Handover{Target: 3, Epoch: 4, Last: 5},
	}
}

func decodeFrame(b []byte) (Packet, Header, error) {
	var raw [HeaderBytes]byte
	if copy(raw[:], b) < HeaderBytes {
		return nil, Header{}, ErrFrameSize
	}
	h, err := ParseHeader(raw, 1<<20)
	if err != nil {
		return nil, h, err
	}
	if len(b) != HeaderBytes+h.Length {
		return nil, h, ErrFrameSize
	}
	p, err := Decode(raw, h, b[HeaderBytes:])
	return p, h, err
}

func TestEveryPacketSurvivesItsFrame(t *testing.T) {
	seen := map[PacketType]bool{}
	for _, p := range packets() {
		b := AppendFrame([]byte("before"), 7, p)[len("before"):]
		got, h, err := decodeFrame(b)
		require.NoError(t, err, "%T", p)
		require.Equal(t, p, got)
		require.Equal(t, txn.Epoch(7), h.Epoch)
		seen[p.Type()] = true
	}
	require.Len(t, seen, int(packetTypeEnd)-1, "every packet type is tested")
}

func TestNoFlippedBitPassesForAFrame(t *testing.T) {
	for _, p := range packets() {
		b := AppendFrame(nil, 7, p)
		for i := range b {
			for bit := range 8 {
				c := bytes.Clone(b)
				c[i] ^= 1 << bit
				_, _, err := decodeFrame(c)
				require.Error(t, err, "%T byte %d bit %d", p, i, bit)
			}
		}
	}
}

func FuzzDecodeBody(f *testing.F) {
	for _, p := range packets() {
		f.Add(byte(p.Type()), appendBody(nil, p))
	}
	f.Fuzz(func(t *testing.T, typ byte, body []byte) {
		frame := AppendFrame(nil, 1, &Sync{}) // a head to borrow
		var raw [HeaderBytes]byte
		copy(raw[:], frame)
		h := Header{Length: len(body), Type: PacketType(typ)}
		raw[8] = typ
		h.Sum = checksum(raw, body)
		p, err := Decode(raw, h, body)
		if err != nil {
			return
		}
		again, _, err := decodeFrame(AppendFrame(nil, 1, p))
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

func TestAMajorityIsMoreThanHalfOfTheVoters(t *testing.T) {
	three := Membership{Servers: []Server{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 9, Observer: true}}}
	four := Membership{Servers: []Server{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}}
	set := func(ids ...ServerID) func(ServerID) bool {
		return func(id ServerID) bool {
			for _, i := range ids {
				if i == id {
					return true
				}
			}
			return false
		}
	}
	require.False(t, three.Satisfied(set(1)))
	require.True(t, three.Satisfied(set(1, 3)))
	require.False(t, three.Satisfied(set(1, 9)), "an observer never counts")
	require.False(t, three.Satisfied(set(1, 7)), "a stranger never counts")
	require.False(t, four.Satisfied(set(1, 2)), "half is not a majority")
	require.True(t, four.Satisfied(set(1, 2, 4)))

	marks := map[ServerID]txn.Zxid{1: 10, 2: 7, 3: 5, 4: 1, 9: 100}
	at := func(id ServerID) txn.Zxid { return marks[id] }
	require.Equal(t, txn.Zxid(7), three.QuorumZxid(at))
	require.Equal(t, txn.Zxid(5), four.QuorumZxid(at))
}

func TestTheOrderOfVotes(t *testing.T) {
	worst := []Vote{{}, {Leader: 9, Epoch: 1, Zxid: z(1, 9)}, {Leader: 1, Epoch: 2, Zxid: z(1, 2), DiskLow: true},
		{Leader: 1, Epoch: 2, Zxid: z(1, 2)}, {Leader: 2, Epoch: 2, Zxid: z(1, 2)}, {Leader: 1, Epoch: 2, Zxid: z(1, 3)}, {Leader: 1, Epoch: 3}}
	for i, a := range worst {
		for j, b := range worst {
			require.Equal(t, i > j, a.Better(b), "%v better than %v", a, b)
		}
	}
}

func TestHistoryKeepsWhatIsNotAppliedAndForgetsTheRest(t *testing.T) {
	h := NewHistory(Position{}, Position{}, 0, EpochTable{Whole: true}, nil, 300)
	var prev Position
	for c := uint32(1); c <= 50; c++ {
		r := record(prev, z(1, c), "0123456789")
		require.NoError(t, h.Append(r))
		prev = h.End
	}
	require.Equal(t, Position{}, h.TailStart(), "nothing is applied, so nothing may be forgotten")
	h.Commit, h.Durable = z(1, 40), z(1, 30)
	recs := h.TakeApplicable()
	require.Len(t, recs, 30, "min(commit, durable)")
	require.Equal(t, z(1, 30), h.Applied)
	require.Nil(t, h.TakeApplicable())
	require.Greater(t, h.TailStart().Zxid, txn.Zxid(0))
	require.LessOrEqual(t, h.TailStart().Zxid, h.Applied)
	_, in := h.After(0, 1<<20, 100)
	require.False(t, in)
	recs, in = h.After(z(1, 48), 1, 100)
	require.True(t, in)
	require.Len(t, recs, 1, "at least one record, whatever the bytes say")
	recs, in = h.After(z(1, 50), 1, 100)
	require.True(t, in)
	require.Empty(t, recs)
	require.Error(t, h.Append(record(prev, z(1, 52), "gap")))
	view, _ := h.After(z(1, 44), 1<<20, 100)
	at, _ := h.ChainAt(z(1, 45))
	h.CutTo(Position{Zxid: z(1, 45), Chain: at})
	require.Equal(t, z(1, 45), h.End.Zxid)
	require.NoError(t, h.Append(record(h.End, z(2, 1), "other")))
	require.Equal(t, z(1, 46), view[1].Zxid, "a view handed out earlier does not change")
	require.Equal(t, []EpochEnd{{Epoch: 1, Last: z(1, 45), Chain: at}, {Epoch: 2, Last: z(2, 1), Chain: h.End.Chain}}, h.Table.Ends)
}

func TestALongCatchUpIsAppliedInPieces(t *testing.T) {
	h := NewHistory(Position{}, Position{}, 0, EpochTable{Whole: true}, nil, 1<<30)
	for c := uint32(1); c <= 2*applyMaxRecords+5; c++ {
		require.NoError(t, h.Append(record(h.End, z(1, c), "x")))
	}
	h.Durable, h.Commit = h.End.Zxid, h.End.Zxid
	var sizes []int
	for h.Applicable() {
		sizes = append(sizes, len(h.TakeApplicable()))
	}
	require.Equal(t, []int{applyMaxRecords, applyMaxRecords, 5}, sizes)
	require.Equal(t, h.End.Zxid, h.Applied)
	require.Nil(t, h.TakeApplicable())
}

func TestAnOldAppendThatCompletesAfterACutMakesNothingDurableThatIsNotThere(t *testing.T) {
	cfg := DefaultConfig()
	var fx Effects
	l := NewLocal(&cfg, HardState{}, NewHistory(Position{}, Position{}, 0, EpochTable{Whole: true}, nil, 1<<20), &fx)
	require.NoError(t, l.Append(0, records(Position{}, z(1, 1), z(1, 2), z(1, 3))))
	at, _ := l.Hist.ChainAt(z(1, 1))
	l.Truncate(0, Position{Zxid: z(1, 1), Chain: at})
	l.Done(DiskDone{ID: 1})
	require.Equal(t, z(1, 1), l.Hist.Durable)
	require.False(t, l.Idle())
	l.Done(DiskDone{ID: 2})
	require.True(t, l.Idle())
}

func TestByeSaysWhyOnce(t *testing.T) {
	require.Equal(t, "the leader is silent", Bye{Code: ByeRole, Text: "the leader is silent"}.Why())
	require.Equal(t, "slow (silent)", Bye{Code: ByeSlow, Text: "silent"}.Why())
	require.Equal(t, "goodbye", Bye{Code: ByeGoodbye}.Why())
}
