package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryBucketEndsWhereTheNextBegins(t *testing.T) {
	for b := range buckets {
		end := upper(b)
		require.Equal(t, b, bucketOf(end), "upper end of bucket %d", b)
		if end == math.MaxInt64 {
			require.Equal(t, buckets-1, b)
			continue
		}
		require.Equal(t, b+1, bucketOf(end+1), "value behind bucket %d", b)
	}
}

func TestQuantilesAreRightToABucket(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(math.Exp(rnd.Float64() * 25))
		all = append(all, d)
		h.Record(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := all[min(max(int(math.Ceil(q*float64(len(all))))-1, 0), len(all)-1)]
		got := h.Quantile(q)
		require.GreaterOrEqual(t, got, exact, "q=%v", q)
		require.LessOrEqual(t, float64(got), float64(exact)*(1+1.0/subBuckets)+1, "q=%v", q)
	}
	require.Equal(t, all[len(all)-1], h.Max())
	require.Equal(t, int64(20_000), h.Count())
}

func TestMergeIsAsIfRecordedInOne(t *testing.T) {
	var a, b, both Histogram
	for i := range 1000 {
		d := time.Duration(i * i * i)
		both.Record(d)
		if i%3 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
	}
	var sum Histogram
	sum.Merge(&a)
	sum.Merge(&b)
	require.Equal(t, both.Count(), sum.Count())
	require.Equal(t, both.Mean(), sum.Mean())
	for _, q := range []float64{0.1, 0.5, 0.99, 1} {
		require.Equal(t, both.Quantile(q), sum.Quantile(q))
	}
}

func TestAnEmptyHistogramSaysNothing(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	require.Zero(t, h.Mean())
	require.Zero(t, h.Max())
	h.Record(-time.Second)
	require.Zero(t, h.Max(), "time does not run backwards")
	require.Equal(t, int64(1), h.Count())
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	var h Histogram
	h.Record(time.Hour)
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Record(time.Millisecond) }))
}
