package peer

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/zab"
)

// perform carries out one effect. Answers of the state are collected and told to the core before the turn ends.
func (p *Peer) perform(now zab.Instant, fx zab.Effect) {
	switch fx := fx.(type) {
	case zab.Tell:
		p.mesh.tell(fx.To, fx.Notification)
	case zab.Dial:
		p.dial(fx.Peer)
	case zab.Send:
		if s := p.stream(fx.Conn); s != nil {
			s.send(fx.Epoch, fx.Packet)
			p.touched[s] = struct{}{}
		}
	case zab.Close:
		p.closeStream(fx)
	case zab.Append, zab.SaveHardState, zab.Truncate, zab.Initialize:
		p.disk.queue(fx)
	case zab.InstallSnapshot:
		p.snaps.plan.Installs(fx)
		p.disk.queue(fx)
	case zab.ReadLog:
		p.readLog(fx)
	case zab.SendSnapshot:
		p.sendSnapshot(fx)
	case zab.ReceiveSnapshot:
		p.receiveSnapshot(fx)
	case zab.Prepare:
		p.answers = append(p.answers, zab.Prepared{Drafts: p.sm.Prepare(fx.Requests, p.cfg.Clock.Wall().UnixMilli())})
	case zab.Abandon:
		p.sm.Abandon()
	case zab.Apply:
		p.apply(fx)
	case zab.TouchSessions:
		p.ses.Touch(fx.From, fx.Touches, now)
	case zab.AskSession:
		known, ending := p.ses.Revalidate(fx.Owner, fx.Ask, now)
		p.answers = append(p.answers, zab.SessionState{Conn: fx.Conn, Ask: fx.Ask, Known: known, Ending: ending})
	case zab.AskDigest:
		digest, known := p.sm.DigestAt(fx.At)
		p.answers = append(p.answers, zab.StateDigest{At: fx.At, Digest: digest, Known: known})
	case zab.Established:
		p.ses.Established(now)
	case zab.Extend:
		p.ses.Extend(time.Duration(fx.Nanos))
	case zab.Refuse:
		p.edge.Refused(fx.Refusals)
	case zab.SyncAnswer:
		p.edge.Synced(fx.Synced)
	case zab.RevalidateAnswer:
		p.edge.Revalidated(fx.Revalidated)
	case zab.Serve:
		p.edge.Serve(fx.Role, fx.Leader, fx.Epoch)
		p.publish(now, true)
	case zab.Freeze:
		p.edge.Freeze(fx.Reason)
		p.publish(now, true)
	case zab.Note:
		p.note(fx)
		if fx.Message == zab.NoteRole {
			p.publish(now, true)
		}
	case zab.Fatal:
		p.fail(&FatalError{Code: fx.Code, Err: fmt.Errorf("%s", fx.Reason)}, zap.String("dump", fx.Dump))
	case zab.Ended:
		p.ended = true
	default:
		p.fail(&FatalError{Code: zab.ExitBrokenInvariant, Err: fmt.Errorf("peer: unknown effect %T", fx)})
	}
}

// dial begins a data connection; one that is still being made is given up, and nothing is heard of it.
func (p *Peer) dial(to zab.ServerID) {
	if p.giveUpDial != nil {
		p.giveUpDial()
	}
	srv, ok := p.cfg.Core.Members.Find(to)
	if !ok {
		p.inbox.put(zab.DialFailed{Peer: to, Reason: "not a member"})
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.giveUpDial = cancel
	p.wg.Go(func() {
		ended := make(chan struct{})
		defer close(ended)
		p.wg.Go(func() {
			select {
			case <-p.stopped:
				cancel()
			case <-ended:
			}
		})
		p.dialStream(ctx, srv)
	})
}

func (p *Peer) closeStream(fx zab.Close) {
	s := p.stream(fx.Conn)
	if s == nil {
		return
	}
	if fx.Bye.Code != zab.ByeNone {
		bye := fx.Bye
		s.send(0, &bye)
	}
	s.writeHere() // a handover is waited for, and the stream's writer would have to be woken first
	s.end()
}

func (p *Peer) apply(fx zab.Apply) {
	if err := p.sm.Apply(fx.Records); err != nil {
		p.fail(&FatalError{Code: zab.ExitBrokenInvariant, Err: fmt.Errorf("apply: %w; the files are kept as they are", err)})
		return
	}
	p.disk.commit.Store(uint64(fx.Records[len(fx.Records)-1].Zxid))
	p.snaps.applied(fx.Records)
}

// readLog reads for a cursor below the memory tail, beside the loop.
func (p *Peer) readLog(fx zab.ReadLog) {
	p.wg.Go(func() {
		recs, err := p.store.ReadAfter(fx.After, fx.MaxBytes)
		ev := zab.LogRead{Conn: fx.Conn, After: fx.After, Records: recs}
		if err != nil {
			ev.Records, ev.Gone = nil, true
			p.warnConn("read log for learner", fx.Conn, err)
		}
		p.inbox.put(ev)
	})
}
