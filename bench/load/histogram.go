package load

import (
	"math/bits"
	"time"
)

const (
	subBits    = 7 // 128 steps per power of two: a value is known to 0.8 %
	subBuckets = 1 << subBits
	// buckets covers every non-negative int64: values below subBuckets exactly, then subBuckets steps for each further power of two.
	buckets = (64 - subBits) * subBuckets
)

// Histogram counts durations in log-linear buckets: each power of two is cut into 128 equal steps, so that any quantile is right to
// 0.8 % whatever the range. The zero value is empty and usable; it allocates at the first Record. One goroutine at a time uses it.
type Histogram struct {
	counts []uint32 // grown to what was seen
	n      int64
	sum    float64 // nanoseconds
	max    time.Duration
}

// bucketOf returns the bucket of v >= 0.
//
//	v < 128:                     v itself
//	2^(k+7) <= v < 2^(k+8):      (k+1)*128 + the seven bits behind the leading one
func bucketOf(v int64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - subBits - 1
	return shift*subBuckets + int(v>>shift)
}

// upper returns the largest value that falls into bucket b.
func upper(b int) int64 {
	if b < subBuckets {
		return int64(b)
	}
	shift := b/subBuckets - 1
	return (int64(b-shift*subBuckets)+1)<<shift - 1
}

// Record counts d; a negative one counts as 0.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	b := bucketOf(int64(d))
	if b >= len(h.counts) {
		h.grow(b)
	}
	h.counts[b]++
	h.n++
	h.sum += float64(d)
	h.max = max(h.max, d)
}

// grow makes room for bucket b and a power of two beyond, so that it happens a few times in a run.
func (h *Histogram) grow(b int) {
	larger := make([]uint32, min(buckets, (b/subBuckets+2)*subBuckets))
	copy(larger, h.counts)
	h.counts = larger
}

// Merge adds what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	if len(o.counts) > len(h.counts) {
		h.grow(len(o.counts) - 1)
	}
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count is the number of durations recorded.
func (h *Histogram) Count() int64 { return h.n }

// Max is the longest, exactly; 0 if there is none.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean is the arithmetic mean, 0 if there is none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.n))
}

// Quantile returns a duration d such that the share q of all durations, 0 <= q <= 1, was at most d. It is the upper end of a bucket,
// at most 0.8 % too long and never more than Max; 0 if there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	want := int64(q*float64(h.n) + 0.999999)
	want = min(max(want, 1), h.n)
	seen := int64(0)
	for b, c := range h.counts {
		if seen += int64(c); seen >= want {
			return min(time.Duration(upper(b)), h.max)
		}
	}
	return h.max
}
