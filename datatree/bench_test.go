package datatree

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// A path of 33 bytes below one of a thousand parents, as in "/parent-0123/node-0000000000-abcde".
func benchPath(i int) string { return fmt.Sprintf("/parent-%04d/node-%09d-abcde", i%1000, i) }

func fill(tb testing.TB, t *Tree, count int) {
	tb.Helper()
	data := make([]byte, 100)
	acl := proto.OpenACL()
	zxid := txn.Zxid(1)
	add := func(path string) {
		zxid++
		if _, _, err := t.Create(zxid, 1, &txn.Create{Path: path, Data: data, ACL: acl, ParentCversion: int32(zxid)}, nil); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range min(count, 1000) {
		add(fmt.Sprintf("/parent-%04d", i))
	}
	for i := range count {
		add(benchPath(i))
	}
}

// BenchmarkMemory prints the live heap per znode of a million with 100 bytes of data. Goal: 300 B or less.
func BenchmarkMemory(b *testing.B) {
	const count = 1_000_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		t := New()
		fill(b, t, count)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(t.Len()), "B/znode")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(t)
	}
}

func BenchmarkTree(b *testing.B) {
	const count = 1_000_000
	t := New()
	fill(b, t, count)
	paths := make([][]byte, 1<<16)
	for i := range paths {
		paths[i] = []byte(benchPath(i * 7919 % count))
	}
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if t.GetBytes(paths[i&(1<<16-1)]) == nil {
				b.Fatal("missing")
			}
		}
	})
	zxid, data := txn.Zxid(1)<<32, make([]byte, 100)
	b.Run("setData", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			zxid++
			if _, _, err := t.SetData(zxid, 1, &txn.SetData{Path: benchPath(i * 7919 % count), Data: data, Version: 1}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("create+delete", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			zxid++
			path := benchPath(count + i)
			if _, _, err := t.Create(zxid, 1, &txn.Create{Path: path, Data: data, ACL: proto.OpenACL()}, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := t.Delete(zxid, path, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	var blocks [][]byte
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			blocks = blocks[:0]
			if err := t.Clone().Encode(func(blk []byte) error { blocks = append(blocks, append([]byte(nil), blk...)); return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(t.Len())*float64(b.N)/b.Elapsed().Seconds(), "znodes/s")
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			l := NewLoader(nil)
			for _, blk := range blocks {
				if err := l.Add(blk); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(t.Len())*float64(b.N)/b.Elapsed().Seconds(), "znodes/s")
	})
}
