package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
)

// Leaders that die one after the other, each after it has served for a moment, are no reason to wait longer and longer.
func TestAConnectionThatServedResetsTheBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake) {
		c, fc := f.connected("a:1,b:2")
		began := time.Now()
		for range 30 {
			got := start(func() error { return c.Sync(t.Context(), "/") })
			fc.reply(fc.want(proto.OpSync, nil), proto.OK, &proto.SyncResponse{Path: "/"})
			require.NoError(t, <-got)
			fc.nc.Close()
			fc = <-f.conns
			fc.handshake(testTimeout)
		}
		require.Less(t, time.Since(began), time.Second)
		fc.closed(c)
	})
}
