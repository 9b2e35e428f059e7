package quorum

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/zab"
)

var rewrite = flag.Bool("rewrite", false, "write what the stories yield into testdata")

// story plays a file of commands against one node with stub cores. Commands above a line "----" are one Step unless said otherwise; below it is what
// the node asked for, up to an empty line.
//
//	new self=1 voters=1,2,3 observers=4 ec=1 end=1:5 fresh recovering vouched     (a Step without events)
//	up N | down N active|silent
//	hear N looking|leading|following|observing round= vote=N(ec,zxid) leader= est= ec= seq= answer= designated= unreachable=N,… unvotable fresh
//	accept CONN PEER | info CONN | conndown CONN | dialed CONN PEER | dialfail PEER
//	core phase=discovery|synchronization|broadcast est=E serve leave=REASON lost out-of-reach designated=N stopped busy
//	done | stop | submit | sync | revalidate | disk low | tick
//	wait D       (Steps at each deadline on the way)
//	core?        (what the core was told since the last question)
//	status
type story struct {
	t    *testing.T
	n    *Node
	core func() *stubCore
	now  zab.Instant
	out  bytes.Buffer
	seqs map[zab.ServerID]uint64
}

func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := play(t, string(want))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

func play(t *testing.T, text string) string {
	s := &story{t: t}
	var all strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		in, _, _ := strings.Cut(block+"\n", "----\n")
		s.out.Reset()
		s.block(in)
		fmt.Fprintf(&all, "%s----\n%s\n", in, s.out.String())
	}
	return strings.TrimRight(all.String(), "\n") + "\n"
}

func (s *story) block(in string) {
	var evs []zab.Event
	step := false
	for line := range strings.Lines(in) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		switch f[0] {
		case "new":
			s.begin(f[1:])
			step = true
		case "core":
			s.setCore(f[1:])
			step = true
		case "done":
			evs = append(evs, zab.DiskDone{ID: 1 << 40})
		case "wait":
			d, err := time.ParseDuration(f[1])
			require.NoError(s.t, err)
			s.wait(d)
		case "core?":
			for _, ev := range s.core().events {
				fmt.Fprintf(&s.out, "core <- %T\n", ev)
			}
			s.core().events = nil
		case "status":
			st := s.n.Status()
			fmt.Fprintf(&s.out, "%v leader=%d epoch=%d votable=%t elections=%d failover=%v diffs=%d reason=%q\n", st.Role, st.Leader, st.Epoch,
				st.Votable, st.Elections, time.Duration(st.LastFailover), st.SyncDiff, st.Reason)
		default:
			evs = append(evs, s.event(f))
		}
	}
	if step || len(evs) > 0 {
		s.step(evs)
	}
}

func (s *story) begin(args []string) {
	var srv server
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "self":
			srv.self = s.ids(v)[0]
		case "voters":
			srv.voters = s.ids(v)
		case "observers":
			srv.observers = s.ids(v)
		case "ec":
			srv.current = txn.Epoch(s.num(v))
		case "end":
			srv.end = s.zxid(v)
		case "fresh":
			srv.fresh = true
		case "recovering":
			srv.recovering = true
		case "vouched":
			srv.vouched = true
		default:
			s.t.Fatalf("new: %s", a)
		}
	}
	s.n, s.core = srv.node()
	s.now, s.seqs = 0, map[zab.ServerID]uint64{}
}

func (s *story) setCore(args []string) {
	c := s.core()
	leave := &zab.Leave{}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "phase":
			c.phase = map[string]zab.Phase{"discovery": zab.Discovery, "synchronization": zab.Synchronization, "broadcast": zab.Broadcast,
				"draining": zab.Draining}[v]
		case "est":
			c.epoch, c.phase = txn.Epoch(s.num(v)), zab.Broadcast
		case "serve":
			c.fx.Add(zab.Serve{Role: c.role, Leader: c.leader, Epoch: c.epoch})
		case "busy":
			h := c.local.Hard
			c.local.SaveHard(s.now, h)
		case "leave":
			leave.Reason, c.leave = v, leave
		case "lost":
			leave.Lost = true
		case "out-of-reach":
			leave.Unreachable = true
		case "full":
			leave.Full = true
		case "designated":
			leave.Designated = s.ids(v)[0]
		case "stopped":
			leave.Stopped = true
		default:
			s.t.Fatalf("core: %s", a)
		}
	}
}

