package txn

import "fmt"

// Decoder decodes records into memory that it uses again: for somebody who decodes many and is soon done with each. The zero Decoder, and nil,
// use new memory for each. A create that a Decoder has decoded has a payload to give away (Create.TakePayload).
type Decoder struct {
	creates []createTxn
	sets    []setDataTxn
}

// NewDecoder returns one with room for n records of each of the most frequent kinds. Others, and more, get new memory.
func NewDecoder(n int) *Decoder {
	return &Decoder{creates: make([]createTxn, 0, n), sets: make([]setDataTxn, 0, n)}
}

// Decode is the record's Txn. The result is good until Reset.
func (d *Decoder) Decode(r *Record) error {
	if r.txn != nil {
		return nil
	}
	t, err := decodePayload(r.Payload(), d)
	if err != nil {
		return fmt.Errorf("record %v: %w", r.Zxid, err)
	}
	r.txn = t
	return nil
}

// Reset takes back the memory of everything that was decoded.
func (d *Decoder) Reset() {
	clear(d.creates)
	clear(d.sets)
	d.creates, d.sets = d.creates[:0], d.sets[:0]
}

func (d *Decoder) create() *createTxn {
	if d == nil || len(d.creates) == cap(d.creates) {
		return &createTxn{}
	}
	d.creates = d.creates[:len(d.creates)+1]
	return &d.creates[len(d.creates)-1]
}

func (d *Decoder) setData() *setDataTxn {
	if d == nil || len(d.sets) == cap(d.sets) {
		return &setDataTxn{}
	}
	d.sets = d.sets[:len(d.sets)+1]
	return &d.sets[len(d.sets)-1]
}
