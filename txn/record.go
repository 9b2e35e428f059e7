package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// RecordOverhead is how many bytes a record adds to its payload.
const RecordOverhead = 4 + 4 + 8 + 8 + 8

// Errors of ParseRecord.
var (
	ErrShort    = errors.New("record is cut short")
	ErrChecksum = errors.New("record checksum does not match")
	ErrOrder    = errors.New("zxid does not follow its predecessor")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is one numbered transaction in bytes: what the log stores and peers send. Bytes is never changed once sealed and may
// be shared by everyone.
type Record struct {
	Zxid, Prev Zxid
	Chain      uint64 // chain hash including this record
	Bytes      []byte // the whole record, length prefix included
	txn        *Txn   // set where it is known, saves decoding
	sum        uint32 // of the payload
	summed     bool   // sum is known
}

// Payload is the encoded transaction inside the record.
func (r *Record) Payload() []byte { return r.Bytes[RecordOverhead:] }

// Txn returns the transaction, decoding it at the first call on a record that came from bytes. The result is shared: do not
// change it. A record whose checksum holds and whose payload does not decode was written by a newer version or by a fault.
func (r *Record) Txn() (*Txn, error) {
	if r.txn == nil {
		t, err := decodePayload(r.Payload(), nil)
		if err != nil {
			return nil, fmt.Errorf("record %v: %w", r.Zxid, err)
		}
		r.txn = t
	}
	return r.txn, nil
}

// Forget drops the decoded form, if there is one: a record that is kept for long keeps its bytes alone.
func (r *Record) Forget() { r.txn = nil }

// Draft is an encoded transaction that has no number yet, or a refusal (Refused != 0): such a request is certainly not in the
// history and gets no zxid.
type Draft struct {
	Refused Refusal
	Request *Request // what it answers
	txn     *Txn
	buf     []byte // room for the record's head, then the payload
}

// Refusal says why a request was not entered into the history.
type Refusal uint8

// Reasons for refusing a request before it has a zxid. They are codes on the peers' wire.
const (
	NotRefused          Refusal = iota
	RefusedNotLeader            // whoever got it does not lead
	RefusedTransferring         // the leader is handing over
	RefusedPendingFull          // the bound on outstanding proposals is reached
	RefusedSessionMoved         // the session belongs to another server's connection now
	RefusedDiskFull             // no space for another segment
	RefusedTooLarge             // the txn would be larger than MaxTxn
	RefusedMalformed            // the request's bytes make no request
)

var refusalNames = [...]string{"none", "not leader", "leader transferring", "pending full", "session moved", "disk full", "too large", "malformed"}

func (r Refusal) String() string {
	if int(r) < len(refusalNames) {
		return refusalNames[r]
	}
	return fmt.Sprintf("refusal(%d)", uint8(r))
}

// NewDraft encodes t for request req.
func NewDraft(t *Txn, req *Request) Draft {
	buf := make([]byte, RecordOverhead, RecordOverhead+64+len(req.Payload))
	return Draft{Request: req, txn: t, buf: appendPayload(buf, t)}
}

// RefuseDraft answers req with a refusal.
func RefuseDraft(req *Request, why Refusal) Draft { return Draft{Request: req, Refused: why} }

// Size is the length of the record that Seal will make.
func (d *Draft) Size() int { return len(d.buf) }

// Seal gives the transaction its place in the history. It may be called once.
func (d *Draft) Seal(zxid, prev Zxid, prevChain uint64) Record {
	b := d.buf
	d.buf = nil
	sum := crc32.Checksum(b[RecordOverhead:], castagnoli)
	chain := Chain(prevChain, zxid, sum)
	binary.BigEndian.PutUint32(b[0:], uint32(len(b)-4))
	binary.BigEndian.PutUint64(b[8:], uint64(zxid))
	binary.BigEndian.PutUint64(b[16:], uint64(prev))
	binary.BigEndian.PutUint64(b[24:], chain)
	binary.BigEndian.PutUint32(b[4:], crc32.Update(sum, castagnoli, b[8:RecordOverhead]))
	return Record{Zxid: zxid, Prev: prev, Chain: chain, Bytes: b, txn: d.txn, sum: sum, summed: true}
}

// Chain mixes one record into the running hash over a history. The mixing is the finaliser of MurmurHash3, applied to each
// input in turn; the chain of the empty history is 0.
func Chain(prev uint64, zxid Zxid, payloadSum uint32) uint64 {
	h := mix(prev ^ uint64(zxid))
	return mix(h ^ uint64(payloadSum)<<16 ^ 0x9e3779b97f4a7c15)
}

func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// ParseRecord takes the first record off b and returns the rest. The record's Bytes alias b. It checks length, checksum and
// that zxid may follow prev, not the chain (that needs the predecessor: Record.Links). It returns ErrShort, ErrChecksum or ErrOrder.
func ParseRecord(b []byte) (r Record, rest []byte, err error) {
	if len(b) < RecordOverhead {
		return r, b, ErrShort
	}
	n := uint64(binary.BigEndian.Uint32(b)) + 4
	if n < RecordOverhead || n > uint64(len(b)) {
		return r, b, ErrShort
	}
	body := b[:n:n]
	sum := crc32.Checksum(body[RecordOverhead:], castagnoli)
	if crc32.Update(sum, castagnoli, body[8:RecordOverhead]) != binary.BigEndian.Uint32(body[4:]) {
		return r, b, ErrChecksum
	}
	r = Record{
		Zxid:  Zxid(binary.BigEndian.Uint64(body[8:])),
		Prev:  Zxid(binary.BigEndian.Uint64(body[16:])),
		Chain: binary.BigEndian.Uint64(body[24:]),
		Bytes: body,
		sum:   sum, summed: true,
	}
	if !r.Zxid.Follows(r.Prev) {
		return Record{}, b, fmt.Errorf("%w: %v after %v", ErrOrder, r.Zxid, r.Prev)
	}
	return r, b[n:], nil
}

// CountRecords returns how many records b seems to hold, by their lengths alone; ParseRecord tells whether it does. It is no more than
// len(b)/RecordOverhead.
func CountRecords(b []byte) (n int) {
	for len(b) >= RecordOverhead {
		size := uint64(binary.BigEndian.Uint32(b)) + 4
		if size < RecordOverhead || size > uint64(len(b)) {
			break
		}
		b = b[size:]
		n++
	}
	return n
}

// Links reports whether r stands directly behind a history that ends at zxid end with the given chain.
func (r *Record) Links(end Zxid, chain uint64) bool {
	sum := r.sum
	if !r.summed {
		sum = crc32.Checksum(r.Payload(), castagnoli)
	}
	return r.Prev == end && r.Zxid.Follows(end) && r.Chain == Chain(chain, r.Zxid, sum)
}

// Type tells what the record does without decoding it; TypeInvalid for a payload that is none.
func (r *Record) Type() Type {
	p := r.Payload()
	if len(p) < 2 || p[0] != wireFields || p[1] == 0 || Type(p[1]) >= typeEnd {
		return TypeInvalid
	}
	return Type(p[1])
}
