package peer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/zab"
)

// TestAMemberWithAnotherStateIsCondemnedAndComesBack: over real sockets and disks (I-17).
func TestAMemberWithAnotherStateIsCondemnedAndComesBack(t *testing.T) {
	e := newEnsemble(t, 3, small)
	for _, m := range e.members {
		m.waitServing(t)
	}
	l := e.leader()
	l.write(0, 100)
	odd := e.others(l)[0]
	odd.waitApplied(t, 100)
	odd.reg.change(func() { odd.reg.skew = 1 })
	err := <-odd.done
	odd.stop()
	var fe *FatalError
	require.True(t, errors.As(err, &fe), "%v", err)
	require.Equal(t, zab.ExitBrokenInvariant, fe.Code)
	require.ErrorContains(t, err, "its digest at")

	l.write(100, 50) // the other two go on
	l.waitApplied(t, 150)
	e.start(odd)
	odd.waitApplied(t, 150)
	odd.reg.wait(t, "readmission", func() bool { return odd.status().Votable })
	aside, err := filepath.Glob(filepath.Join(odd.cfg.DataDir, "zkd", "damaged.*", "log.*"))
	require.NoError(t, err)
	require.NotEmpty(t, aside, "kept for people to look at")
	_, err = os.Stat(filepath.Dir(aside[0]))
	require.NoError(t, err)
	odd.reg.wait(t, "agreement", func() bool { return odd.status().DigestAgreed != 0 })
}
