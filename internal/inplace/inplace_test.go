package inplace

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOverwrite(t *testing.T) {
	s := strings.Repeat("x", 10)
	head, copied := s[:3], strings.Clone(s)
	Overwrite(s, 3, []byte("1234567"))
	require.Equal(t, "xxx1234567", s)
	require.Equal(t, "xxx", head)
	require.Equal(t, "xxxxxxxxxx", copied)
	Overwrite(s, 10, nil)
	require.Panics(t, func() { Overwrite(s, 4, []byte("1234567")) })
	require.Panics(t, func() { Overwrite(s, -1, []byte("1")) })
	require.Equal(t, "xxx1234567", s)
}
