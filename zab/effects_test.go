package zab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
)

func TestAppendsThatFollowEachOtherAreJoined(t *testing.T) {
	rec := func(n int) txn.Record { return txn.Record{Bytes: make([]byte, n)} }
	one := Append{ID: 1, Records: []txn.Record{rec(10)}, Commit: 5}
	two := Append{ID: 2, Records: []txn.Record{rec(20), rec(30)}, Commit: 4}
	three := Append{ID: 3, Records: []txn.Record{rec(40)}, Commit: 6}
	f := func(ops []Effect, maxBytes, maxRecords int, id uint64, records, bytes int, commit txn.Zxid, taken int) {
		t.Helper()
		a, size, n := MergeAppends(ops, maxBytes, maxRecords)
		require.Equal(t, id, a.ID)
		require.Len(t, a.Records, records)
		require.Equal(t, bytes, size)
		require.Equal(t, commit, a.Commit)
		require.Equal(t, taken, n)
	}
	all := []Effect{one, two, three}
	f(all, 100, 10, 3, 4, 100, 6, 3)
	f(all, 99, 10, 2, 3, 60, 5, 2)
	f(all, 100, 3, 2, 3, 60, 5, 2)
	f(all, 5, 1, 1, 1, 10, 5, 1) // one that is too large goes alone
	f([]Effect{one, Truncate{ID: 9}, two}, 100, 10, 1, 1, 10, 5, 1)
	require.Len(t, one.Records, 1)
	require.Equal(t, []Effect{one, two, three}, all)
}

func TestTheNewerConnectionReplaces(t *testing.T) {
	old := &Hello{Directory: 7, Boot: 3, ConnNo: 10}
	f := func(h Hello, want bool) {
		t.Helper()
		require.Equal(t, want, h.Replaces(old))
	}
	f(Hello{Directory: 7, Boot: 3, ConnNo: 11}, true)
	f(Hello{Directory: 7, Boot: 3, ConnNo: 10}, false)
	f(Hello{Directory: 7, Boot: 3, ConnNo: 9}, false)
	f(Hello{Directory: 7, Boot: 4, ConnNo: 1}, true)
	f(Hello{Directory: 7, Boot: 2, ConnNo: 99}, false)
	f(Hello{Directory: 8, Boot: 1, ConnNo: 1}, true)
}
