package statemachine

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

const replayNodes = 300_000

// benchCreates is a session, the parents of benchPath, and then creates below them in an order that skips about.
func benchCreates(b *testing.B) []txn.Record {
	h := newHistory(b, Config{})
	var recs []txn.Record
	ask := func(path string) {
		d := h.pipeline(request(alice, proto.OpCreate, &proto.CreateRequest{Path: path, Data: make([]byte, 100), ACL: proto.OpenACL()}))
		rec := h.seal(&d[0])
		_, err := h.m.Apply(&rec)
		require.NoError(b, err)
		recs = append(recs, rec)
	}
	for i := range 100 {
		ask(proto.Parent(benchPath(i)))
	}
	for i := range replayNodes {
		ask(benchPath(i * 7919 % replayNodes))
	}
	return recs
}

// BenchmarkReplay is what a start does with a log, one step after the other.
func BenchmarkReplay(b *testing.B) {
	recs := benchCreates(b)
	parsed := make([]txn.Record, len(recs))
	parse := func() {
		for i := range recs {
			parsed[i], _, _ = txn.ParseRecord(recs[i].Bytes)
		}
	}
	decode := func() {
		for i := range parsed {
			if _, err := parsed[i].Txn(); err != nil {
				b.Fatal(err)
			}
		}
	}
	parse()
	decode()
	each := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(recs)), "ns/record")
	}
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			parse()
			b.StartTimer()
			decode()
		}
		each(b)
	})
	m := New(Config{})
	b.Run("apply", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			m = New(Config{})
			m.Postpone()
			b.StartTimer()
			if err := m.Replay(parsed); err != nil {
				b.Fatal(err)
			}
		}
		each(b)
	})
	b.Run("settle", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			m = New(Config{})
			m.Postpone()
			require.NoError(b, m.Replay(parsed))
			b.StartTimer()
			m.Settle()
		}
		each(b)
	})
	m = New(Config{})
	require.NoError(b, m.Replay(parsed))
	snapshot := snapshotBytes(b, m)
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			m = New(Config{})
			if err := m.Restore(bytes.NewReader(snapshot)); err != nil {
				b.Fatal(err)
			}
			m.Settle()
		}
		each(b)
	})
}
