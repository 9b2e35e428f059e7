package leader_test

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

var rewrite = flag.Bool("rewrite", false, "write what happened into testdata")

// TestStories plays the golden files of testdata. A file is blocks of commands, "----", and the trace they caused; the first comment says
// what the story is about. Nothing moves except by a command, and what is held does not move at all.
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
	var out bytes.Buffer
	s := &story{}
	inOutput := false
	flush := func() {
		if s.pump != nil {
			out.WriteString(s.trace.String())
			s.trace.Reset()
		}
	}
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case line == "----":
			inOutput = true
			out.WriteString("----\n")
			flush()
		case line == "":
			inOutput = false
			out.WriteString("\n")
		case inOutput:
		case strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		default:
			out.WriteString(line + "\n")
			s.command(t, strings.Fields(line))
		}
	}
	return out.String()
}

type story struct{ *pump }

func id(s string) zab.ServerID {
	n, _ := strconv.ParseUint(s, 10, 8)
	return zab.ServerID(n)
}

func num(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func (s *story) command(t *testing.T, f []string) {
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	if f[0] == "nodes" {
		s.pump = newPump(t, int(num(arg(1))))
		for _, opt := range f[2:] {
			s.option(t, opt)
		}
		for _, n := range s.nodes {
			n.boot()
		}
		return
	}
	if f[0] == "run" {
		s.run()
		return
	}
	if f[0] == "pass" {
		d, err := time.ParseDuration(arg(1))
		require.NoError(t, err)
		s.pass(d)
		return
	}
	if f[0] == "leap" { // time goes by and nobody runs
		d, err := time.ParseDuration(arg(1))
		require.NoError(t, err)
		s.now = s.now.Add(d)
		for _, n := range s.nodes {
			n.inbox = append(n.inbox, zab.Tick{})
		}
		return
	}
	if f[0] == "hold" || f[0] == "free" {
		s.hold(arg(1), arg(2), f[0] == "hold")
		return
	}
	n := s.node(id(arg(1)))
	switch f[0] {
	case "log":
		n.disk.records = s.makeLog(t, f[2:])
		n.boot()
	case "hard":
		n.disk.hard = parseHard(t, f[2:])
		n.boot()
	case "snapshot": // of everything in the log; the log is forgotten
		last := n.disk.records[len(n.disk.records)-1]
		table := n.local.Hist.Table.Clone()
		at := zab.Position{Zxid: last.Zxid, Chain: last.Chain}
		n.disk.base, n.disk.table, n.disk.snap, n.disk.snapAt, n.disk.records = at, table, at, table, nil
		n.boot()
	case "lead":
		n.becomeLeader()
	case "follow":
		n.becomeFollower(id(arg(2)), arg(3) == "observer")
	case "disk":
		n.complete()
		n.step()
	case "deliver":
		for _, x := range s.pipes {
			if x.from == n.id && x.to == id(arg(2)) {
				s.deliver(x)
				s.node(x.to).step()
				break
			}
		}
	case "submit":
		n.submit(1, f[2:]...)
	case "sync":
		n.inbox = append(n.inbox, zab.SyncAsked{ID: num(arg(2))})
	case "revalidate":
		n.inbox = append(n.inbox, zab.RevalidateAsked{Revalidate: zab.Revalidate{ID: num(arg(2)), Session: 7, TimeoutMillis: 4000}})
	case "sessions": // what the leader's tracker says from now on
		n.ending, n.unknown = arg(2) == "ending", arg(2) == "unknown"
	case "expired":
		n.inbox = append(n.inbox, zab.Expired{Sessions: []txn.SessionID{7, 8}})
	case "touched":
		n.inbox = append(n.inbox, zab.Touched{Touches: []zab.Touch{{Session: 7, TimeoutMillis: 4000}}})
	case "looking": // node 1 hears that another one looks for a leader again
		n.inbox = append(n.inbox, zab.Heard{From: id(arg(2)), Notification: zab.Notification{State: zab.Looking, Votable: true, Vote: zab.Vote{Leader: id(arg(2))}}})
	case "established":
		n.inbox = append(n.inbox, zab.Heard{From: id(arg(2)), Notification: zab.Notification{State: zab.Leading, EstablishedEpoch: txn.Epoch(num(arg(3)))}})
	case "full":
		n.local.DiskLow, n.local.DiskFull = true, true // as quorum does
		n.inbox = append(n.inbox, zab.Disk{Low: true, Full: true})
	case "stop":
		n.inbox = append(n.inbox, zab.Stop{})
	case "handover":
		n.inbox = append(n.inbox, zab.HandOver{Target: id(arg(2))})
	case "cut":
		s.cut(n.id, id(arg(2)))
	case "crash":
		s.crash(n)
	case "state":
		h := n.local.Hist
		s.printf("%d end %v durable %v commit %v applied %v, disk Ea=%d:%d Ec=%d%s", n.id, h.End.Zxid, h.Durable, h.Commit, h.Applied, n.disk.hard.Accepted,
			n.disk.hard.AcceptedLeader, n.disk.hard.Current, recovering(n.disk.hard))
	default:
		require.Fail(t, "unknown command", "%v", f)
	}
}

func (s *story) option(t *testing.T, opt string) {
	k, v, _ := strings.Cut(opt, "=")
	n := int(num(v))
	switch k {
	case "observer":
		s.cfg.Members.Servers[n-1].Observer = true
	case "inflight":
		s.cfg.InflightCount = n
	case "tail":
		s.cfg.TailBytes = n
	case "pending":
		s.cfg.MaxPending = n
	case "counterHard":
		s.cfg.CounterHard = uint32(n)
		s.cfg.CounterSoft = uint32(n)
	default:
		require.Fail(t, "unknown option", opt)
	}
}

func (s *story) hold(what, who string, held bool) {
	if what == "disk" {
		s.node(id(who)).disk.held = held
		return
	}
	from, to, _ := strings.Cut(who, ">")
	for _, x := range s.pipes {
		if x.from == id(from) && x.to == id(to) {
			x.held = held
		}
	}
}

// makeLog makes records from "1:1 1:2/x": what follows the slash makes a record differ from another with its zxid.
func (s *story) makeLog(t *testing.T, zxids []string) (recs []txn.Record) {
	var prev txn.Record
	for _, f := range zxids {
		text, other, _ := strings.Cut(f, "/")
		z, err := txn.ParseZxid(text)
		require.NoError(t, err)
		req := &txn.Request{}
		d := txn.NewDraft(&txn.Txn{Body: &txn.Delete{Path: "/" + other}}, req)
		prev = d.Seal(z, prev.Zxid, prev.Chain)
		recs = append(recs, prev)
	}
	return recs
}

func parseHard(t *testing.T, opts []string) (h zab.HardState) {
	h.ClusterID = 0xc1
	for _, opt := range opts {
		k, v, _ := strings.Cut(opt, "=")
		switch k {
		case "Ea":
			e, leader, _ := strings.Cut(v, ":")
			h.Accepted, h.AcceptedLeader = txn.Epoch(num(e)), id(leader)
		case "Ec":
			h.Current = txn.Epoch(num(v))
		case "recovering":
			h.Recovering, h.RecoveryID = true, num(v)
		default:
			require.Fail(t, "unknown option", fmt.Sprint(opts))
		}
	}
	return h
}
