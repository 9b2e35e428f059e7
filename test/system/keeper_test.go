package system

import (
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who stops a server and waits for it may overwrite its program at once, or unmount its disk: the keeper, which has the memory and so the program, is gone too.
func TestAStoppedServerLeavesNoKeeper(t *testing.T) {
	c := newCluster(t, 1)
	c.start()
	p := c.procs[0]
	m := regexp.MustCompile(`memory keeper\s+\{"pid": (\d+)\}`).FindStringSubmatch(p.logText())
	if m == nil {
		t.Skip("there is none here")
	}
	keeper, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(keeper, 0))
	p.stop()
	require.ErrorIs(t, syscall.Kill(keeper, 0), syscall.ESRCH)
}
