package txnlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/txn"
)

const (
	sectorBytes        = 4096 // the unit that a later write never shares with an earlier batch
	formatVersion      = 1
	segmentMagic       = "zkdlog01"
	batchMagic         = "zkdB"
	segmentHeaderBytes = 96
	firstPartBytes     = 84 // of the segment header: what it held before it knew the length of its file
	batchHeaderBytes   = 88
	trailerBytes       = 4
	tmpSuffix          = ".tmp"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind tells the batches apart.
type Kind uint32

// The kinds of batches.
const (
	KindRecords Kind = 1
	KindConfirm Kind = 2
	KindSeal    Kind = 3
)

func (k Kind) String() string {
	switch k {
	case KindRecords:
		return "records"
	case KindConfirm:
		return "confirm"
	case KindSeal:
		return "seal"
	}
	return "kind(" + strconv.FormatUint(uint64(k), 10) + ")"
}

// SegmentHeader is what a segment says about itself.
type SegmentHeader struct {
	ClusterID  uint64 // 0: made before the cluster had one
	Generation uint64
	Life       uint64
	First      txn.Zxid // in the name; no record in it is smaller
	Prev       txn.Zxid // the position before its first record
	Chain      uint64   // at Prev
	FirstSeq   uint64   // of its first batch
	Before     txn.Zxid // First of the segment before it, purged or not; 0: it starts the log
	PrevCRC    uint32   // of the batch before its first one: the seal of the segment before it
	Size       int64    // length of the file as it was made, which may only grow; 0: not known
}

// BatchHeader is what a batch says about itself.
type BatchHeader struct {
	Kind       Kind
	Generation uint64
	Seq        uint64
	Offset     int64 // of the batch in its file
	First      txn.Zxid
	Last       txn.Zxid
	Prev       txn.Zxid
	Chain      uint64   // at Last
	Commit     txn.Zxid // what was known to be committed when it was written: a hint
	Count      uint32
	BodyBytes  uint32
	PrevCRC    uint32 // of the batch before
	crc        uint32 // of this header
}

// size is the batch's length in the file, filled up to whole sectors.
func (h *BatchHeader) size() int64 {
	return roundUp(batchHeaderBytes + int64(h.BodyBytes) + trailerBytes)
}

// end is the offset behind the batch.
func (h *BatchHeader) end() int64 { return h.Offset + h.size() }

func roundUp(n int64) int64 { return (n + sectorBytes - 1) / sectorBytes * sectorBytes }

// appendTo adds the header's whole sector.
func (h *SegmentHeader) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.BigEndian.AppendUint32(dst, formatVersion)
	for _, v := range [...]uint64{h.ClusterID, h.Generation, h.Life, uint64(h.First), uint64(h.Prev), h.Chain, h.FirstSeq, uint64(h.Before)} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	dst = binary.BigEndian.AppendUint32(dst, h.PrevCRC)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Size))
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	return append(dst, make([]byte, sectorBytes-segmentHeaderBytes)...)
}

// parseSegmentHeader returns errHeader for bytes that are none, ErrVersion for those of another format.
func parseSegmentHeader(b []byte) (SegmentHeader, error) {
	if len(b) < segmentHeaderBytes || string(b[:8]) != segmentMagic {
		return SegmentHeader{}, errHeader
	}
	if v := binary.BigEndian.Uint32(b[8:]); v > formatVersion && checksumFits(b[:firstPartBytes]) {
		return SegmentHeader{}, fmt.Errorf("%w: version %d", ErrVersion, v)
	} else if v != formatVersion || !checksumFits(b[:firstPartBytes]) {
		return SegmentHeader{}, errHeader
	}
	second := b[firstPartBytes:segmentHeaderBytes]
	if !checksumFits(b[:segmentHeaderBytes]) && [segmentHeaderBytes - firstPartBytes]byte(second) != [segmentHeaderBytes - firstPartBytes]byte{} {
		return SegmentHeader{}, errHeader
	}
	u := func(i int) uint64 { return binary.BigEndian.Uint64(b[12+8*i:]) }
	return SegmentHeader{
		ClusterID: u(0), Generation: u(1), Life: u(2), First: txn.Zxid(u(3)), Prev: txn.Zxid(u(4)), Chain: u(5), FirstSeq: u(6), Before: txn.Zxid(u(7)),
		PrevCRC: binary.BigEndian.Uint32(b[76:]), Size: int64(binary.BigEndian.Uint64(second)),
	}, nil
}

// checksumFits reports whether the last four bytes are the checksum of those before.
func checksumFits(b []byte) bool {
	n := len(b) - 4
	return crc32.Checksum(b[:n], castagnoli) == binary.BigEndian.Uint32(b[n:])
}

