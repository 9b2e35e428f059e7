package statemachine

import "github.com/zkd-project/zkd/txn"

// marksKept is how many of the last applied transactions have their digest remembered; a power of two.
const marksKept = 16384

// marks is a ring of the digests behind the last transactions, ascending by zxid. Servers compare theirs at the same zxid (I-17), and they
// are never at the same one at the same moment. Writing one costs as much as two words.
type marks struct {
	ring []mark // grows up to marksKept
	n    int    // written so far
}

type mark struct {
	zxid   txn.Zxid
	digest uint64
}

func (m *marks) add(zxid txn.Zxid, digest uint64) {
	if len(m.ring) < marksKept {
		m.ring = append(m.ring, mark{zxid, digest})
	} else {
		m.ring[m.n%marksKept] = mark{zxid, digest}
	}
	m.n++
}

// last is the newest zxid that is remembered, 0 if none is.
func (m *marks) last() txn.Zxid {
	if m.n == 0 {
		return 0
	}
	return m.ring[(m.n-1)%marksKept].zxid
}

// at returns the digest behind zxid, if it is remembered.
func (m *marks) at(zxid txn.Zxid) (digest uint64, ok bool) {
	lo, hi := max(0, m.n-marksKept), m.n
	for lo < hi {
		mid := lo + (hi-lo)/2
		if m.ring[mid%marksKept].zxid < zxid {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == m.n || m.ring[lo%marksKept].zxid != zxid {
		return 0, false
	}
	return m.ring[lo%marksKept].digest, true
}
