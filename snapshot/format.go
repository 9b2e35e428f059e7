package snapshot

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/txn"
)

const (
	magic       = "zkd.snap"
	version     = 1
	endMark     = "BenWasHere"
	blockMax    = 256 << 10
	headLen     = 8 + 4 + 8 + 4
	blockHead   = 4 + 4
	trailerLen  = 4 + 8 + 8 + 4 + len(endMark) + 4
	namePrefix  = "snap."
	nameLen     = len(namePrefix) + 16
	tempSuffix  = ".tmp"
	trailerMark = 0
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendHead(b []byte, zxid txn.Zxid) ([]byte, uint32) {
	at := len(b)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	sum := crc32.Checksum(b[at:], castagnoli)
	return binary.BigEndian.AppendUint32(b, sum), sum
}

func parseHead(b []byte, zxid txn.Zxid) (uint32, error) {
	if len(b) < headLen {
		return 0, ErrShort
	}
	if string(b[:8]) != magic {
		return 0, ErrHead
	}
	sum := binary.BigEndian.Uint32(b[20:])
	if crc32.Checksum(b[:20], castagnoli) != sum {
		return 0, ErrChecksum
	}
	if binary.BigEndian.Uint32(b[8:]) != version {
		return 0, ErrVersion
	}
	if binary.BigEndian.Uint64(b[12:]) != uint64(zxid) {
		return 0, ErrHead
	}
	return sum, nil
}

// blockSum is the sum of block n: seed is the head's.
func blockSum(seed uint32, n uint64, data []byte) uint32 {
	var place [12]byte
	binary.BigEndian.PutUint64(place[:], n)
	binary.BigEndian.PutUint32(place[8:], uint32(len(data)))
	return crc32.Update(crc32.Update(seed, castagnoli, place[:]), castagnoli, data)
}

// totals is what the trailer says.
type totals struct {
	blocks uint64
	bytes  uint64
	sum    uint32
}

func (t *totals) add(data []byte) {
	t.blocks++
	t.bytes += uint64(len(data))
	t.sum = crc32.Update(t.sum, castagnoli, data)
}

func appendTrailer(b []byte, seed uint32, t totals) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, trailerMark)
	b = binary.BigEndian.AppendUint64(b, t.blocks)
	b = binary.BigEndian.AppendUint64(b, t.bytes)
	b = binary.BigEndian.AppendUint32(b, t.sum)
	b = append(b, endMark...)
	return binary.BigEndian.AppendUint32(b, crc32.Update(seed, castagnoli, b[at:]))
}

// checkTrailer compares the trailer in b with what was read.
func checkTrailer(b []byte, seed uint32, t totals) error {
	if string(b) == string(appendTrailer(nil, seed, t)) {
		return nil
	}
	end := len(b) - 4
	if crc32.Update(seed, castagnoli, b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return ErrChecksum
	}
	return ErrTrailer
}

func fileName(zxid txn.Zxid) string {
	s := strconv.FormatUint(uint64(zxid), 16)
	return namePrefix + strings.Repeat("0", 16-len(s)) + s
}

var errName = errors.New("not a snapshot's name")

// parseName takes a name apart. temp is true for files that were never finished.
func parseName(name string) (zxid txn.Zxid, temp bool, err error) {
	if len(name) < nameLen || name[:len(namePrefix)] != namePrefix {
		return 0, false, errName
	}
	n, err := strconv.ParseUint(name[len(namePrefix):nameLen], 16, 64)
	if err != nil || fileName(txn.Zxid(n)) != name[:nameLen] {
		return 0, false, errName
	}
	if len(name) == nameLen {
		return txn.Zxid(n), false, nil
	}
	num, ok := strings.CutSuffix(name[nameLen:], tempSuffix)
	if !ok || len(num) < 2 || num[0] != '.' {
		return 0, false, errName
	}
	if _, err := strconv.ParseUint(num[1:], 10, 64); err != nil {
		return 0, false, errName
	}
	return txn.Zxid(n), true, nil
}
