package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/pkg/client"
)

// TestAnObserverServesAndNeverCounts makes the fourth of four servers an observer.
func TestAnObserverServesAndNeverCounts(t *testing.T) {
	c := newCluster(t, 4)
	for _, p := range c.procs {
		path := filepath.Join(p.dir, "zoo.cfg")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		lines := strings.Split(string(b), "\n")
		for i, l := range lines {
			if strings.HasPrefix(l, "server.4=") {
				lines[i] = l + ":observer"
			}
		}
		p.write("zoo.cfg", strings.Join(lines, "\n"))
	}
	c.start()
	o := c.procs[3]
	require.Equal(t, "observer", o.mode())
	cl := dial(t, o)
	_, err := cl.Create(within(t), "/through-the-observer", []byte("x"), client.Ephemeral, nil)
	require.NoError(t, err)
	data, _, err := dial(t, c.procs[0]).Get(within(t), "/through-the-observer")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	t.Logf("saw: digest of all four %s", c.sameDigest())

	// Without it nothing is missing; with it and one voter there is no quorum.
	o.kill()
	_, err = dial(t, c.procs[1]).Create(within(t), "/without", nil, client.Persistent, nil)
	require.NoError(t, err)
	o.start()
	c.waitServing(o)
	c.sameDigest()
	c.procs[0].kill()
	c.procs[1].kill()
	eventually(t, "no quorum, no service", func() bool { return c.procs[2].mode() == "" && o.mode() == "" })
	c.procs[0].start()
	c.waitServing(c.procs[0], c.procs[2], o)
	t.Logf("saw: one voter and an observer serve nobody; two voters do again")
}
