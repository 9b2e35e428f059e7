package difftest

import "slices"

// pair is one value of server A and the value of server B that stands in its place.
type pair struct{ a, b int64 }

// pairing learns which numbers of A correspond to which of B, one to one. Values up to 0 stand for themselves.
type pairing struct {
	ordered bool // the correspondence keeps the order
	forth   map[int64]int64
	back    map[int64]int64
	pairs   []pair // if ordered: ascending in a and, as they match, in b
}

func newPairing(ordered bool) *pairing {
	return &pairing{ordered: ordered, forth: map[int64]int64{}, back: map[int64]int64{}}
}

// match reports whether a and b correspond. Numbers that neither side has shown before correspond from now on, if the order
// of those known allows it.
func (p *pairing) match(a, b int64) bool {
	if a <= 0 || b <= 0 {
		return a == b
	}
	knownB, okA := p.forth[a]
	knownA, okB := p.back[b]
	if okA || okB {
		return okA && okB && knownB == b && knownA == a
	}
	if p.ordered {
		i, _ := slices.BinarySearchFunc(p.pairs, a, func(q pair, a int64) int {
			if q.a < a {
				return -1
			}
			return 1
		})
		if i > 0 && p.pairs[i-1].b > b || i < len(p.pairs) && p.pairs[i].b < b {
			return false
		}
		p.pairs = slices.Insert(p.pairs, i, pair{a, b})
	}
	p.forth[a], p.back[b] = b, a
	return true
}

// recent returns the pair that is n places before the highest one, the lowest if there are fewer, zeros if there is none.
func (p *pairing) recent(n int) pair {
	if len(p.pairs) == 0 {
		return pair{}
	}
	return p.pairs[max(0, len(p.pairs)-1-n)]
}
