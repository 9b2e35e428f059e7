package txnlog_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
)

// noting notes which files are prefetched.
type noting struct {
	env.Disk
	names *[]string
}

type notingFile struct {
	env.File
	note func()
}

func (f notingFile) Prefetch() { f.note() }

func (d noting) Open(path string) (env.File, error) {
	f, err := d.Disk.Open(path)
	return notingFile{f, func() { *d.names = append(*d.names, filepath.Base(path)) }}, err
}

// What is prefetched is the segment that the first record behind the base is in, and all behind it.
func TestPrefetch(t *testing.T) {
	d, h := newDisk(), &history{}
	l, _, _ := mustOpen(t, d, txnlog.Start{Generation: 1})
	for range 20 {
		require.NoError(t, l.Append(h.make(1, 5000, 1), 0))
	}
	segments := l.Segments()
	require.Greater(t, len(segments), 3)
	require.NoError(t, l.Close())
	var firsts []txn.Zxid
	for _, s := range segments {
		first, err := strconv.ParseUint(s[strings.LastIndexByte(s, '.')+1:], 16, 64)
		require.NoError(t, err)
		firsts = append(firsts, txn.Zxid(first))
	}
	fetched := func(generation uint64, base txn.Zxid) (names []string) {
		txnlog.Prefetch(noting{d, &names}, dir, generation, base)
		return names
	}
	all := fetched(1, 0)
	require.Len(t, all, len(segments))
	require.Equal(t, all, fetched(1, firsts[1]-2))
	require.Equal(t, all[1:], fetched(1, firsts[1]-1))
	require.Equal(t, all[1:], fetched(1, firsts[1]))
	require.Equal(t, all[len(all)-1:], fetched(1, firsts[len(firsts)-1]+1))
	require.Empty(t, fetched(2, 0))
	txnlog.Prefetch(noting{d, new([]string)}, "/nowhere", 1, 0)
}
