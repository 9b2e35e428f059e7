package live

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// BenchmarkClients compares this client with go-zookeeper: same servers, same work, 64 goroutines on one session. Beside the
// usual figures it reports the client process's CPU time per operation.
//
//	go test ./pkg/client/live -run '^$' -bench Clients
func BenchmarkClients(b *testing.B) {
	ctx := context.Background()
	ours, err := client.Dial(ctx, servers())
	require.NoError(b, err)
	defer ours.Close()
	theirs, _, err := zk.Connect(strings.Split(servers(), ","), 10*time.Second, zk.WithLogger(silent{}))
	require.NoError(b, err)
	defer theirs.Close()
	path := fmt.Sprintf("/bench-%x", time.Now().UnixNano())
	data := []byte(strings.Repeat("x", 100))
	_, err = ours.Create(ctx, path, data, client.Persistent, nil)
	require.NoError(b, err)
	defer ours.Delete(ctx, path, client.AnyVersion)
	_, err = theirs.Sync(path)
	require.NoError(b, err)

	for _, work := range []struct {
		name string
		do   func() error
	}{
		{"get/zkd", func() error { _, _, err := ours.Get(ctx, path); return err }},
		{"get/go-zookeeper", func() error { _, _, err := theirs.Get(path); return err }},
		{"set/zkd", func() error { _, err := ours.Set(ctx, path, data, -1); return err }},
		{"set/go-zookeeper", func() error { _, err := theirs.Set(path, data, -1); return err }},
	} {
		b.Run(work.name, func(b *testing.B) { together64(b, work.do) })
	}
	b.Run("get-batch/zkd", func(b *testing.B) {
		b.ReportAllocs()
		before := cpu()
		batch := ours.Batch(ctx)
		for b.Loop() {
			batch.Get(path)
		}
		require.NoError(b, batch.Wait())
		b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
	})
}

func together64(b *testing.B, do func() error) {
	b.ReportAllocs()
	before := cpu()
	work := make(chan struct{}, 64)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range work {
				if err := do(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	all.Wait()
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
