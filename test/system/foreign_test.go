package system

import (
	"testing"

	"github.com/zkd-project/zkd/test/foreign/gozk/tour"
)

// TestAForeignClient takes go-zookeeper, an independent client, on a tour through each member.
func TestAForeignClient(t *testing.T) {
	// The tour does not expect a change of leader, which a disk that other tests keep busy may bring about.
	c := newCluster(t, 3, "zkd.hbTimeout=10000", "zkd.diskStall=20000", "zkd.proposalStall=20000")
	c.start()
	var servers []string
	for _, p := range c.procs {
		servers = append(servers, p.client)
	}
	passed := 0
	tour.Run(servers, func(ok bool, name, detail string) {
		if !ok {
			t.Errorf("%s: %s", name, detail)
			return
		}
		passed++
	})
	t.Logf("saw: go-zookeeper passed %d checks on three members", passed)
}