func (s *story) event(f []string) zab.Event {
	arg := func(i int) string {
		require.Greater(s.t, len(f), i, "%v", f)
		return f[i]
	}
	switch f[0] {
	case "up":
		return zab.MeshUp{Peer: s.ids(arg(1))[0]}
	case "down":
		return zab.MeshDown{Peer: s.ids(arg(1))[0], Active: arg(2) == "active"}
	case "hear":
		return s.heard(f[1:])
	case "accept":
		return zab.Accepted{Conn: zab.ConnID(s.num(arg(1))), Peer: s.ids(arg(2))[0]}
	case "info":
		return zab.Received{Conn: zab.ConnID(s.num(arg(1))), Packet: &zab.FollowerInfo{}}
	case "conndown":
		return zab.ConnDown{Conn: zab.ConnID(s.num(arg(1)))}
	case "dialed":
		return zab.Dialed{Conn: zab.ConnID(s.num(arg(1))), Peer: s.ids(arg(2))[0]}
	case "dialfail":
		return zab.DialFailed{Peer: s.ids(arg(1))[0], Refused: true}
	case "stop":
		return zab.Stop{}
	case "submit":
		return zab.Submit{Requests: make([]txn.Request, 2)}
	case "sync":
		return zab.SyncAsked{ID: 1}
	case "revalidate":
		return zab.RevalidateAsked{}
	case "disk":
		return zab.Disk{Low: arg(1) != "roomy", Full: arg(1) == "full"}
	case "tick":
		return zab.Tick{}
	}
	s.t.Fatalf("command %v", f)
	return nil
}

func (s *story) heard(f []string) zab.Event {
	from := s.ids(f[0])[0]
	s.seqs[from]++
	m := zab.Notification{Votable: true, Seq: s.seqs[from]}
	m.State = map[string]zab.Role{"looking": zab.Looking, "leading": zab.Leading, "following": zab.Following, "observing": zab.Observing}[f[1]]
	if p := s.n.peer(from); p != nil {
		m.AnswerTo = p.seq // an answer to the latest, unless said otherwise
	}
	for _, a := range f[2:] {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "round":
			m.Round = s.num(v)
		case "vote":
			m.Vote = s.vote(v)
		case "leader":
			m.Leader = s.ids(v)[0]
		case "est":
			m.EstablishedEpoch = txn.Epoch(s.num(v))
		case "ec":
			m.CurrentEpoch = txn.Epoch(s.num(v))
		case "seq":
			m.Seq = s.num(v)
		case "answer":
			m.AnswerTo = s.num(v)
		case "designated":
			m.Designated = s.ids(v)[0]
		case "unreachable":
			m.Unreachable = s.ids(v)
		case "unvotable":
			m.Votable = false
		case "fresh":
			m.Fresh = true
		default:
			s.t.Fatalf("hear: %s", a)
		}
	}
	return zab.Heard{From: from, Notification: m}
}

func (s *story) step(evs []zab.Event) {
	for _, e := range s.n.Step(s.now, evs) {
		fmt.Fprintln(&s.out, effectString(e))
	}
	require.Greater(s.t, s.n.Deadline(), s.now, "the node would be stepped for ever")
}

func (s *story) wait(d time.Duration) {
	start, end := s.now, s.now.Add(d)
	for s.n.Deadline() <= end {
		s.now = s.n.Deadline()
		before := s.out.Len()
		s.step([]zab.Event{zab.Tick{}})
		if s.out.Len() > before {
			text := string(s.out.Bytes()[before:])
			s.out.Truncate(before)
			fmt.Fprintf(&s.out, "after %v:\n%s", s.now.Sub(start), text)
		}
	}
	s.now = end
}

func (s *story) num(v string) uint64 {
	x, err := strconv.ParseUint(v, 10, 64)
	require.NoError(s.t, err)
	return x
}

func (s *story) zxid(v string) txn.Zxid {
	z, err := txn.ParseZxid(v)
	require.NoError(s.t, err)
	return z
}

func (s *story) ids(v string) []zab.ServerID {
	var ids []zab.ServerID
	for _, x := range strings.Split(v, ",") {
		ids = append(ids, zab.ServerID(s.num(x)))
	}
	return ids
}

// vote reads 2(1,1:5).
func (s *story) vote(v string) zab.Vote {
	id, rest, _ := strings.Cut(strings.TrimSuffix(v, ")"), "(")
	ec, zxid, _ := strings.Cut(rest, ",")
	return zab.Vote{Leader: s.ids(id)[0], Epoch: txn.Epoch(s.num(ec)), Zxid: s.zxid(zxid)}
}
