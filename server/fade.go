package server

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

// fade asks for the deletion of containers and znodes with a time to live whose time is over, while this server leads. A request
// that is lost on the way is made again a round later.
func (s *Server) fade(ctx context.Context) {
	gap := time.Minute / time.Duration(s.cfg.FadePerMinute)
	for pause(ctx, s.cfg.FadeEvery); ctx.Err() == nil; pause(ctx, s.cfg.FadeEvery) {
		due := s.faded()
		for i := range due {
			if !s.leads() || ctx.Err() != nil {
				break
			}
			due[i].Origin = s.cfg.SelfID
			s.replicator.Submit(due[i:i+1:i+1], false)
			pause(ctx, gap)
		}
		if len(due) > 0 {
			s.log.Debug("containers and znodes with a time to live", zap.Int("due", len(due)))
		}
	}
}

func (s *Server) faded() []txn.Request {
	if !s.leads() {
		return nil
	}
	s.rep.mu.RLock()
	defer s.rep.mu.RUnlock()
	return s.rep.machine.Faded(s.cfg.Wall().UnixMilli(), s.cfg.NeverUsed)
}

// leads reports whether this server is the leader and serves.
func (s *Server) leads() bool {
	if serves, _ := s.hold.state(); !serves {
		return false
	}
	st := s.replicator.Status()
	return st.Role == zab.Leading && st.Phase == zab.Broadcast
}
