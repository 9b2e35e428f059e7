package zab

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

func plainPacket(rng *rand.Rand) Packet {
	bits := func() uint64 { return rng.Uint64() >> rng.Intn(64) }
	switch rng.Intn(3) {
	case 0:
		return &Ack{Kind: AckKind(bits()), Epoch: txn.Epoch(bits()), Durable: txn.Zxid(bits()), Chain: bits(), Votable: rng.Intn(2) == 0}
	case 1:
		return &Commit{Commit: txn.Zxid(bits())}
	}
	p := &Requests{}
	for range rng.Intn(20) {
		q := txn.Request{Session: txn.SessionID(bits()), Cxid: int32(bits()), Op: proto.Op(bits()), Origin: txn.ServerID(bits()), Conn: bits()}
		if rng.Intn(4) > 0 {
			q.Payload = make([]byte, rng.Intn(300))
		}
		for range rng.Intn(3) {
			q.Auth = append(q.Auth, proto.ID{Scheme: "digest", ID: "a:b", SchemeNull: rng.Intn(2) == 0, IDNull: rng.Intn(2) == 0})
		}
		p.Requests = append(p.Requests, q)
	}
	return p
}

// The plain forms are the library's, byte for byte, and are read as the library reads them.
func TestPlainFormsAreTheLibrarys(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 3000 {
		p := plainPacket(rng)
		b, ok := appendPlain(nil, p)
		require.True(t, ok)
		require.Equal(t, msgpack.Append(nil, p), b)
		back, ok := decodePlain(p.Type(), b)
		require.True(t, ok)
		require.Equal(t, p, back)
	}
}

// What is read without the library is what the library reads.
func FuzzPlainAgainstLibrary(f *testing.F) {
	for _, p := range packets() {
		f.Add(byte(p.Type()), appendBody(nil, p))
	}
	f.Fuzz(func(t *testing.T, typ byte, body []byte) {
		got, ok := decodePlain(PacketType(typ), body)
		if !ok {
			return
		}
		want := newPacket(PacketType(typ))
		require.NoError(t, msgpack.Decode(body, want))
		require.Equal(t, want, got)
	})
}

func TestWhatIsAppliedKeepsItsBytesAlone(t *testing.T) {
	h := NewHistory(Position{}, Position{}, 0, EpochTable{}, nil, 1<<20)
	for _, r := range records(Position{}, z(1, 1), z(1, 2)) {
		require.NoError(t, h.Append(r))
	}
	h.Commit, h.Durable = z(1, 2), z(1, 2)
	for i, r := range h.TakeApplicable() {
		a, err := r.Txn()
		require.NoError(t, err)
		kept := h.tail[i]
		b, err := kept.Txn()
		require.NoError(t, err)
		require.Equal(t, a, b)
		require.NotSame(t, a, b)
	}
}
