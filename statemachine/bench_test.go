package statemachine

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

const benchNodes = 100_000

func benchPath(i int) string { return fmt.Sprintf("/parent-%04d/node-%09d-abcde", i%100, i) }

func benchMachine(b *testing.B) *history {
	h := newHistory(b, Config{})
	for i := range 100 {
		h.ask(proto.OpCreate, create(fmt.Sprintf("/parent-%04d", i), 0))
	}
	data := make([]byte, 100)
	for i := range benchNodes {
		d := h.pipeline(request(alice, proto.OpCreate, &proto.CreateRequest{Path: benchPath(i), Data: data, ACL: proto.OpenACL()}))
		rec := h.seal(&d[0])
		if _, err := h.m.Apply(&rec); err != nil {
			b.Fatal(err)
		}
	}
	return h
}

func BenchmarkRead(b *testing.B) {
	h := benchMachine(b)
	for _, op := range []proto.Op{proto.OpGetData, proto.OpExists, proto.OpGetACL} {
		payloads := make([][]byte, 1<<14)
		for i := range payloads {
			payloads[i] = (&proto.PathWatchRequest{Path: benchPath(i * 7919 % benchNodes)}).Append(nil)
		}
		b.Run(op.String(), func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			for i := 0; b.Loop(); i++ {
				var code proto.ErrCode
				if dst, _, code = h.m.Read(op, payloads[i&(1<<14-1)], anyone, dst[:0], nil); code != proto.OK {
					b.Fatal(code)
				}
			}
		})
	}
}

// BenchmarkList lists znodes with ten children each.
func BenchmarkList(b *testing.B) {
	const parents = 1000
	h := newHistory(b, Config{})
	payloads := make([][]byte, parents)
	for i := range parents {
		path := fmt.Sprintf("/parent-%04d", i)
		payloads[i] = (&proto.PathWatchRequest{Path: path}).Append(nil)
		h.ask(proto.OpCreate, create(path, 0))
		for k := range 10 {
			h.ask(proto.OpCreate, create(fmt.Sprintf("%s/child-%d", path, k), 0))
		}
	}
	b.ReportAllocs()
	var dst []byte
	var pivot Pivot
	for i := 0; b.Loop(); i++ {
		var code proto.ErrCode
		if dst, _, code = h.m.Read(proto.OpGetChildren2, payloads[i*389%parents], anyone, dst[:0], &pivot); code != proto.OK {
			b.Fatal(code)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	h := benchMachine(b)
	data := make([]byte, 100)
	const batch = 64
	for _, c := range []struct {
		name string
		make func(i int) txn.Request
	}{
		{"setData", func(i int) txn.Request {
			return request(alice, proto.OpSetData, &proto.SetDataRequest{Path: benchPath(i * 7919 % benchNodes), Data: data, Version: -1})
		}},
		{"create", func(i int) txn.Request {
			return request(alice, proto.OpCreate, &proto.CreateRequest{Path: "/parent-0001/s-", Data: data, ACL: proto.OpenACL(),
				Flags: proto.FlagPersistentSequential})
		}},
	} {
		b.Run("prepare+apply "+c.name, func(b *testing.B) {
			b.ReportAllocs()
			reqs := make([]txn.Request, batch)
			for i := range reqs {
				reqs[i] = c.make(i)
			}
			var dst []byte
			for i := 0; b.Loop(); i += batch {
				drafts := h.m.Prepare(reqs, 1)
				for j := range drafts {
					rec := h.seal(&drafts[j])
					res, err := h.m.Apply(&rec)
					if err != nil {
						b.Fatal(err)
					}
					dst = res.AppendReply(dst[:0])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/write")
		})
		b.Run("apply from bytes "+c.name, func(b *testing.B) {
			b.ReportAllocs()
			m := New(Config{})
			require.NoError(b, m.Restore(bytes.NewReader(snapshotBytes(b, h.m))))
			prev := h.prev
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				d := h.pipeline(c.make(i))
				rec := h.seal(&d[0])
				h.apply(rec)
				parsed, _, err := txn.ParseRecord(rec.Bytes)
				require.NoError(b, err)
				b.StartTimer()
				if _, err := m.Apply(&parsed); err != nil {
					b.Fatal(err)
				}
			}
			require.NotEqual(b, prev, h.prev)
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	h := benchMachine(b)
	file := snapshotBytes(b, h.m)
	b.Run("take", func(b *testing.B) {
		for b.Loop() {
			h.m.Snapshot()
		}
	})
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if _, err := h.m.Snapshot().WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(benchNodes)*float64(b.N)/b.Elapsed().Seconds(), "znodes/s")
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			if err := New(Config{}).Restore(bytes.NewReader(file)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(benchNodes)*float64(b.N)/b.Elapsed().Seconds(), "znodes/s")
	})
}
