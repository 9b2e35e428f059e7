package peer

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// slowToPrepare waits for leave in every Prepare once on is set.
type slowToPrepare struct {
	*register
	on      atomic.Bool
	entered chan struct{}
	leave   chan struct{}
}

func (s *slowToPrepare) Prepare(reqs []txn.Request, wall int64) []txn.Draft {
	if s.on.Load() {
		close(s.entered)
		<-s.leave
	}
	return s.register.Prepare(reqs, wall)
}

// Run waits for a turn on a client's goroutine, which is none of its own, and no turn begins behind it.
func TestNoTurnOutlivesRun(t *testing.T) {
	e := newEnsemble(t, 1, nil)
	m := e.members[0]
	e.halt(m)
	sm := &slowToPrepare{register: newRegister(), entered: make(chan struct{}), leave: make(chan struct{})}
	p, err := Open(m.cfg, sm, sm.register, sm.register, zap.NewNop())
	require.NoError(t, err)
	m.reg = sm.register
	ran := make(chan error, 1)
	go func() { ran <- p.Run(t.Context()) }()
	m.waitServing(t)
	sm.on.Store(true)
	req := []txn.Request{{Session: 1, Op: proto.OpSetData, Origin: 1, Conn: 1}}
	acted := make(chan struct{})
	go func() {
		defer close(acted)
		p.Submit(req, true)
		p.Act()
	}()
	<-sm.entered
	p.fail(errCrash)
	select {
	case <-ran:
		t.Error("the files are closed in the middle of a turn")
	case <-time.After(100 * time.Millisecond):
		defer func() { require.ErrorIs(t, <-ran, errCrash) }()
	}
	close(sm.leave)
	<-acted
	p.Submit(req, true)
	p.Act() // Prepare would panic
}
