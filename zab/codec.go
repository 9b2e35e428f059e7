package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/zkd-project/zkd/internal/msgpack"
	"github.com/zkd-project/zkd/txn"
)

// HeaderBytes is the length of a frame's fixed head, from the length field to the epoch.
const HeaderBytes = 4 + 4 + 1 + 1 + 2 + 4

// Errors of the codec. Each costs the connection it came from.
var (
	ErrFrameSize = errors.New("frame length out of bounds")
	ErrFrameSum  = errors.New("frame checksum does not match")
	ErrFrameType = errors.New("unknown frame type")
	ErrVersion   = errors.New("unknown protocol version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is a frame's fixed head.
type Header struct {
	Length  int // bytes of the body
	Sum     uint32
	Type    PacketType
	Flags   uint8
	Version uint16
	Epoch   txn.Epoch
}

// AppendFrame writes p as a frame of the given epoch behind dst.
func AppendFrame(dst []byte, epoch txn.Epoch, p Packet) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(p.Type()), 0)
	dst = binary.BigEndian.AppendUint16(dst, ProtocolVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(epoch))
	dst = appendBody(dst, p)
	f := dst[at:]
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	binary.BigEndian.PutUint32(f[4:], crc32.Checksum(f[8:], castagnoli))
	return dst
}

func appendBody(dst []byte, p Packet) []byte {
	switch p := p.(type) {
	case *Propose:
		return appendRecords(dst, p.Commit, p.Records)
	case *Inform:
		return appendRecords(dst, p.Commit, p.Records)
	}
	if b, ok := appendPlain(dst, p); ok {
		return b
	}
	return msgpack.Append(dst, p)
}

func appendRecords(dst []byte, commit txn.Zxid, recs []txn.Record) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(commit))
	for i := range recs {
		dst = append(dst, recs[i].Bytes...)
	}
	return dst
}

// ParseHeader reads a frame's head; maxFrame bounds the whole frame without its length field, before anything is allocated for it.
func ParseHeader(b [HeaderBytes]byte, maxFrame int) (Header, error) {
	n := int64(binary.BigEndian.Uint32(b[:]))
	if n < HeaderBytes-4 || n > int64(maxFrame) {
		return Header{}, fmt.Errorf("%w: %d bytes, at most %d", ErrFrameSize, n, maxFrame)
	}
	h := Header{
		Length:  int(n) - (HeaderBytes - 4),
		Sum:     binary.BigEndian.Uint32(b[4:]),
		Type:    PacketType(b[8]),
		Flags:   b[9],
		Version: binary.BigEndian.Uint16(b[10:]),
		Epoch:   txn.Epoch(binary.BigEndian.Uint32(b[12:])),
	}
	if h.Type == 0 || h.Type >= packetTypeEnd {
		return h, fmt.Errorf("%w: %d", ErrFrameType, h.Type)
	}
	if h.Version != ProtocolVersion {
		return h, fmt.Errorf("%w: %d, this is %d", ErrVersion, h.Version, ProtocolVersion)
	}
	return h, nil
}

// Decode checks and reads a frame's body. raw is the head's bytes; body is kept: records alias it.
func Decode(raw [HeaderBytes]byte, h Header, body []byte) (Packet, error) {
	if checksum(raw, body) != h.Sum {
		return nil, ErrFrameSum
	}
	switch h.Type {
	case TypePropose:
		commit, recs, err := parseRecords(body)
		return &Propose{Commit: commit, Records: recs}, err
	case TypeInform:
		commit, recs, err := parseRecords(body)
		return &Inform{Commit: commit, Records: recs}, err
	}
	if p, ok := decodePlain(h.Type, body); ok {
		return p, nil
	}
	p := newPacket(h.Type)
	if p == nil {
		return nil, fmt.Errorf("%w: %d", ErrFrameType, h.Type)
	}
	if err := msgpack.Decode(body, p); err != nil {
		return nil, fmt.Errorf("frame type %d: %w", h.Type, err)
	}
	if p.Type() != h.Type {
		return nil, fmt.Errorf("%w: body says %d, header %d", ErrFrameType, p.Type(), h.Type)
	}
	return p, nil
}

func checksum(raw [HeaderBytes]byte, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(raw[8:], castagnoli), castagnoli, body)
}

func parseRecords(b []byte) (txn.Zxid, []txn.Record, error) {
	if len(b) < 8 {
		return 0, nil, txn.ErrShort
	}
	commit := txn.Zxid(binary.BigEndian.Uint64(b))
	b = b[8:]
	var recs []txn.Record
	if n := txn.CountRecords(b); n > 0 {
		recs = make([]txn.Record, 0, n)
	}
	for len(b) > 0 {
		r, rest, err := txn.ParseRecord(b)
		if err != nil {
			return 0, nil, err
		}
		recs, b = append(recs, r), rest
	}
	return commit, recs, nil
}

func newPacket(t PacketType) Packet {
	switch t {
	case TypeHello:
		return &Hello{}
	case TypeNotify:
		return &Notify{}
	case TypeFollowerInfo, TypeObserverInfo:
		return &FollowerInfo{}
	case TypeLeaderInfo:
		return &LeaderInfo{}
	case TypeAckEpoch:
		return &AckEpoch{}
	case TypeDiff:
		return &Diff{}
	case TypeTrunc:
		return &Trunc{}
	case TypeSnapBegin:
		return &SnapBegin{}
	case TypeSnapChunk:
		return &SnapChunk{}
	case TypeSnapEnd:
		return &SnapEnd{}
	case TypeSyncReject:
		return &SyncReject{}
	case TypeNewLeader:
		return &NewLeader{}
	case TypeAck:
		return &Ack{}
	case TypeUpToDate:
		return &UpToDate{}
	case TypeBye:
		return &Bye{}
	case TypeCommit:
		return &Commit{}
	case TypePing:
		return &Ping{}
	case TypePong:
		return &Pong{}
	case TypeRequests:
		return &Requests{}
	case TypeRefused:
		return &Refused{}
	case TypeSync:
		return &Sync{}
	case TypeSynced:
		return &Synced{}
	case TypeRevalidate:
		return &Revalidate{}
	case TypeRevalidated:
		return &Revalidated{}
	case TypeHandover:
		return &Handover{}
	}
	return nil
}
