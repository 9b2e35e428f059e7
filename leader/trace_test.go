package leader_test

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

func leaveText(l *zab.Leave) string {
	s := fmt.Sprintf("%q", l.Reason)
	for _, f := range []struct {
		set  bool
		word string
	}{{l.Lost, "lost"}, {l.Unreachable, "unreachable"}, {l.Stopped, "stopped"}} {
		if f.set {
			s += " " + f.word
		}
	}
	if l.Designated != 0 {
		s += fmt.Sprintf(" designated %d", l.Designated)
	}
	return s
}

func span(recs []txn.Record) string {
	switch len(recs) {
	case 0:
		return "nothing"
	case 1:
		return recs[0].Zxid.String()
	}
	return recs[0].Zxid.String() + ".." + recs[len(recs)-1].Zxid.String()
}

// effectText is one line of a trace; "" for what would only be noise.
func effectText(e zab.Effect) string {
	switch e := e.(type) {
	case zab.Send:
		if s := packetText(e.Packet); s != "" {
			return fmt.Sprintf("send c%d %s", e.Conn, s)
		}
	case zab.Close:
		return fmt.Sprintf("close c%d %v: %s", e.Conn, e.Bye.Code, e.Bye.Text)
	case zab.Dial:
		return fmt.Sprintf("dial %d", e.Peer)
	case zab.Append:
		return "disk append " + span(e.Records)
	case zab.SaveHardState:
		return fmt.Sprintf("disk Ea=%d:%d Ec=%d%s", e.State.Accepted, e.State.AcceptedLeader, e.State.Current, recovering(e.State))
	case zab.Truncate:
		return fmt.Sprintf("disk truncate to %v", e.To.Zxid)
	case zab.InstallSnapshot:
		return fmt.Sprintf("disk install snapshot %v", e.Begin.At.Zxid)
	case zab.Initialize:
		return "disk initialized"
	case zab.Apply:
		return "APPLY " + span(e.Records)
	case zab.Serve:
		return fmt.Sprintf("SERVE %v epoch %d", e.Role, e.Epoch)
	case zab.Established:
		return fmt.Sprintf("ESTABLISHED %d", e.Epoch)
	case zab.Fatal:
		return fmt.Sprintf("FATAL %d: %s", e.Code, e.Reason)
	case zab.Refuse:
		return fmt.Sprintf("refuse %d: %v", len(e.Refusals), e.Refusals[0].Code)
	case zab.SyncAnswer:
		return fmt.Sprintf("sync %d answered: %v %v", e.Synced.ID, e.Synced.OK, e.Synced.Zxid)
	case zab.RevalidateAnswer:
		return fmt.Sprintf("revalidate %d answered: ok %v valid %v at %v", e.Revalidated.ID, e.Revalidated.OK, e.Revalidated.Valid, e.Revalidated.Zxid)
	case zab.TouchSessions:
		return fmt.Sprintf("touch %d sessions of %d", len(e.Touches), e.From)
	case zab.Extend:
		return fmt.Sprintf("extend sessions by %v", zab.Instant(e.Nanos).Sub(0))
	case zab.ReadLog:
		return fmt.Sprintf("read log behind %v", e.After)
	case zab.SendSnapshot:
		return fmt.Sprintf("send snapshot, common %v known %v", e.Common, e.CommonKnown)
	case zab.ReceiveSnapshot:
		return fmt.Sprintf("receive snapshot %v", e.Begin.At.Zxid)
	case zab.Prepare:
		return fmt.Sprintf("prepare %d", len(e.Requests))
	case zab.Note:
		if e.Level != zab.Info {
			return fmt.Sprintf("note %s: %d %s", e.Message, e.Peer, e.Reason)
		}
	}
	return ""
}

func recovering(h zab.HardState) string {
	if h.Recovering {
		return " recovering"
	}
	return ""
}

func packetText(p zab.Packet) string {
	switch p := p.(type) {
	case *zab.FollowerInfo:
		return fmt.Sprintf("FOLLOWERINFO Ea=%d:%d Ec=%d%s", p.Accepted, p.AcceptedLeader, p.Current, votable(p.Votable))
	case *zab.LeaderInfo:
		return fmt.Sprintf("LEADERINFO %d", p.Epoch)
	case *zab.AckEpoch:
		return fmt.Sprintf("ACKEPOCH %d vote %v Ec=%d last %v", p.Epoch, p.Vote, p.Current, p.Last.Zxid)
	case *zab.Diff:
		return fmt.Sprintf("DIFF from %v", p.From.Zxid)
	case *zab.Trunc:
		return fmt.Sprintf("TRUNC to %v", p.To.Zxid)
	case *zab.SyncReject:
		return "SYNCREJECT " + p.Reason
	case *zab.NewLeader:
		return fmt.Sprintf("NEWLEADER %d end %v", p.Epoch, p.End.Zxid)
	case *zab.Ack:
		kind := "PROPOSE"
		if p.Kind == zab.AckNewLeader {
			kind = "NEWLEADER"
		}
		return fmt.Sprintf("ACK(%s) %v%s", kind, p.Durable, votable(p.Votable))
	case *zab.UpToDate:
		return fmt.Sprintf("UPTODATE commit %v", p.Commit)
	case *zab.Propose:
		return fmt.Sprintf("PROPOSE %s commit %v", span(p.Records), p.Commit)
	case *zab.Inform:
		return fmt.Sprintf("INFORM %s commit %v", span(p.Records), p.Commit)
	case *zab.Commit:
		return fmt.Sprintf("COMMIT %v", p.Commit)
	case *zab.Requests:
		return fmt.Sprintf("REQUESTS %d", len(p.Requests))
	case *zab.Refused:
		return fmt.Sprintf("REFUSED %d: %v", len(p.Refusals), p.Refusals[0].Code)
	case *zab.Handover:
		return fmt.Sprintf("HANDOVER to %d at %v", p.Target, p.Last)
	case *zab.Ping, *zab.Pong:
		return ""
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", p), "*zab.")
}

func votable(v bool) string {
	if v {
		return ""
	}
	return " not votable"
}
