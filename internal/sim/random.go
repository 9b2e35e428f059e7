package sim

import (
	"math/rand/v2"
	"time"
)

// source returns the source of random numbers of one component. Every component has its own, so that taking one fault out of a schedule
// does not change what the others draw.
func source(seed uint64, component string, n int) *rand.Rand {
	h := seed ^ 0x9e3779b97f4a7c15*uint64(n+1)
	for _, c := range []byte(component) {
		h = splitmix(h ^ uint64(c))
	}
	return rand.New(rand.NewPCG(splitmix(h), splitmix(h+1)))
}

// splitmix is the finaliser of SplitMix64.
func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// between draws a time in [lo, hi).
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}

// chance is true once in n times; n <= 0 is never.
func chance(r *rand.Rand, n int) bool { return n > 0 && r.IntN(n) == 0 }

// around draws a waiting time with the given mean, never more than four times that.
func around(r *rand.Rand, mean time.Duration) time.Duration {
	d := time.Duration(r.ExpFloat64() * float64(mean))
	return min(d, 4*mean)
}