// encodeBatch writes a batch into buf[:0], filled up to whole sectors, and returns it with the crc of the batch. It sets
// BodyBytes and Count of h. It allocates only where buf is too small.
func encodeBatch(buf []byte, h *BatchHeader, recs []txn.Record) ([]byte, uint32) {
	body := 0
	for i := range recs {
		body += len(recs[i].Bytes)
	}
	h.BodyBytes, h.Count = uint32(body), uint32(len(recs))
	buf = slices.Grow(buf[:0], int(h.size()))
	buf = append(buf, batchMagic...)
	buf = binary.BigEndian.AppendUint32(buf, uint32(h.Kind))
	for _, v := range [...]uint64{h.Generation, h.Seq, uint64(h.Offset), uint64(h.First), uint64(h.Last), uint64(h.Prev), h.Chain, uint64(h.Commit)} {
		buf = binary.BigEndian.AppendUint64(buf, v)
	}
	buf = binary.BigEndian.AppendUint32(buf, h.Count)
	buf = binary.BigEndian.AppendUint32(buf, h.BodyBytes)
	buf = binary.BigEndian.AppendUint32(buf, h.PrevCRC)
	h.crc = crc32.Checksum(buf, castagnoli)
	buf = binary.BigEndian.AppendUint32(buf, h.crc)
	for i := range recs {
		buf = append(buf, recs[i].Bytes...)
	}
	crc := crc32.Update(h.crc, castagnoli, buf[batchHeaderBytes:])
	buf = binary.BigEndian.AppendUint32(buf, crc)
	filled := len(buf)
	buf = buf[:h.size()]
	clear(buf[filled:])
	return buf, crc
}

// parseBatchHeader reports whether b starts with a batch header of the generation that says it stands at off.
func parseBatchHeader(b []byte, generation uint64, off int64) (BatchHeader, bool) {
	if len(b) < batchHeaderBytes || string(b[:4]) != batchMagic || !checksumFits(b[:batchHeaderBytes]) {
		return BatchHeader{}, false
	}
	u := func(i int) uint64 { return binary.BigEndian.Uint64(b[8+8*i:]) }
	h := BatchHeader{
		Kind: Kind(binary.BigEndian.Uint32(b[4:])), Generation: u(0), Seq: u(1), Offset: int64(u(2)),
		First: txn.Zxid(u(3)), Last: txn.Zxid(u(4)), Prev: txn.Zxid(u(5)), Chain: u(6), Commit: txn.Zxid(u(7)),
		Count: binary.BigEndian.Uint32(b[72:]), BodyBytes: binary.BigEndian.Uint32(b[76:]),
		PrevCRC: binary.BigEndian.Uint32(b[80:]), crc: binary.BigEndian.Uint32(b[84:]),
	}
	return h, h.Generation == generation && h.Offset == off && h.Kind >= KindRecords && h.Kind <= KindSeal
}

// parseRecords takes a batch's body apart and checks every record against its predecessor and the header. The records' Bytes
// alias body. into is reused.
func parseRecords(into []txn.Record, h *BatchHeader, prevChain uint64, body []byte) ([]txn.Record, error) {
	end, chain := h.Prev, prevChain
	into = into[:0]
	for len(body) > 0 {
		rec, rest, err := txn.ParseRecord(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRecords, err)
		}
		if !rec.Links(end, chain) {
			return nil, fmt.Errorf("%w: %v does not follow %v", errRecords, rec.Zxid, end)
		}
		end, chain, body = rec.Zxid, rec.Chain, rest
		into = append(into, rec)
	}
	first := h.First
	if h.Kind == KindRecords && len(into) > 0 {
		first = into[0].Zxid
	}
	if end != h.Last || chain != h.Chain || first != h.First || uint32(len(into)) != h.Count || (h.Kind == KindRecords) != (h.Count > 0) {
		return nil, fmt.Errorf("%w: header and records disagree", errRecords)
	}
	return into, nil
}

func segmentName(generation uint64, first txn.Zxid) string {
	return fmt.Sprintf("log.%016x.%016x", generation, uint64(first))
}

// parseSegmentName reports whether name is one that this package gives. Anything else in the folder is never touched.
func parseSegmentName(name string) (generation uint64, first txn.Zxid, tmp, ok bool) {
	base, tmp := strings.CutSuffix(name, tmpSuffix)
	parts := strings.Split(base, ".")
	if len(parts) != 3 || parts[0] != "log" {
		return 0, 0, false, false
	}
	g, errG := strconv.ParseUint(parts[1], 16, 64)
	z, errZ := strconv.ParseUint(parts[2], 16, 64)
	if errG != nil || errZ != nil || base != segmentName(g, txn.Zxid(z)) {
		return 0, 0, false, false
	}
	return g, txn.Zxid(z), tmp, true
}
