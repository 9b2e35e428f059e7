package datatree

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMomentKeepsMilliseconds(t *testing.T) {
	for in, want := range map[int64]int64{
		0: 0, 1: 1, -1: -1, 1_795_000_000_123: 1_795_000_000_123, -62_135_596_800_000: -62_135_596_800_000,
		0xffff: 0xffff, 0x10000: 0x10000, 0xffff_ffff: 0xffff_ffff, -0x1_0000_0000: -0x1_0000_0000,
		maxMillis: maxMillis, maxMillis + 1: maxMillis, math.MaxInt64: maxMillis,
		-maxMillis - 1: -maxMillis - 1, -maxMillis - 2: -maxMillis - 1, math.MinInt64: -maxMillis - 1,
	} {
		require.Equal(t, want, momentOf(in).millis(), "%d", in)
	}
}
